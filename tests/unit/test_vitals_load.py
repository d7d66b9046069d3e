"""Load for metrics: base units, absent what the card does not tell, and nothing asked twice in vain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import fields

from deviceplugin.model.vitals import GpuLoad, Load, Process
from deviceplugin.nvml.vitals import Vitals
from tests.drivers import Machine, altered, opened


def read(machine: Machine) -> Load:
    return Vitals(machine.driver).read_load(machine.scan())


def test_everything_a_data_centre_card_tells_is_there() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.load(None, 0.5, 0.25)
        load = read(machine)
    assert load.problems == ()
    assert [gpu.uuid for gpu in load.gpus] == machine.uuids
    one = load.gpus[0]
    known = {field.name for field in fields(GpuLoad) if getattr(one, field.name) not in (None, ())}
    not_there = {
        "retired_single_bit",
        "retired_double_bit",
        "pcie_tx_rate",
        "pcie_rx_rate",
        "links",
        "instances",
    }
    assert known == {field.name for field in fields(GpuLoad)} - not_there
    assert one.utilization == pytest.approx(0.5)
    assert one.memory_total is not None
    assert one.memory_used is not None
    assert one.memory_free is not None
    assert one.memory_reserved is not None
    assert one.memory_used + one.memory_free + one.memory_reserved == one.memory_total
    assert one.power is not None
    assert one.power_limit == 700
    assert 60 < one.power <= 700
    assert one.sm_clock is not None
    assert 1e9 < one.sm_clock < 2.2e9
    assert one.temperature is not None
    assert 20 < one.temperature < 100
    assert (one.remap_pending, one.remap_failure) == (False, False)
    assert load.at > 0
    assert load.seconds > 0


def test_states_and_counters_come_through() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.ecc(0, "corrected", 7)
        machine.fake.ecc(0, "uncorrected", 2)
        machine.fake.remap(0, "pending", correctable=1, uncorrectable=3)
        machine.fake.recovery(0, 1)
        machine.fake.process(0, 4711, 1024)
        one = read(machine).gpus[0]
    assert (one.ecc_corrected_volatile, one.ecc_uncorrected_volatile) == (7, 2)
    assert (one.remapped_correctable, one.remapped_uncorrectable, one.remap_pending) == (1, 3, True)
    assert one.recovery_action == 1
    assert one.processes == (Process(4711, 1024 << 20),)


def test_counters_only_grow() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.load(None, 1.0)
        vitals, node = Vitals(machine.driver), machine.scan()
        first = vitals.read_load(node).gpus[0]
        second = vitals.read_load(node).gpus[0]
    for name in ("energy", "pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes", "nvlink_rx_bytes"):
        assert getattr(second, name) >= getattr(first, name), name


def test_what_a_card_does_not_tell_is_absent_not_zero() -> None:
    with opened("gb10-1") as machine:
        one = read(machine).gpus[0]
    assert one.memory_total is None
    assert one.memory_used is None
    assert one.nvlink_tx_bytes is None
    with opened("rtx4090-2") as machine:
        one = read(machine).gpus[0]
    assert one.nvlink_tx_bytes is None
    assert one.remapped_correctable is None


def test_what_was_refused_once_is_not_asked_again_until_the_driver_is_initialised_anew() -> None:
    with opened("gb10-1") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        vitals.read_load(node)
        machine.forget_calls()
        vitals.read_load(node)
        assert machine.calls("nvmlDeviceGetMemoryInfo") == 0
        machine.driver.renew()
        vitals.read_load(node)
        assert machine.calls("nvmlDeviceGetMemoryInfo") == 2


def test_what_failed_for_a_passing_reason_is_asked_again() -> None:
    with opened("hgx-h100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        machine.fake.fault("nvmlDeviceGetPowerUsage", code=999)
        first = vitals.read_load(node)
        machine.fake.clear()
        second = vitals.read_load(node)
    assert {gpu.power for gpu in first.gpus} == {None}
    assert {(p.query, p.code) for p in first.problems} == {("nvmlDeviceGetPowerUsage", 999)}
    assert None not in {gpu.power for gpu in second.gpus}
    assert second.problems == ()


def test_a_change_of_mig_mode_has_everything_asked_anew() -> None:
    with opened("hgx-h100-8") as machine:
        vitals = Vitals(machine.driver)
        machine.fake.mig(0, ["3g.40gb", "3g.40gb"], force=True)
        cut = vitals.read_load(machine.scan()).gpus[0]
        machine.fake.mig(0, None, force=True)
        whole = vitals.read_load(machine.scan()).gpus[0]
    assert cut.utilization is None
    assert cut.nvlink_tx_bytes in (None, 0)
    assert len(cut.instances) == 2
    assert all(instance.memory_total and instance.utilization is None for instance in cut.instances)
    assert whole.utilization is not None
    assert whole.instances == ()


def test_processes_in_instances_are_told_apart() -> None:
    with opened("hgx-h100-8-mig-1g") as machine:
        gi = machine.scan().gpus[0].instances[0].gi
        machine.fake.process(0, 99, 512, gi=gi, ci=0)
        one = read(machine).gpus[0]
    assert one.processes == (Process(99, 512 << 20, gi, 0),)


def test_drivers_without_fields_are_asked_by_calls() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.load(None, 0.5)
        for field in (83, 94, 197, 198):
            machine.fake.fault(f"field:{field}", code=2)
        vitals, node = Vitals(machine.driver), machine.scan()
        one = vitals.read_load(node).gpus[0]
    assert one.energy is not None
    assert one.pcie_replays == 0
    assert one.pcie_tx_bytes is None
    assert one.pcie_tx_rate is not None
    assert one.pcie_rx_rate is not None


def test_memory_of_old_drivers_has_no_reserved_part() -> None:
    with opened("t4x1?driver=470.256.02") as machine:
        one = read(machine).gpus[0]
    assert one.memory_reserved is None
    assert one.memory_used is not None
    assert one.processes == ()


def test_counters_per_link_are_read_when_asked_for() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.link(0, 4, up=False)
        vitals, node = Vitals(machine.driver), machine.scan()
        links = vitals.read_load(node, per_link=True).gpus[0].links
        assert vitals.read_load(node).gpus[0].links == ()
    assert [link.number for link in links] == [n for n in range(18) if n != 4]
    assert all(link.tx_bytes is not None and link.rx_bytes is not None for link in links)


def test_lost_cards_are_left_out_and_those_that_refuse_are_empty() -> None:
    with opened("hgx-h100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        machine.fake.lose(2)
        at_once = vitals.read_load(node)
        after = vitals.read_load(machine.scan(node))
        fresh = Vitals(machine.driver).read_load(node)
    for load in (at_once, fresh):
        assert load.gpus[2] == GpuLoad(machine.uuids[2])
        assert len(load.gpus) == 8
    assert machine.uuids[2] not in {gpu.uuid for gpu in after.gpus}
    assert len(after.gpus) == 7


def test_an_instance_that_is_gone_is_empty() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, ["3g.40gb"], force=True)
        node = machine.scan()
        machine.fake.mig(0, ["7g.80gb"], force=True)
        load = Vitals(machine.driver).read_load(node)
    (instance,) = load.gpus[0].instances
    assert instance.memory_total is None
    assert load.problems == ()


def test_garbage_is_no_figure() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlDeviceGetPowerUsage", value=-5)
        machine.fake.fault("nvmlDeviceGetTemperature", gpu=0, value=4_000_000_000)
        load = read(machine)
    assert {gpu.power for gpu in load.gpus} == {None}
    assert load.gpus[0].temperature is None
    assert load.gpus[1].temperature is not None


def test_a_pass_asks_fourteen_questions_per_card() -> None:
    with opened("hgx-h100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        vitals.read_load(node)
        machine.forget_calls()
        vitals.read_load(node)
        assert sum(machine.fake.calls.values()) == 8 * 14


@pytest.mark.parametrize(("kind", "slot", "raw"), [(9, "ullVal", 5), (4, "sllVal", -5), (0, "dVal", -1.0)])
def test_field_values_of_odd_types_or_below_zero_are_left_out(kind: int, slot: str, raw: float) -> None:
    def odd(values: Callable[..., Any], handle: Any, wanted: list[Any]) -> Any:
        found = values(handle, wanted)
        for value in found:
            if value.fieldId == 83:
                value.valueType = kind
                setattr(value.value, slot, raw)
        return found

    with altered("hgx-h100-8", nvmlDeviceGetFieldValues=odd) as machine:
        load = read(machine)
    assert {gpu.energy for gpu in load.gpus} == {None}
    assert {gpu.pcie_replays for gpu in load.gpus} == {0}
    assert {problem.query for problem in load.problems} == {"nvmlDeviceGetFieldValues"}


def test_cards_that_know_no_fields_are_asked_for_them_once() -> None:
    with opened("hgx-h100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        machine.fake.fault("nvmlDeviceGetFieldValues", code=3)
        first = vitals.read_load(node)
        machine.forget_calls()
        vitals.read_load(node)
        assert machine.calls("nvmlDeviceGetFieldValues") == 0
    assert first.problems == ()
    assert first.gpus[0].energy is not None, "the call stands in for the field"


def test_a_card_lost_amid_the_pass_is_asked_no_more() -> None:
    with opened("hgx-h100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        vitals.read_load(node)
        machine.fake.lose(3)
        machine.forget_calls()
        load = vitals.read_load(node)
        assert sum(machine.fake.calls.values()) == 7 * 14 + 1
    assert load.gpus[3] == GpuLoad(machine.uuids[3])


def test_instances_whose_use_is_told_have_it() -> None:
    def told(rates: Callable[..., Any], handle: Any) -> Any:
        import pynvml

        del rates, handle
        return pynvml.c_nvmlUtilization_t(gpu=40, memory=20)

    with altered("hgx-h100-8-mig-1g", nvmlDeviceGetUtilizationRates=told) as machine:
        one = read(machine).gpus[0].instances[0]
    assert one.utilization == pytest.approx(0.4)
    assert one.memory_utilization == pytest.approx(0.2)
