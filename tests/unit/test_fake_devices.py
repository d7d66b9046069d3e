"""Finding GPUs and what they are; GPUs that go and come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pynvml
import pytest

import fake_nvml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[fake_nvml.Fake]:
    with fake_nvml.open("hgx-h100-8", tmp_path) as opened:
        opened.nvml.nvmlInit()
        yield opened


def test_a_gpu_says_what_it_is(fake: fake_nvml.Fake) -> None:
    nvml = fake.nvml
    handle = nvml.nvmlDeviceGetHandleByIndex(3)
    assert nvml.nvmlDeviceGetName(handle) == "NVIDIA H100 80GB HBM3"
    assert nvml.nvmlDeviceGetUUID(handle) == fake.uuids()[3]
    assert nvml.nvmlDeviceGetMinorNumber(handle) == nvml.nvmlDeviceGetIndex(handle) == 3
    assert nvml.nvmlDeviceGetCudaComputeCapability(handle) == (9, 0)
    assert nvml.nvmlDeviceGetArchitecture(handle) == pynvml.NVML_DEVICE_ARCH_HOPPER
    assert nvml.nvmlDeviceGetBrand(handle) == pynvml.NVML_BRAND_NVIDIA
    assert nvml.nvmlDeviceGetMultiGpuBoard(handle) == 0
    assert nvml.nvmlDeviceGetNumGpuCores(handle) == 132 * 128
    assert nvml.nvmlDeviceGetComputeMode(handle) == pynvml.NVML_COMPUTEMODE_DEFAULT
    assert nvml.nvmlDeviceGetPersistenceMode(handle) == 1
    assert nvml.nvmlDeviceGetDisplayMode(handle) == nvml.nvmlDeviceGetDisplayActive(handle) == 0
    assert nvml.nvmlDeviceGetVirtualizationMode(handle) == 0
    assert len(nvml.nvmlDeviceGetSerial(handle)) == 13
    assert nvml.nvmlDeviceGetVbiosVersion(handle).startswith("60.00.")
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNumaNodeId(handle)


def test_the_pci_address_has_eight_domain_digits_and_a_short_form() -> None:
    with fake_nvml.open("gb200-4") as fake:
        fake.nvml.nvmlInit()
        info = fake.nvml.nvmlDeviceGetPciInfo(fake.nvml.nvmlDeviceGetHandleByIndex(2))
        assert (info.busId, info.busIdLegacy) == ("00000018:01:00.0", "0018:01:00.0")
        assert (info.domain, info.bus, info.device) == (0x18, 1, 0)
        assert info.pciDeviceId == 0x2941_10DE
        assert fake.nvml.nvmlDeviceGetPciInfo_v3(fake.nvml.nvmlDeviceGetHandleByIndex(2)).busId == info.busId


def test_handles_by_uuid_pci_address_and_serial_are_the_same_device(fake: fake_nvml.Fake) -> None:
    nvml = fake.nvml
    by_index = nvml.nvmlDeviceGetHandleByIndex(1)
    serial = nvml.nvmlDeviceGetSerial(by_index)
    for found in (
        nvml.nvmlDeviceGetHandleByUUID(fake.uuids()[1]),
        nvml.nvmlDeviceGetHandleByUUID(fake.uuids()[1].encode()),
        nvml.nvmlDeviceGetHandleByPciBusId("00000000:43:00.0"),
        nvml.nvmlDeviceGetHandleByPciBusId(b"0000:43:00.0"),
        nvml.nvmlDeviceGetHandleByPciBusId("43:00.0"),
        nvml.nvmlDeviceGetHandleBySerial(serial),
        nvml.nvmlDeviceGetHandleBySerial(serial.encode()),
    ):
        assert isinstance(found, pynvml.c_nvmlDevice_t)
        assert nvml.nvmlDeviceGetIndex(found) == 1


@pytest.mark.parametrize("uuid", ["GPU-0", "", "MIG-GPU-x/1/0"])
def test_unknown_uuids_are_not_found(fake: fake_nvml.Fake, uuid: str) -> None:
    with pytest.raises(pynvml.NVMLError_NotFound):
        fake.nvml.nvmlDeviceGetHandleByUUID(uuid)


@pytest.mark.parametrize("address", ["nonsense", "0000:44:00.0", "a:b", ""])
def test_unknown_pci_addresses_are_not_found(fake: fake_nvml.Fake, address: str) -> None:
    with pytest.raises(pynvml.NVMLError_NotFound):
        fake.nvml.nvmlDeviceGetHandleByPciBusId(address)


def test_an_unknown_serial_is_not_found(fake: fake_nvml.Fake) -> None:
    with pytest.raises(pynvml.NVMLError_NotFound):
        fake.nvml.nvmlDeviceGetHandleBySerial("1")


@pytest.mark.parametrize("index", [8, -1, 1 << 31])
def test_an_index_out_of_range_is_invalid(fake: fake_nvml.Fake, index: int) -> None:
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvml.nvmlDeviceGetHandleByIndex(index)


def test_an_index_that_is_no_number_is_a_type_error_as_ctypes_makes_it(fake: fake_nvml.Fake) -> None:
    with pytest.raises(TypeError):
        fake.nvml.nvmlDeviceGetHandleByIndex("0")  # type: ignore[arg-type]


def test_facts_that_some_machines_do_not_have() -> None:
    with fake_nvml.open("wsl-1") as fake:
        fake.nvml.nvmlInit()
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        for call in (
            fake.nvml.nvmlDeviceGetMinorNumber,
            fake.nvml.nvmlDeviceGetSerial,
            fake.nvml.nvmlDeviceGetComputeRunningProcesses,
            fake.nvml.nvmlDeviceGetComputeRunningProcesses_v3,
            fake.nvml.nvmlDeviceGetSupportedEventTypes,
            fake.nvml.nvmlDeviceGetMigMode,
        ):
            with pytest.raises(pynvml.NVMLError_NotSupported):
                call(handle)
    with fake_nvml.open("gb10-1") as fake:
        fake.nvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_NotSupported):
            fake.nvml.nvmlDeviceGetMemoryInfo(fake.nvml.nvmlDeviceGetHandleByIndex(0))


def test_a_lost_gpu_counts_until_the_library_is_initialised_anew(fake: fake_nvml.Fake) -> None:
    nvml = fake.nvml
    handle = nvml.nvmlDeviceGetHandleByIndex(2)
    fake.lose(2)
    assert nvml.nvmlDeviceGetCount() == 8
    calls: list[tuple[Any, Any]] = [
        (nvml.nvmlDeviceGetName, handle),
        (nvml.nvmlDeviceGetHandleByIndex, 2),
        (nvml.nvmlDeviceGetHandleByUUID, fake.uuids()[2]),
    ]
    for call, argument in calls:
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            call(argument)
    assert nvml.nvmlDeviceGetMinorNumber(nvml.nvmlDeviceGetHandleByIndex(3)) == 3
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetCount() == 7
    assert nvml.nvmlDeviceGetMinorNumber(nvml.nvmlDeviceGetHandleByIndex(2)) == 3  # index is not minor


def test_a_gpu_that_comes_back_answers_to_its_old_handle(fake: fake_nvml.Fake) -> None:
    handle = fake.nvml.nvmlDeviceGetHandleByIndex(2)
    fake.lose(2, silent=True)
    fake.back(2)
    assert fake.nvml.nvmlDeviceGetIndex(handle) == 2


def test_an_unplugged_gpu_is_gone_from_the_bus_and_seen_again_after_the_next_init(
    fake: fake_nvml.Fake, tmp_path: Path
) -> None:
    nvml, device = fake.nvml, tmp_path / "sys/bus/pci/devices/0000:52:00.0"
    handle = nvml.nvmlDeviceGetHandleByIndex(2)
    fake.unplug(2)
    assert not device.exists()
    assert not (tmp_path / "dev/nvidia2").exists()
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetName(handle)
    with pytest.raises(fake_nvml.Refused, match="not plugged in"):
        fake.unplug(2)
    with pytest.raises(fake_nvml.Refused, match="not plugged in"):
        fake.reset(2, force=True)
    fake.plug(2)
    with pytest.raises(fake_nvml.Refused, match="already"):
        fake.plug(2)
    assert device.exists()
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetName(handle)
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(2)) == "NVIDIA H100 80GB HBM3"


def test_a_reset_is_refused_while_anyone_holds_the_driver_open(fake: fake_nvml.Fake) -> None:
    fake.xid(3, 48)
    with pytest.raises(fake_nvml.InUse, match="release"):
        fake.reset(3)
    fake.nvml.nvmlShutdown()
    fake.reset(3)
    fake.nvml.nvmlInit()
    handle = fake.nvml.nvmlDeviceGetHandleByIndex(3)
    assert fake.nvml.nvmlDeviceGetFieldValues(handle, [230])[0].value.uiVal == 0


def test_a_forced_reset_leaves_old_handles_lost(fake: fake_nvml.Fake) -> None:
    handle = fake.nvml.nvmlDeviceGetHandleByIndex(3)
    fake.reset(3, force=True)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        fake.nvml.nvmlDeviceGetName(handle)
    fake.nvml.nvmlShutdown()
    fake.nvml.nvmlInit()
    assert fake.nvml.nvmlDeviceGetCount() == 8


def test_two_gpus_can_swap_their_index(fake: fake_nvml.Fake) -> None:
    fake.swap(0, 5)
    found = [fake.nvml.nvmlDeviceGetUUID(fake.nvml.nvmlDeviceGetHandleByIndex(i)) for i in range(8)]
    uuids = fake.uuids()
    assert found == [uuids[i] for i in (5, 1, 2, 3, 4, 0, 6, 7)]


def test_uuids_are_the_same_in_every_run() -> None:
    with (
        fake_nvml.open("hgx-h100-8") as one,
        fake_nvml.open("hgx-h100-8") as two,
        fake_nvml.open("hgx-h200-8") as other,
    ):
        assert one.uuids() == two.uuids()
        assert set(one.uuids()).isdisjoint(other.uuids())


def test_operations_on_gpus_that_do_not_exist_are_refused(fake: fake_nvml.Fake) -> None:
    with pytest.raises(fake_nvml.Refused, match="no GPU 8; hgx-h100-8 has 8"):
        fake.lose(8)
