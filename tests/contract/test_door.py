"""What the rest of the plugin relies on in the door to the driver, on every machine and on the real one."""

from __future__ import annotations

import re

from deviceplugin.model.node import DriverState, Node
from deviceplugin.model.vitals import Event
from deviceplugin.nvml import host
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.events import EventThread, EventTiming, WatchState
from deviceplugin.nvml.vitals import Vitals
from tests.waiting import wait_until


def test_a_scan_shows_a_node_that_is_consistent_in_itself(driver: Driver) -> None:
    node = driver.scan()
    assert node.state is DriverState.READY
    assert node.driver_version
    assert node.cuda_version is not None
    uuids = [gpu.uuid for gpu in node.gpus]
    assert len(set(uuids)) == len(uuids) > 0
    assert [gpu.index for gpu in node.gpus] == list(range(len(uuids)))
    for gpu in node.gpus:
        assert gpu.name
        assert not gpu.lost
        assert host.sysfs_name(gpu.pci)
        assert gpu.architecture is None or 2 <= gpu.architecture < 64
        assert not (gpu.mig_enabled and gpu.links)
        assert gpu.mig_enabled or gpu.instances == ()
        for instance in gpu.instances:
            assert instance.gpu == gpu.uuid
            assert re.fullmatch(r"(\dc\.)?\dg\.\d+gb.*", instance.profile or "")
    assert [(p.a, p.b) for p in node.pairs] == [(a, b) for i, a in enumerate(uuids) for b in uuids[i + 1 :]]
    # What a card does not have is no problem; only facts that every card should have may be missing, and say so.
    assert {p.query for p in node.problems} <= {"nvmlDeviceGetMinorNumber", "nvmlDeviceGetMemoryInfo"}


def same(first: Node, second: Node) -> bool:
    return (first.gpus, first.pairs, first.problems) == (second.gpus, second.pairs, second.problems)


def test_a_second_scan_shows_the_same_node_with_and_without_memory_of_the_first(driver: Driver) -> None:
    first = driver.scan()
    assert same(first, driver.scan(first))
    assert same(first, driver.scan())


def test_the_driver_can_be_taken_up_anew_and_shows_the_same_node(driver: Driver) -> None:
    first = driver.scan()
    generation = driver.generation
    driver.renew()
    assert driver.generation == generation + 1
    assert same(first, driver.scan(first))
    driver.release()
    assert driver.scan(first).state is DriverState.RELEASED
    driver.take()
    assert same(first, driver.scan(first))


def test_healthy_cards_are_alive_and_show_no_bad_state(driver: Driver) -> None:
    vitals, node = Vitals(driver), driver.scan()
    for _ in range(2):
        readings = vitals.read_states(node)
        assert [reading.uuid for reading in readings] == [gpu.uuid for gpu in node.gpus]
        for reading in readings:
            assert reading.alive is True
            assert reading.problems == ()
            assert reading.remap_supported is not None
            assert not reading.remap_pending
            assert not reading.remap_failure
            assert not reading.retired_pending
            assert not reading.recovery_action
            assert not reading.links_down


def test_load_is_in_base_units_and_within_its_bounds(driver: Driver) -> None:
    vitals, node = Vitals(driver), driver.scan()
    first, second = vitals.read_load(node), vitals.read_load(node)
    assert second.problems == ()
    for before, one in zip(first.gpus, second.gpus, strict=True):
        for ratio in (one.utilization, one.memory_utilization, one.encoder_utilization, one.decoder_utilization):
            assert ratio is None or 0 <= ratio <= 1
        if one.memory_total is not None:
            assert one.memory_used is not None
            assert one.memory_free is not None
            assert one.memory_used + one.memory_free + (one.memory_reserved or 0) == one.memory_total
        assert one.temperature is None or 0 < one.temperature < 120
        assert one.power is None or 1 < one.power < 3000
        assert one.power_limit is None or 10 < one.power_limit < 3000
        assert one.sm_clock is None or 1e8 < one.sm_clock < 5e9
        for counter in ("energy", "pcie_tx_bytes", "nvlink_tx_bytes", "pcie_replays"):
            was, now = getattr(before, counter), getattr(one, counter)
            assert (was is None) == (now is None)
            assert was is None or was <= now
        assert (before.processes is None) == (one.processes is None)


def test_events_are_waited_for_or_known_not_to_come_and_the_thread_ends_when_asked(driver: Driver) -> None:
    heard: list[Event] = []
    thread = EventThread(driver, heard.append, timing=EventTiming(wait=0.05))
    thread.start()
    gpus = driver.scan().gpus
    thread.watch(gpus)
    settled = {WatchState.WATCHING, WatchState.UNSUPPORTED}
    wait_until(lambda: thread.status.state in settled, what="the thread to settle")
    watched = set(thread.status.registered) | set(thread.status.refused)
    assert watched == {gpu.uuid for gpu in gpus}
    assert thread.stop(5)
    assert heard == []
