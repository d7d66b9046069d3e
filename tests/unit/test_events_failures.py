"""Waiting for events that fails: backed off, rebuilt, taken up anew, decided late, told once, and never given up."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from deviceplugin.model.evidence import ChecksFailed, ChecksWorked
from deviceplugin.nvml import host
from deviceplugin.nvml.events import EventStatus, EventThread, EventTiming, WatchState
from tests.drivers import Machine, opened
from tests.unit.test_events_delivery import QUICK, watching
from tests.waiting import wait_until


def states(told: list[EventStatus]) -> list[WatchState]:
    return [status.state for status in told]


def test_a_wait_that_fails_once_is_answered_by_a_new_set_and_no_event_is_missed() -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (_thread, heard, told):
        machine.fake.fault("nvmlEventSetWait_v2", code=999, times=1)
        wait_until(lambda: len(told) == 3, what="failure and recovery")
        machine.fake.xid(0, 31)
        wait_until(lambda: heard, what="the event")
    assert states(told) == [WatchState.WATCHING, WatchState.RETRYING, WatchState.WATCHING, WatchState.STOPPED]
    assert "nvmlEventSetWait_v2 answered UNKNOWN (999)" in told[1].detail
    assert told[1].evidence() is None
    assert told[2].evidence() == ChecksWorked("events")


def test_a_wait_that_goes_on_failing_is_decided_late_told_once_and_retried() -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (thread, heard, told):
        machine.fake.fault("nvmlEventSetWait_v2", code=999)
        wait_until(lambda: thread.status.failures > 12, what="many failures")
        assert states(told) == [WatchState.WATCHING, WatchState.RETRYING, WatchState.FAILED]
        assert told[2].failures == QUICK.decide_after
        evidence = told[2].evidence()
        assert isinstance(evidence, ChecksFailed)
        assert evidence.openable is True
        assert evidence.codes == {}
        assert machine.driver.generation == 2, "NVML was taken up anew once"
        machine.fake.clear()
        wait_until(lambda: thread.status.state is WatchState.WATCHING, what="the recovery")
        machine.fake.xid(5, 31)
        wait_until(lambda: heard, what="the event")


def test_a_bug_is_a_failure_that_is_said_once_and_got_over(caplog: pytest.LogCaptureFixture) -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (thread, heard, told):
        machine.fake.fault("nvmlEventSetWait_v2", value=17)
        wait_until(lambda: thread.status.state is WatchState.FAILED, what="the failure to be decided")
        assert "a bug of the plugin" in told[1].detail
        machine.fake.clear()
        wait_until(lambda: thread.status.state is WatchState.WATCHING, what="the recovery")
        machine.fake.xid(5, 31)
        wait_until(lambda: heard, what="the event")
    assert caplog.text.count("met a bug and begins again") == 1


def test_delays_grow_to_a_limit_and_do_not_spin() -> None:
    timing = EventTiming(wait=0.02, first_delay=0.02, longest_delay=0.05, renew_after=99)
    with opened("t4x1") as machine, watching(machine, timing) as (thread, _heard, _told):
        machine.fake.fault("nvmlEventSetWait_v2", code=999)
        wait_until(lambda: thread.status.failures >= 1, what="the first failure")
        began, first = time.monotonic(), thread.status.failures
        wait_until(lambda: thread.status.failures >= first + 6, what="six more failures")
        assert time.monotonic() - began > 0.15


def test_a_lost_card_costs_itself_and_not_the_others() -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (thread, heard, told):
        machine.fake.lose(2)
        wait_until(lambda: machine.uuids[2] in thread.status.refused, what="the lost card to be left out")
        wait_until(lambda: thread.status.state is WatchState.WATCHING, what="the others to be heard")
        machine.fake.xid(3, 48)
        wait_until(lambda: any(e.xid == 48 for e in heard), what="the event of another card")
        assert [e.xid for e in heard if e.uuid == machine.uuids[2]] == [79]
        assert thread.status.refused[machine.uuids[2]].code == 15
        assert not thread.status.refused[machine.uuids[2]].lasting
        machine.fake.back(2)
        wait_until(lambda: len(thread.status.registered) == 8, what="the card to be heard again")
        machine.fake.xid(2, 31)
        wait_until(lambda: heard[-1].xid == 31, what="its event")
    assert WatchState.FAILED not in states(told)


def test_a_card_whose_handle_outlives_it_is_found_out() -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (thread, heard, _told):
        # Waiting says that some card is lost; only a question to the card itself tells which.
        machine.fake.fault("nvmlEventSetWait_v2", code=15, times=1)
        machine.fake.fault("nvmlDeviceGetMemoryInfo", gpu=4, code=15)
        wait_until(lambda: machine.uuids[4] in thread.status.refused, what="the card to be found out")
        refusal = thread.status.refused[machine.uuids[4]]
        assert str(refusal) == "nvmlDeviceGetMemoryInfo answered GPU_IS_LOST (15)"
        machine.fake.xid(0, 31)
        wait_until(lambda: heard, what="the event of another card")


@pytest.mark.parametrize("code", [3, 13])
def test_cards_without_events_are_told_as_such_and_left_alone(code: int) -> None:
    with opened("rtx4090-2") as machine:
        machine.fake.fault("nvmlDeviceGetSupportedEventTypes", code=code)
        with watching(machine, EventTiming(wait=0.02)) as (thread, _heard, told):
            assert thread.status.state is WatchState.UNSUPPORTED
            assert {refusal.code for refusal in thread.status.refused.values()} == {code}
            assert "nvmlDeviceGetSupportedEventTypes answered" in str(next(iter(thread.status.refused.values())))
            assert told[0].evidence() is None
            assert machine.calls("nvmlEventSetWait_v2") == 0


def test_registration_that_fails_for_all_cards_is_a_failure_with_the_code_of_each() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlDeviceRegisterEvents", code=4)
        (machine.fake.root / "dev/nvidiactl").unlink()
        with watching(machine) as (thread, _heard, told):
            wait_until(lambda: thread.status.state is WatchState.FAILED, what="the verdict")
            evidence = thread.status.evidence()
            assert isinstance(evidence, ChecksFailed)
            assert evidence.codes == dict.fromkeys(machine.uuids, 4)
            assert evidence.openable is False
            assert "nvmlDeviceRegisterEvents answered NO_PERMISSION (4)" in evidence.detail
            machine.fake.clear()
            wait_until(lambda: len(thread.status.registered) == 8, what="all cards to be heard")
    assert states(told)[:2] == [WatchState.RETRYING, WatchState.FAILED]


def test_one_card_that_refuses_does_not_silence_the_others_and_is_asked_again() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlDeviceRegisterEvents", gpu=1, code=23)
        with watching(machine) as (thread, heard, _told):
            assert thread.status.state is WatchState.WATCHING
            assert {u: r.code for u, r in thread.status.refused.items()} == {machine.uuids[1]: 23}
            machine.fake.clear()
            wait_until(lambda: len(thread.status.registered) == 8, what="the card to be heard")
            assert thread.status.refused == {}
            assert machine.calls("nvmlEventSetCreate") == 1
            machine.fake.xid(1, 31)
            wait_until(lambda: heard, what="its event")


def test_a_renewal_that_fails_is_told_by_the_next_attempt() -> None:
    with opened("t4x1") as machine, watching(machine) as (thread, heard, _told):
        machine.fake.fault("nvmlInitWithFlags", code=999)
        machine.fake.fault("nvmlEventSetWait_v2", code=999)
        wait_until(lambda: thread.status.state is WatchState.FAILED, what="the verdict")
        assert "nvmlInit answered UNKNOWN (999)" in thread.status.detail
        machine.fake.clear()
        wait_until(lambda: thread.status.state is WatchState.WATCHING, what="the recovery")
        machine.fake.xid(0, 31)
        wait_until(lambda: heard, what="the event")


def test_an_event_set_that_cannot_be_made_is_a_failure() -> None:
    with opened("t4x1") as machine:
        machine.fake.fault("nvmlEventSetCreate", code=20)
        with watching(machine) as (thread, _heard, _told):
            wait_until(lambda: thread.status.state is WatchState.FAILED, what="the verdict")
            assert "nvmlEventSetCreate answered MEMORY (20)" in thread.status.detail


def test_cards_found_anew_get_a_new_set() -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (thread, heard, told):
        machine.driver.renew()
        machine.fake.fault("nvmlEventSetFree", code=999)
        wait_until(lambda: machine.calls("nvmlEventSetCreate") == 2, what="the new set")
        machine.fake.xid(0, 31)
        wait_until(lambda: heard, what="the event")
        assert thread.status.state is WatchState.WATCHING
    assert states(told) == [WatchState.WATCHING, WatchState.STOPPED]


def test_a_released_driver_is_left_alone_until_it_is_taken_up() -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (thread, heard, _told):
        gpus = machine.scan().gpus
        machine.driver.release()
        wait_until(lambda: thread.status.state is WatchState.IDLE, what="the thread to let go")
        machine.forget_calls()
        machine.fake.reset(0)
        machine.driver.take()
        thread.watch(gpus)
        wait_until(lambda: thread.status.state is WatchState.WATCHING, what="the thread to watch again")
        machine.fake.xid(0, 31)
        wait_until(lambda: heard, what="the event")


def test_a_driver_that_hangs_shows_as_age_and_does_not_hold_up_the_end() -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (thread, _heard, _told):
        assert thread.age < 1
        machine.fake.hang("nvmlEventSetWait_v2")
        wait_until(lambda: thread.age > 0.1, what="the age to grow")
        began = time.monotonic()
        assert thread.stop(0.1) is False
        assert time.monotonic() - began < 0.4
        machine.fake.release()


HASTY = replace(QUICK, hung_after=0.1)


def test_a_wait_that_does_not_come_back_is_told_once_when_asked_and_its_end_too() -> None:
    with opened("hgx-h100-8") as machine, watching(machine, HASTY) as (thread, heard, told):
        thread.check()
        assert states(told) == [WatchState.WATCHING]
        machine.fake.hang("nvmlEventSetWait_v2")
        wait_until(lambda: thread.age > HASTY.hung_after, what="the age to grow")
        thread.check()
        thread.check()
        assert states(told) == [WatchState.WATCHING, WatchState.HANGING]
        evidence = told[1].evidence()
        assert isinstance(evidence, ChecksFailed)
        assert (evidence.source, evidence.codes, evidence.failures) == ("events", {}, HASTY.decide_after)
        assert "has lasted for 0 s" in evidence.detail
        assert "hangs in the driver" in evidence.remedy
        machine.fake.xid(5, 31)
        machine.fake.release()
        wait_until(lambda: heard, what="the event")
        assert thread.status.evidence() == ChecksWorked("events")
        thread.check()
    assert states(told) == [WatchState.WATCHING, WatchState.HANGING, WatchState.WATCHING, WatchState.STOPPED]


def test_a_wait_that_hangs_and_then_fails_goes_the_way_of_failures() -> None:
    with opened("hgx-h100-8") as machine, watching(machine, HASTY) as (thread, _heard, told):
        machine.fake.fault("nvmlDeviceGetSupportedEventTypes", gpu=2, code=3)
        machine.fake.hang("nvmlEventSetWait_v2")
        wait_until(lambda: thread.age > HASTY.hung_after, what="the age to grow")
        thread.check()
        machine.fake.fault("nvmlEventSetWait_v2", code=999)
        machine.fake.release()
        wait_until(lambda: thread.status.state is WatchState.FAILED, what="the failure")
        assert states(told)[:2] == [WatchState.WATCHING, WatchState.HANGING]


def test_what_is_called_a_failure_already_is_not_told_again_when_it_hangs() -> None:
    with opened("hgx-h100-8") as machine, watching(machine, HASTY) as (thread, _heard, told):
        machine.fake.fault("nvmlEventSetWait_v2", code=999)
        wait_until(lambda: thread.status.state is WatchState.FAILED, what="the failure")
        machine.fake.hang("nvmlEventSetCreate")
        wait_until(lambda: thread.age > HASTY.hung_after, what="the age to grow")
        thread.check()
        assert states(told)[-1] is WatchState.FAILED


def test_stopping_waits_for_nothing_unless_told_to() -> None:
    with opened("hgx-h100-8") as machine:
        thread = _running(machine)
        began = time.monotonic()
        assert not thread.stop()
        assert time.monotonic() - began < 0.3
        assert thread.stop(5)
        assert thread.status.state is WatchState.STOPPED
        assert thread.age == 0


def _running(machine: Machine) -> EventThread:
    thread = EventThread(machine.driver, lambda _event: None)
    thread.start()
    thread.watch(machine.scan().gpus)
    wait_until(lambda: machine.calls("nvmlEventSetWait_v2"), what="the thread to wait")
    return thread


def test_nodes_that_are_missing_or_forbidden_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    (tmp_path / "folder").mkdir()
    assert host.openable(str(tmp_path), "/there")
    assert not host.openable(str(tmp_path), "/missing")
    assert host.openable(str(tmp_path), "/folder"), "an error of another kind says nothing about access"
