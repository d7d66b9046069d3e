"""Faults on calls: codes, wrong answers, slowness, hangs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

import fake_nvml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def fake() -> Iterator[fake_nvml.Fake]:
    with fake_nvml.open("hgx-h100-8") as opened:
        opened.nvml.nvmlInit()
        yield opened


def _power(fake: fake_nvml.Fake, gpu: int) -> int:
    return fake.nvml.nvmlDeviceGetPowerUsage(fake.nvml.nvmlDeviceGetHandleByIndex(gpu))


def test_a_call_can_answer_any_code_for_one_gpu(fake: fake_nvml.Fake) -> None:
    fake.fault("nvmlDeviceGetPowerUsage", gpu=3, code=pynvml.NVML_ERROR_NO_PERMISSION)
    with pytest.raises(pynvml.NVMLError_NoPermission):
        _power(fake, 3)
    assert _power(fake, 2) > 0
    fake.clear()
    assert _power(fake, 3) > 0


def test_a_pattern_meets_many_calls(fake: fake_nvml.Fake) -> None:
    fake.fault("nvmlDeviceGetMem*", code=pynvml.NVML_ERROR_UNKNOWN)
    handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(pynvml.NVMLError_Unknown):
        fake.nvml.nvmlDeviceGetMemoryInfo(handle)
    assert fake.nvml.nvmlDeviceGetName(handle)


def test_the_fault_follows_the_gpu_to_its_mig_devices_and_to_look_up_by_index(fake: fake_nvml.Fake) -> None:
    fake.mig(1, ["3g.40gb"], force=True)
    gpu = fake.nvml.nvmlDeviceGetHandleByIndex(1)
    device = fake.nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    fake.fault("nvmlDeviceGetUUID", gpu=1, code=999)
    fake.fault("nvmlDeviceGetHandleByIndex", gpu=1, code=4)
    with pytest.raises(pynvml.NVMLError_Unknown):
        fake.nvml.nvmlDeviceGetUUID(device)
    with pytest.raises(pynvml.NVMLError_NoPermission):
        fake.nvml.nvmlDeviceGetHandleByIndex(1)
    assert fake.nvml.nvmlDeviceGetHandleByIndex(2)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvml.nvmlDeviceGetHandleByIndex(99)


def test_faults_begin_after_some_calls_and_end_after_some(fake: fake_nvml.Fake) -> None:
    fake.fault("nvmlDeviceGetPowerUsage", code=15, after=2, times=3)
    told = []
    for _ in range(7):
        try:
            told.append(_power(fake, 0) > 0)
        except pynvml.NVMLError_GpuIsLost:
            told.append(False)
    assert told == [True, True, False, False, False, True, True]


@pytest.mark.parametrize(
    ("call", "value", "ask"),
    [
        ("nvmlDeviceGetCount", -1, lambda nvml: nvml.nvmlDeviceGetCount()),
        ("nvmlDeviceGetUUID", "", lambda nvml: nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(0))),
        ("nvmlDeviceGetMigMode", [7, 7], lambda nvml: nvml.nvmlDeviceGetMigMode(nvml.nvmlDeviceGetHandleByIndex(0))),
    ],
)
def test_an_answer_can_be_garbage(fake: fake_nvml.Fake, call: str, value: Any, ask: Callable[[Any], Any]) -> None:
    fake.fault(call, value=value)
    assert ask(fake.nvml) == value


def test_a_member_of_an_answer_can_be_garbage(fake: fake_nvml.Fake) -> None:
    fake.fault("nvmlDeviceGetMemoryInfo", gpu=0, value={"free": 1 << 63})
    info = fake.nvml.nvmlDeviceGetMemoryInfo(fake.nvml.nvmlDeviceGetHandleByIndex(0))
    assert (info.total, info.free) == (81559 << 20, 1 << 63)


def test_two_gpus_can_have_one_uuid(fake: fake_nvml.Fake) -> None:
    fake.fault("nvmlDeviceGetUUID", gpu=1, value=fake.uuids()[0])
    nvml = fake.nvml
    assert len({nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(i)) for i in range(8)}) == 7


def test_a_field_can_fail_alone(fake: fake_nvml.Fake) -> None:
    fake.fault("field:230", gpu=2, code=pynvml.NVML_ERROR_NOT_SUPPORTED)
    for gpu, code in ((2, pynvml.NVML_ERROR_NOT_SUPPORTED), (1, 0)):
        values = fake.nvml.nvmlDeviceGetFieldValues(fake.nvml.nvmlDeviceGetHandleByIndex(gpu), [147, 230])
        assert [value.nvmlReturn for value in values] == [0, code]


def test_init_can_fail(fake: fake_nvml.Fake) -> None:
    fake.fault("nvmlInitWithFlags", code=pynvml.NVML_ERROR_DRIVER_NOT_LOADED, times=1)
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        fake.nvml.nvmlInit()
    fake.nvml.nvmlInit()


def test_a_call_can_be_slow(fake: fake_nvml.Fake) -> None:
    fake.fault("nvmlDeviceGetPowerUsage", delay=0.05)
    before = time.monotonic()
    assert _power(fake, 0) > 0
    assert time.monotonic() - before >= 0.05


def _hanging(fake: fake_nvml.Fake, gpu: int) -> tuple[threading.Thread, list[int]]:
    got: list[int] = []
    thread = threading.Thread(target=lambda: got.append(_power(fake, gpu)))
    thread.start()
    deadline = time.monotonic() + 10
    while not fake.calls["nvmlDeviceGetPowerUsage"] and time.monotonic() < deadline:
        thread.join(0.001)
    return thread, got


@pytest.mark.parametrize("end", ["release", "release-call", "clear", "close"])
def test_a_call_can_hang_until_it_is_let_go_and_others_go_on_meanwhile(fake: fake_nvml.Fake, end: str) -> None:
    fake.hang("nvmlDeviceGetPowerUsage", gpu=3)
    thread, got = _hanging(fake, 3)
    assert _power(fake, 2) > 0
    assert not got
    if end == "release-call":
        fake.release("nvmlDeviceGetName")
        assert not got
    ends = {"release": fake.release, "clear": fake.clear, "close": fake.close}
    ends.get(end, lambda: fake.release("nvmlDeviceGetPowerUsage"))()
    thread.join(10)
    assert got


def test_faults_that_make_no_sense_are_refused(fake: fake_nvml.Fake) -> None:
    with pytest.raises(fake_nvml.Refused, match="did you mean nvmlDeviceGetPowerUsage"):
        fake.fault("nvmlDeviceGetPowerUse", code=3)
    with pytest.raises(fake_nvml.Refused, match="no GPU 9"):
        fake.fault("nvmlDeviceGetName", gpu=9, code=3)
    with pytest.raises(fake_nvml.Refused, match="None"):
        fake.fault("nvmlDeviceGetName", value=None)


def test_the_checks_of_a_driver_come_before_the_fault(fake: fake_nvml.Fake) -> None:
    fake.fault("nvmlDeviceGetName", code=999)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvml.nvmlDeviceGetName(None)  # type: ignore[arg-type]
