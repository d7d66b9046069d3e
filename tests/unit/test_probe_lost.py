"""Cards that fall off the bus, and come back."""

from __future__ import annotations

from deviceplugin.model.node import DriverState, Node
from deviceplugin.nvml import host
from tests.drivers import card, opened, problems_of


def test_a_lost_card_keeps_its_place_and_its_facts() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.lose(2)
        after = machine.scan(before)
    lost = card(after, machine.uuids[2])
    assert lost.lost
    assert (lost.index, lost.pci, lost.minor, lost.memory) == (2, before.gpus[2].pci, 2, before.gpus[2].memory)
    assert [gpu.lost for gpu in after.gpus] == [False, False, True] + [False] * 5
    assert {problem.code for problem in after.problems} == {15}
    assert {(p.a, p.b) for p in after.pairs} == {(p.a, p.b) for p in before.pairs}


def test_a_card_lost_during_the_scan_is_lost_too() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.fault("nvmlDeviceGetMemoryInfo", gpu=5, code=15)
        after = machine.scan(before)
        first = machine.scan()
    assert card(after, machine.uuids[5]).lost
    assert card(after, machine.uuids[5]).memory == before.gpus[5].memory
    assert card(first, machine.uuids[5]).lost
    assert len(first.gpus) == 8


def test_a_card_lost_before_the_first_scan_has_no_name_and_is_told_as_a_problem() -> None:
    with opened("hgx-h100-8") as machine:
        machine.driver.initialise()
        machine.fake.lose(2)
        node = machine.scan()
    assert len(node.gpus) == 7
    assert [(p.subject, p.code) for p in problems_of(node, "nvmlDeviceGetHandleByIndex")] == [("index 2", 15)]


def test_a_handle_that_fails_for_another_reason_does_not_make_a_card_lost() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.fault("nvmlDeviceGetHandleByIndex", gpu=4, code=999)
        after = machine.scan(before)
    assert after.gpus == before.gpus


def test_lost_cards_come_back_with_all_their_facts() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.lose(2)
        lost = machine.scan(before)
        machine.fake.back(2)
        back = machine.scan(lost)
    assert back.gpus == before.gpus
    assert back.pairs == before.pairs
    assert back.problems == ()


def test_a_card_that_is_lost_is_looked_for_by_initialising_anew_at_once_and_then_on_an_interval() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.lose(2, silent=True)
        lost = machine.scan(before)
        generation = machine.driver.generation
        still = machine.scan(machine.scan(lost))
        assert card(still, machine.uuids[2]).lost
        assert machine.driver.generation == generation + 1, "looked for once, since nothing has changed since"
        machine.fake.reset(2, force=True)
        still = machine.scan(still)
        assert card(still, machine.uuids[2]).lost, "the interval is not over: handles of before are kept"
        machine.driver.renew_interval = 0
        back = machine.scan(still)
    assert machine.driver.generation == generation + 2
    assert back.gpus == before.gpus


def test_a_card_that_was_reset_is_found_at_the_next_scan() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.reset(2, force=True)
        lost = machine.scan(before)
        assert card(lost, machine.uuids[2]).lost
        back = machine.scan(lost)
    assert back.gpus == before.gpus


def test_a_lost_card_that_the_driver_no_longer_counts_is_still_lost_not_gone() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.lose(2)
        machine.driver.renew_interval = 0
        lost = machine.scan(before)
        machine.driver.renew_interval = 60
        machine.driver.renew()
        uncounted = machine.scan(lost)
        machine.fake.back(2)
        machine.driver.renew()
        back = machine.scan(uncounted)
    gone = card(uncounted, machine.uuids[2])
    assert gone.lost
    assert sorted(gpu.index for gpu in uncounted.gpus) == list(range(8))
    assert gone.index == 7
    assert "sysfs shows it" in problems_of(uncounted, "nvmlDeviceGetCount")[0].detail
    assert back.gpus == before.gpus


def test_a_card_taken_out_is_gone() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.unplug(2)
        machine.driver.renew_interval = 0
        first = machine.scan(before)
        after = machine.scan(first)
    assert machine.uuids[2] not in {gpu.uuid for gpu in after.gpus}
    assert len(after.gpus) == 7


def test_a_card_put_in_is_found_at_the_next_scan() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.unplug(7)
        before = machine.scan()
        assert len(before.gpus) == 7
        generation = machine.driver.generation
        steady = machine.scan(before)
        assert machine.driver.generation == generation, "nothing new: nothing is initialised anew"
        machine.fake.plug(7)
        after = machine.scan(steady)
        again = machine.scan(after)
    assert len(after.gpus) == 8
    assert machine.driver.generation == generation + 1
    assert again == after
    assert after.state is DriverState.READY


def test_hardware_that_the_driver_does_not_show_is_told_and_not_chased() -> None:
    with opened("hgx-h100-8") as machine:
        device = machine.fake.root / "sys/bus/pci/devices/0000:ff:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")
        node = machine.scan()
        generation = machine.driver.generation
        for _ in range(3):
            node = machine.scan(node)
    assert machine.driver.generation == generation
    assert [p.subject for p in problems_of(node, "nvmlDeviceGetCount")] == ["0000:ff:00.0"]
    assert len(node.gpus) == 8


def test_a_card_given_to_another_driver_is_no_problem_until_it_is_given_back() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.unplug(7)
        before = machine.scan()
        machine.fake.plug(7)
        driver = next(
            path / "driver"
            for path in (machine.fake.root / "sys/bus/pci/devices").iterdir()
            if (path / "class").read_text().startswith("0x03") and path.name not in _names(before)
        )
        driver.symlink_to("../../../../bus/pci/drivers/vfio-pci")
        generation = machine.driver.generation
        steady = machine.scan(before)
        assert machine.driver.generation == generation
        assert steady.problems == ()
        driver.unlink()
        driver.symlink_to("../../../../bus/pci/drivers/nvidia")
        assert len(machine.scan(steady).gpus) == 8


def _names(node: Node) -> set[str | None]:
    return {host.sysfs_name(gpu.pci) for gpu in node.gpus}


def test_a_card_lost_before_the_first_scan_is_looked_for_too() -> None:
    with opened("hgx-h100-8") as machine:
        machine.driver.initialise()
        machine.fake.reset(2, force=True)
        first = machine.scan()
        assert len(first.gpus) == 7
        machine.driver.renew_interval = 0
        assert len(machine.scan(first).gpus) == 8
