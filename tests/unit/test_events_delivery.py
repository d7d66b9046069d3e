"""Events of the driver reach whoever listens, with the card and the instance they are about."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deviceplugin.model.node import Gpu
from deviceplugin.model.vitals import Event, EventKind
from deviceplugin.nvml.events import EventStatus, EventThread, EventTiming, WatchState
from tests.drivers import Machine, opened
from tests.waiting import wait_until

QUICK = EventTiming(wait=0.02, first_delay=0.005, longest_delay=0.02, retry_refused=0.05)


@contextmanager
def watching(
    machine: Machine, timing: EventTiming = QUICK, gpus: tuple[Gpu, ...] | None = None
) -> Iterator[tuple[EventThread, list[Event], list[EventStatus]]]:
    """A thread that watches all cards of a machine."""
    heard: list[Event] = []
    told: list[EventStatus] = []
    thread = EventThread(machine.driver, heard.append, told.append, timing)
    thread.start()
    thread.watch(machine.scan().gpus if gpus is None else gpus)
    try:
        wait_until(lambda: told, what="the thread to say what it does")
        yield thread, heard, told
    finally:
        machine.fake.clear()
        assert thread.stop(5)


def test_an_xid_of_the_whole_card_names_the_card_and_no_instance() -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (_thread, heard, _told):
        before = time.time()
        machine.fake.xid(3, 79)
        (event,) = wait_until(lambda: [e for e in heard if e.kind is EventKind.XID], what="the event")
    assert (event.uuid, event.xid, event.gi, event.ci) == (machine.uuids[3], 79, None, None)
    assert before <= event.at <= time.time()


def test_an_xid_of_an_instance_names_it() -> None:
    with opened("hgx-h100-8-mig-1g") as machine, watching(machine) as (_thread, heard, _told):
        gi = machine.scan().gpus[1].instances[0].gi
        machine.fake.xid(1, 94, gi=gi, ci=0)
        machine.fake.xid(1, 94, gi=gi)
        wait_until(lambda: len(heard) == 2, what="both events")
    assert [(e.uuid, e.xid, e.gi, e.ci) for e in heard] == [
        (machine.uuids[1], 94, gi, 0),
        (machine.uuids[1], 94, gi, None),
    ]


@pytest.mark.parametrize(
    ("mask", "kind"),
    [
        (0x1, EventKind.SINGLE_BIT_ECC),
        (0x2, EventKind.DOUBLE_BIT_ECC),
        (0x8000, EventKind.RECOVERY_ACTION),
    ],
)
def test_other_kinds_carry_no_xid(mask: int, kind: EventKind) -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (_thread, heard, _told):
        machine.fake.event(2, mask)
        (event,) = wait_until(lambda: heard[:1], what="the event")
    assert (event.kind, event.xid, event.uuid) == (kind, None, machine.uuids[2])


def test_all_cards_are_registered_for_what_they_support() -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (thread, _heard, told):
        assert thread.status.state is WatchState.WATCHING
        assert set(thread.status.registered) == set(machine.uuids)
        assert all(mask & 0x8 and mask & 0x8000 for mask in thread.status.registered.values())
        assert machine.calls("nvmlEventSetCreate") == 1
    assert [status.state for status in told] == [WatchState.WATCHING, WatchState.STOPPED]


def test_an_event_is_delivered_at_once_not_when_the_wait_ends() -> None:
    with opened("hgx-h100-8") as machine, watching(machine, EventTiming(wait=5)) as (thread, heard, _told):
        wait_until(lambda: machine.calls("nvmlEventSetWait_v2"), what="the thread to wait")
        began = time.monotonic()
        machine.fake.xid(0, 31)
        wait_until(lambda: heard, what="the event", interval=0.001)
        assert time.monotonic() - began < 2
        machine.fake.xid(0, 31)
        thread.stop(0)
        machine.fake.xid(0, 31)


def test_an_event_of_a_card_nobody_knows_names_nobody() -> None:
    with opened("hgx-h100-8") as machine, watching(machine) as (thread, heard, _told):
        thread._set._cards.clear()  # type: ignore[union-attr]
        machine.fake.xid(0, 31)
        wait_until(lambda: len(heard) == 1, what="the event, its card asked for its UUID")
        machine.fake.fault("nvmlDeviceGetUUID", code=999)
        machine.fake.xid(0, 31)
        wait_until(lambda: len(heard) == 2, what="the event of no card")
    assert [event.uuid for event in heard] == [machine.uuids[0], None]


def test_another_set_of_cards_is_watched_from_then_on() -> None:
    with opened("hgx-h100-8") as machine:
        gpus = machine.scan().gpus
        with watching(machine, gpus=gpus[:4]) as (thread, heard, _told):
            assert set(thread.status.registered) == {gpu.uuid for gpu in gpus[:4]}
            machine.fake.xid(6, 31)
            thread.watch(gpus)
            wait_until(lambda: set(thread.status.registered) == set(machine.uuids), what="all cards to be heard")
            machine.fake.xid(6, 43)
            wait_until(lambda: heard, what="the event")
            sets = machine.calls("nvmlEventSetCreate")
            thread.watch(gpus)
            machine.fake.xid(6, 45)
            wait_until(lambda: len(heard) == 2, what="the event")
            assert machine.calls("nvmlEventSetCreate") == sets, "the same cards need no new event set"
    assert [event.xid for event in heard] == [43, 45]
    assert machine.calls("nvmlEventSetFree") == sets - 1


def test_events_that_wait_in_the_old_set_are_delivered_when_it_is_replaced() -> None:
    with opened("hgx-h100-8") as machine:
        gpus = machine.scan().gpus
        held, go_on = threading.Event(), threading.Event()
        heard: list[Event] = []

        def slowly(event: Event) -> None:
            heard.append(event)
            held.set()
            assert go_on.wait(10)

        thread = EventThread(machine.driver, slowly, timing=QUICK)
        thread.start()
        thread.watch(gpus[:4])
        wait_until(lambda: thread.status.state is WatchState.WATCHING, what="the thread to watch")
        for xid in (31, 43, 45):
            machine.fake.xid(0, xid)
        assert held.wait(10)
        thread.watch(gpus)
        go_on.set()
        wait_until(lambda: len(heard) == 3, what="all events")
        assert [event.xid for event in heard] == [31, 43, 45]
        assert thread.stop(5)


def test_a_lost_card_that_is_found_again_is_heard_at_once() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        timing = EventTiming(wait=0.02, retry_refused=600)
        with watching(machine, timing, before.gpus) as (thread, heard, _told):
            machine.fake.lose(2)
            wait_until(lambda: machine.uuids[2] in thread.status.refused, what="the card to be left out")
            lost = machine.scan(before)
            thread.watch(lost.gpus)
            machine.fake.back(2)
            thread.watch(machine.scan(lost).gpus)
            wait_until(lambda: machine.uuids[2] in thread.status.registered, what="the card to be heard")
            machine.fake.xid(2, 31)
            wait_until(lambda: heard[-1].xid == 31, what="its event")


def test_without_cards_nothing_is_asked() -> None:
    with opened("none") as machine:
        thread = EventThread(machine.driver, lambda _event: None, timing=QUICK)
        thread.start()
        thread.watch(())
        assert thread.status.state is WatchState.IDLE
        assert thread.age == 0
        assert thread.stop(5)
        assert machine.calls("nvmlInitWithFlags") == 0


def test_a_thread_that_never_ran_can_be_stopped() -> None:
    with opened("none") as machine:
        assert EventThread(machine.driver, lambda _event: None).stop()


def test_a_listener_that_is_gone_ends_the_thread() -> None:
    def closed(_event: Event) -> None:
        raise RuntimeError("Event loop is closed")

    with opened("t4x1") as machine:
        thread = EventThread(machine.driver, closed, timing=QUICK)
        thread.start()
        thread.watch(machine.scan().gpus)
        wait_until(lambda: thread.status.state is WatchState.WATCHING, what="the thread to watch")
        machine.fake.xid(0, 31)
        wait_until(lambda: not thread._thread.is_alive(), what="the thread to end")
