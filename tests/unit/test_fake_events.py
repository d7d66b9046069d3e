"""Events: who is told what, waiting, and that waiting costs nothing."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

import fake_nvml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL = 0xFFFFFFFF
XID, RECOVERY = pynvml.nvmlEventTypeXidCriticalError, pynvml.nvmlEventTypeGpuRecoveryAction


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[fake_nvml.Fake]:
    with fake_nvml.open("hgx-h100-8", tmp_path) as opened:
        opened.nvml.nvmlInit()
        yield opened


def _listen(fake: fake_nvml.Fake, *gpus: int, kinds: int = XID) -> Any:
    events = fake.nvml.nvmlEventSetCreate()
    for gpu in gpus:
        fake.nvml.nvmlDeviceRegisterEvents(fake.nvml.nvmlDeviceGetHandleByIndex(gpu), kinds, events)
    return events


def _next(fake: fake_nvml.Fake, events: Any, timeout_ms: int = 0) -> tuple[int, int, int, int, int]:
    data = fake.nvml.nvmlEventSetWait_v2(events, timeout_ms)
    index = fake.nvml.nvmlDeviceGetIndex(data.device)
    return index, data.eventType, data.eventData, data.gpuInstanceId, data.computeInstanceId


def test_an_xid_comes_with_its_gpu_and_number(fake: fake_nvml.Fake) -> None:
    events = _listen(fake, 2, 3)
    fake.xid(3, 48)
    assert _next(fake, events) == (3, XID, 48, ALL, ALL)
    with pytest.raises(pynvml.NVMLError_Timeout):
        _next(fake, events)


def test_only_registered_gpus_and_kinds_are_told(fake: fake_nvml.Fake) -> None:
    events = _listen(fake, 3)
    fake.xid(2, 48)
    fake.ecc(3)
    with pytest.raises(pynvml.NVMLError_Timeout):
        fake.nvml.nvmlEventSetWait(events, 0)


def test_registering_again_adds_kinds(fake: fake_nvml.Fake) -> None:
    events = _listen(fake, 3)
    handle = fake.nvml.nvmlDeviceGetHandleByIndex(3)
    fake.nvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeDoubleBitEccError, events)
    fake.ecc(3)
    fake.xid(3, 13)
    assert [_next(fake, events)[1:3] for _ in range(2)] == [(pynvml.nvmlEventTypeDoubleBitEccError, 0), (XID, 13)]


def test_an_event_of_a_mig_instance_names_it(fake: fake_nvml.Fake) -> None:
    fake.mig(0, ["3g.40gb"], force=True)
    events = _listen(fake, 0)
    fake.xid(0, 94, gi=1, ci=0)
    fake.xid(0, 94, gi=1)
    fake.xid(0, 94, ci=0)
    assert [_next(fake, events)[3:] for _ in range(3)] == [(1, 0), (1, ALL), (ALL, 0)]
    with pytest.raises(fake_nvml.Refused, match="no GPU instance 5"):
        fake.xid(0, 94, gi=5)


def test_every_set_gets_its_own_copy(fake: fake_nvml.Fake) -> None:
    one, two = _listen(fake, 1), _listen(fake, 1)
    fake.xid(1, 31)
    assert _next(fake, one) == _next(fake, two)


def test_kinds_that_a_gpu_cannot_send_are_not_supported() -> None:
    with fake_nvml.open("rtx4090-2") as fake:
        fake.nvml.nvmlInit()
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        assert fake.nvml.nvmlDeviceGetSupportedEventTypes(handle) == XID
        events = fake.nvml.nvmlEventSetCreate()
        with pytest.raises(pynvml.NVMLError_NotSupported):
            fake.nvml.nvmlDeviceRegisterEvents(handle, XID | pynvml.nvmlEventTypeDoubleBitEccError, events)
        fake.nvml.nvmlDeviceRegisterEvents(handle, XID, events)


@pytest.mark.parametrize(("version", "sent"), [("580.95.05", True), ("550.54.15", False)])
def test_the_recovery_event_came_with_driver_570(version: str, *, sent: bool) -> None:
    with fake_nvml.open(f"hgx-h100-8?driver={version}") as fake:
        fake.nvml.nvmlInit()
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        assert bool(fake.nvml.nvmlDeviceGetSupportedEventTypes(handle) & RECOVERY) is sent
        value = fake.nvml.nvmlDeviceGetFieldValues(handle, [230])[0]
        assert (value.nvmlReturn == 0) is sent


def test_a_changed_recovery_action_comes_as_xid_154_and_as_an_event_of_its_own(fake: fake_nvml.Fake) -> None:
    events = _listen(fake, 3, kinds=XID | RECOVERY)
    fake.recovery(3, pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET)
    assert [_next(fake, events)[1:3] for _ in range(2)] == [(XID, 154), (RECOVERY, 0)]


def test_any_event_can_be_sent(fake: fake_nvml.Fake) -> None:
    events = _listen(fake, 3, kinds=pynvml.nvmlEventTypeClock)
    fake.event(3, pynvml.nvmlEventTypeClock)
    assert _next(fake, events)[1:3] == (pynvml.nvmlEventTypeClock, 0)


def test_a_fatal_xid_asks_for_a_reset_unless_it_is_bare_or_an_instances(fake: fake_nvml.Fake) -> None:
    def action(gpu: int) -> int:
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(gpu)
        return int(fake.nvml.nvmlDeviceGetFieldValues(handle, [230])[0].value.uiVal)

    fake.mig(3, ["3g.40gb"], force=True)
    fake.xid(0, 48)
    fake.xid(1, 48, effects=False)
    fake.xid(2, 31)
    fake.xid(3, 95, gi=1)
    assert [action(gpu) for gpu in range(4)] == [1, 0, 0, 0]


def test_after_a_loss_the_wait_hands_out_what_came_and_then_says_so(fake: fake_nvml.Fake) -> None:
    events = _listen(fake, 2, 3)
    fake.lose(2)
    fake.xid(3, 31)
    data = fake.nvml.nvmlEventSetWait_v2(events, 0)
    assert data.eventData == 79
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        fake.nvml.nvmlDeviceGetUUID(data.device)
    assert _next(fake, events)[:3] == (3, XID, 31)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        fake.nvml.nvmlEventSetWait_v2(events, 10_000)
    fake.back(2)
    with pytest.raises(pynvml.NVMLError_Timeout):
        fake.nvml.nvmlEventSetWait_v2(events, 0)


def test_sets_that_are_freed_or_of_another_life_are_invalid(fake: fake_nvml.Fake) -> None:
    events, other = _listen(fake, 1), _listen(fake, 1)
    fake.nvml.nvmlEventSetFree(events)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvml.nvmlEventSetWait_v2(events, 0)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvml.nvmlEventSetFree(events)
    fake.nvml.nvmlShutdown()
    fake.nvml.nvmlInit()
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvml.nvmlEventSetWait_v2(other, 0)


def _waiting(fake: fake_nvml.Fake, events: Any, timeout_ms: int = 60_000) -> tuple[threading.Thread, list[Any]]:
    """A thread that waits for one event; what it got is in the list."""
    got: list[Any] = []
    before = fake.calls["nvmlEventSetWait_v2"]

    def wait() -> None:
        try:
            got.append(fake.nvml.nvmlEventSetWait_v2(events, timeout_ms))
        except pynvml.NVMLError as error:
            got.append(error.value)

    thread = threading.Thread(target=wait)
    thread.start()
    deadline = time.monotonic() + 10
    while fake.calls["nvmlEventSetWait_v2"] == before and time.monotonic() < deadline:
        thread.join(0.001)
    return thread, got


@pytest.mark.parametrize("end", ["free", "shutdown", "close"])
def test_a_wait_ends_when_its_set_goes(fake: fake_nvml.Fake, end: str) -> None:
    events = _listen(fake, 1)
    thread, got = _waiting(fake, events)
    if end == "free":
        fake.nvml.nvmlEventSetFree(events)
    elif end == "shutdown":
        fake.nvml.nvmlShutdown()
    else:
        fake.close()
    thread.join(10)
    assert got == [pynvml.NVML_ERROR_INVALID_ARGUMENT if end == "free" else pynvml.NVML_ERROR_UNINITIALIZED]


def test_a_wait_for_ever_ends_with_an_event(fake: fake_nvml.Fake) -> None:
    thread, got = _waiting(fake, _listen(fake, 1), ALL)
    fake.xid(1, 43)
    thread.join(10)
    assert got[0].eventData == 43


def test_other_calls_go_on_while_one_thread_waits(fake: fake_nvml.Fake) -> None:
    thread, _ = _waiting(fake, _listen(fake, 1))
    assert fake.nvml.nvmlDeviceGetCount() == 8
    fake.xid(1, 43)
    thread.join(10)


def test_an_event_ordered_by_another_view_of_the_machine_wakes_within_milliseconds(
    fake: fake_nvml.Fake, tmp_path: Path
) -> None:
    events = _listen(fake, 5)
    delays = []
    with fake_nvml.attach(tmp_path) as other:
        for _ in range(20):
            thread, got = _waiting(fake, events)
            ordered = time.monotonic()
            other.xid(5, 31)
            thread.join(10)
            delays.append(time.monotonic() - ordered)
            assert got[0].eventData == 31
    assert sorted(delays)[10] < 0.05


def test_waiting_costs_next_to_nothing(fake: fake_nvml.Fake) -> None:
    events = _listen(fake, 5)
    before = time.thread_time()
    with pytest.raises(pynvml.NVMLError_Timeout):
        fake.nvml.nvmlEventSetWait_v2(events, 1500)
    # A loop that asks again and again would use most of the time it waits.
    assert time.thread_time() - before < 0.5
