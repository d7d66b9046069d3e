"""What the plugin relies on in the driver's functions, promised by the pretend driver and by the real one."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import pynvml
import pytest

import fake_nvml
from deviceplugin.nvml import api as seam
from deviceplugin.nvml.api import NvmlApi
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.eventset import WANTED


def code_of(call: Callable[..., Any], *arguments: Any) -> int:
    """The return code of a call: 0 after an answer."""
    try:
        call(*arguments)
    except pynvml.NVMLError as error:
        return int(error.value)
    return 0


def address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def handles(api: NvmlApi) -> list[Any]:
    return [api.nvmlDeviceGetHandleByIndex(index) for index in range(api.nvmlDeviceGetCount())]


def functions() -> list[str]:
    """The functions that make up the seam."""
    parts = [one for one in seam.NvmlApi.__mro__ if one.__module__ == seam.__name__]
    return sorted({name for part in parts for name in vars(part) if name.startswith("nvml")})


def test_the_seam_is_made_of_functions_that_both_drivers_have() -> None:
    names = functions()
    assert len(names) > 45
    with fake_nvml.open("t4x1") as fake:
        for name in names:
            assert callable(getattr(pynvml, name)), name
            pretended = getattr(type(fake.nvml), name, None)
            assert pretended is not None or name == "nvmlDeviceGetGpuFabricInfo", name


def test_before_it_is_initialised_nothing_answers(driver: Driver) -> None:
    api = driver.api
    driver.shutdown()
    assert code_of(api.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNINITIALIZED
    assert code_of(api.nvmlShutdown) == pynvml.NVML_ERROR_UNINITIALIZED
    driver.initialise()
    assert code_of(api.nvmlDeviceGetCount) == 0


def test_initialisation_with_the_flag_for_no_gpus_finds_them_all_the_same(driver: Driver) -> None:
    assert driver.api.nvmlDeviceGetCount() > 0


def test_an_index_past_the_last_is_an_invalid_argument(driver: Driver) -> None:
    api = driver.api
    count = api.nvmlDeviceGetCount()
    assert code_of(api.nvmlDeviceGetHandleByIndex, count) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_uuids_are_distinct_and_lead_back_to_the_same_handle(driver: Driver) -> None:
    api = driver.api
    found = {api.nvmlDeviceGetUUID(handle): address(handle) for handle in handles(api)}
    assert len(found) == api.nvmlDeviceGetCount()
    for uuid, place in found.items():
        assert address(api.nvmlDeviceGetHandleByUUID(uuid)) == place
    nobody = "GPU-00000000-0000-0000-0000-000000000000"
    assert code_of(api.nvmlDeviceGetHandleByUUID, nobody) == pynvml.NVML_ERROR_NOT_FOUND


def test_text_is_text_and_pci_ids_have_eight_digits_of_domain(driver: Driver) -> None:
    api = driver.api
    assert isinstance(api.nvmlSystemGetDriverVersion(), str)
    assert api.nvmlSystemGetCudaDriverVersion() >= 11000
    for handle in handles(api):
        assert isinstance(api.nvmlDeviceGetName(handle), str)
        bus = api.nvmlDeviceGetPciInfo(handle).busId
        text = bus.decode() if isinstance(bus, bytes) else bus
        domain, _, rest = text.partition(":")
        assert (len(domain), len(rest)) == (8, 7)


def test_field_values_carry_a_code_each(driver: Driver) -> None:
    api = driver.api
    wanted = [pynvml.NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT, 65_000, (pynvml.NVML_FI_DEV_NVLINK_GET_STATE, 0)]
    for handle in handles(api):
        values = api.nvmlDeviceGetFieldValues(handle, wanted)
        assert [value.fieldId for value in values] == [147, 65_000, 165]
        assert values[1].nvmlReturn != pynvml.NVML_SUCCESS
        assert {value.nvmlReturn for value in values} <= {0, 2, 3}


def test_links_end_with_a_code_and_not_with_an_answer(driver: Driver) -> None:
    api = driver.api
    for handle in handles(api):
        codes = [
            code_of(api.nvmlDeviceGetNvLinkState, handle, link) for link in range(pynvml.NVML_NVLINK_MAX_LINKS + 1)
        ]
        assert set(codes) <= {0, pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED}
        assert codes[-1] == pynvml.NVML_ERROR_INVALID_ARGUMENT or 0 not in codes


def test_mig_is_told_or_not_supported_and_slots_past_the_last_are_refused(driver: Driver) -> None:
    api = driver.api
    for handle in handles(api):
        code = code_of(api.nvmlDeviceGetMigMode, handle)
        assert code in {0, pynvml.NVML_ERROR_NOT_SUPPORTED}
        if code == 0:
            current, pending = api.nvmlDeviceGetMigMode(handle)
            assert {current, pending} <= {0, 1}
            slots = api.nvmlDeviceGetMaxMigDeviceCount(handle)
            assert 0 <= slots <= 8
            refused = code_of(api.nvmlDeviceGetMigDeviceHandleByIndex, handle, 100)
            assert refused in {pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_FOUND}


def test_the_fabric_structure_is_filled_by_reference_and_its_version_checked(driver: Driver) -> None:
    api = driver.api
    for handle in handles(api):
        info = pynvml.c_nvmlGpuFabricInfo_v2_t()
        code = code_of(api.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info))
        assert code in {0, pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
        if code == 0:
            assert info.state in range(4)
            info.version = 77
            refused = code_of(api.nvmlDeviceGetGpuFabricInfoV, handle, ctypes.byref(info))
            assert refused in {pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, pynvml.NVML_ERROR_INVALID_ARGUMENT}


def test_an_event_set_takes_what_is_supported_and_waits_no_longer_than_asked(driver: Driver) -> None:
    api = driver.api
    events = api.nvmlEventSetCreate()
    heard = 0
    for handle in handles(api):
        if code_of(api.nvmlDeviceGetSupportedEventTypes, handle) == 0:
            mask = api.nvmlDeviceGetSupportedEventTypes(handle) & WANTED
            assert code_of(api.nvmlDeviceRegisterEvents, handle, mask, events) == 0
            heard += 1
    if heard:
        began = time.monotonic()
        assert code_of(api.nvmlEventSetWait_v2, events, 50) == pynvml.NVML_ERROR_TIMEOUT
        assert 0.04 < time.monotonic() - began < 2
    assert code_of(api.nvmlEventSetFree, events) == 0


def test_memory_adds_up(driver: Driver) -> None:
    api = driver.api
    for handle in handles(api):
        code = code_of(api.nvmlDeviceGetMemoryInfo, handle)
        assert code in {0, pynvml.NVML_ERROR_NOT_SUPPORTED}
        if code == 0:
            info = api.nvmlDeviceGetMemoryInfo(handle)
            assert info.total > 1 << 30
            assert info.used + info.free == info.total


@pytest.mark.parametrize("index", [pynvml.NVML_P2P_CAPS_INDEX_NVLINK])
def test_pairs_answer_alike_in_both_directions(driver: Driver, index: int) -> None:
    api = driver.api
    first, *others = handles(api)
    for other in others[:3]:
        for call, more in ((api.nvmlDeviceGetTopologyCommonAncestor, ()), (api.nvmlDeviceGetP2PStatus, (index,))):
            there, back = code_of(call, first, other, *more), code_of(call, other, first, *more)
            assert there == back
            if there == 0:
                assert call(first, other, *more) == call(other, first, *more)
