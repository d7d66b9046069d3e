"""Health states: what the driver says, with unknown told apart from good, bad and absent."""

from __future__ import annotations

import pytest

from deviceplugin.model.errors import NvmlError
from deviceplugin.model.node import FabricState
from deviceplugin.model.vitals import Reading, RecoveryAction
from deviceplugin.nvml.states import silent
from deviceplugin.nvml.vitals import Vitals
from tests.drivers import Machine, opened


def read(machine: Machine, vitals: Vitals | None = None) -> tuple[Reading, ...]:
    return (vitals or Vitals(machine.driver)).read_states(machine.scan())


def test_healthy_cards_answer_everything_and_show_nothing() -> None:
    with opened("hgx-h100-8") as machine:
        readings = read(machine)
    assert [reading.uuid for reading in readings] == machine.uuids
    for reading in readings:
        assert reading.alive is True
        assert (reading.remap_supported, reading.remap_pending, reading.remap_failure) == (True, False, False)
        assert (reading.retired_pending, reading.volatile_uncorrectable) == (None, None)
        assert reading.recovery_action == RecoveryAction.NONE
        assert reading.links_down == ()
        assert reading.fabric is not None
        assert reading.fabric.completed
        assert reading.problems == ()


def test_row_remap_states_come_through() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.remap(1, "pending")
        machine.fake.remap(2, "failure")
        readings = read(machine)
    assert [(r.remap_pending, r.remap_failure) for r in readings[:4]] == [
        (False, False),
        (True, False),
        (False, True),
        (False, False),
    ]


def test_cards_without_row_remapping_are_judged_by_pages_and_volatile_errors() -> None:
    with opened("dgx1-v100-8") as machine:
        machine.fake.retire(1, "pending")
        machine.fake.ecc(2, "uncorrected", 3)
        machine.fake.ecc(3, "corrected", 9)
        readings = read(machine)
    assert [r.remap_supported for r in readings] == [False] * 8
    assert [r.retired_pending for r in readings[:4]] == [False, True, False, False]
    assert [r.volatile_uncorrectable for r in readings[:4]] == [0, 0, 3, 0]
    assert all(r.alive and r.remap_pending is None and r.remap_failure is None for r in readings)


def test_volatile_errors_are_not_asked_of_cards_that_remap_rows() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.ecc(2, "uncorrected", 3)
        readings = read(machine)
        assert machine.calls("nvmlDeviceGetTotalEccErrors") == 0
    assert readings[2].volatile_uncorrectable is None


@pytest.mark.parametrize("action", [1, 2, 4, 9])
def test_the_recovery_action_comes_through_known_or_not(action: int) -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.recovery(4, action)
        readings = read(machine)
    assert [r.recovery_action for r in readings] == [0, 0, 0, 0, action, 0, 0, 0]


def test_fabric_states_are_read_anew_each_time() -> None:
    with opened("hgx-h100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        vitals.read_states(node)
        machine.fake.fabric(3, "in-progress")
        readings = vitals.read_states(node)
    states = [r.fabric.state if r.fabric else None for r in readings]
    assert states[3] is FabricState.IN_PROGRESS
    assert states[2] is FabricState.COMPLETED


def test_links_that_were_up_and_are_down_are_named() -> None:
    with opened("hgx-h100-8") as machine:
        vitals = Vitals(machine.driver)
        assert read(machine, vitals)[2].links_down == ()
        machine.fake.link(2, 5, up=False)
        machine.fake.link(2, 7, up=False)
        assert read(machine, vitals)[2].links_down == (5, 7)
        machine.fake.link(2, 5, up=True)
        assert read(machine, vitals)[2].links_down == (7,)


def test_links_that_never_were_up_are_not_down() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.link(2, 5, up=False)
        assert read(machine)[2].links_down == ()


def test_links_are_no_question_in_mig_mode_or_without_any() -> None:
    with opened("hgx-h100-8-partial-mig") as machine:
        node = machine.scan()
        readings = Vitals(machine.driver).read_states(node)
    assert {r.links_down for r, gpu in zip(readings, node.gpus, strict=True) if gpu.mig_enabled} == {None}
    with opened("t4x1") as machine:
        (reading,) = read(machine)
    assert (reading.links_down, reading.alive, reading.problems) == (None, True, ())


def test_links_that_could_not_be_read_are_a_problem_of_the_reading() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlDeviceGetNvLinkState", gpu=0, code=999)
        readings = read(machine)
    assert [p.query for p in readings[0].problems] == ["nvmlDeviceGetNvLinkState"]
    assert readings[0].alive is None
    assert readings[1].alive is True


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("nvmlDeviceGetRemappedRows", ("remap_supported", "remap_pending", "remap_failure", "retired_pending")),
        ("nvmlDeviceGetFieldValues", ("recovery_action",)),
        ("field:230", ("recovery_action",)),
        ("nvmlDeviceGetGpuFabricInfoV", ("fabric",)),
    ],
)
@pytest.mark.parametrize("code", [4, 10, 16, 999])
def test_a_question_that_fails_is_unknown_and_told(query: str, facts: tuple[str, ...], code: int) -> None:
    with opened("hgx-h100-8") as machine:
        node = machine.scan()
        machine.fake.fault(query, gpu=0, code=code)
        hurt, *others = Vitals(machine.driver).read_states(node)
    assert [getattr(hurt, fact) for fact in facts] == [None] * len(facts)
    assert hurt.alive is None
    assert [problem.code for problem in hurt.problems] == [code]
    assert {reading.alive for reading in others} == {True}


@pytest.mark.parametrize("code", [3, 13])
@pytest.mark.parametrize("query", ["nvmlDeviceGetRemappedRows", "field:230", "nvmlDeviceGetRetiredPagesPendingStatus"])
def test_what_a_card_does_not_have_is_no_problem_and_asked_once(query: str, code: int) -> None:
    with opened("dgx1-v100-8") as machine:
        node = machine.scan()
        vitals = Vitals(machine.driver)
        machine.fake.fault(query, code=code)
        first = vitals.read_states(node)
        machine.forget_calls()
        second = vitals.read_states(node)
        if not query.startswith("field:"):
            assert machine.calls(query) == 0
    assert {reading.alive for reading in first + second} == {True}
    assert [r.problems for r in second] == [()] * 8


def test_a_lost_card_is_not_alive_and_the_others_are() -> None:
    with opened("hgx-h100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        vitals.read_states(node)
        machine.fake.lose(2)
        at_once = vitals.read_states(node)
        after_a_scan = vitals.read_states(machine.scan(node))
        machine.fake.back(2)
        back = vitals.read_states(machine.scan(node))
    for readings in (at_once, after_a_scan):
        assert [r.alive for r in readings] == [True, True, False] + [True] * 5
    assert [r.alive for r in back] == [True] * 8


def test_a_card_that_the_driver_no_longer_counts_is_not_alive() -> None:
    with opened("hgx-h100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        machine.fake.lose(2)
        lost = machine.scan(node)
        machine.driver.renew()
        readings = vitals.read_states(machine.scan(lost))
    assert {r.uuid: r.alive for r in readings} == {u: u != machine.uuids[2] for u in machine.uuids}


def test_a_driver_out_of_reach_is_an_error_and_no_reading() -> None:
    with opened("hgx-h100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        machine.fake.driver("unloaded", force=True)
        with pytest.raises(NvmlError, match="DRIVER_NOT_LOADED"):
            vitals.read_states(node)


def test_three_questions_per_card_and_no_more() -> None:
    with opened("hgx-h100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        vitals.read_states(node)
        machine.forget_calls()
        vitals.read_states(node)
        assert sum(machine.fake.calls.values()) == 8 * 3


def test_another_initialisation_makes_handles_and_absences_worthless() -> None:
    with opened("dgx1-v100-8") as machine:
        vitals, node = Vitals(machine.driver), machine.scan()
        vitals.read_states(node)
        machine.driver.renew()
        machine.forget_calls()
        readings = vitals.read_states(node)
        assert machine.calls("nvmlDeviceGetHandleByUUID") == 8
        assert machine.calls("nvmlDeviceGetRemappedRows") == 8
    assert {r.alive for r in readings} == {True}


def test_cards_that_answer_no_question_are_silent_and_those_that_answer_one_are_not() -> None:
    with opened("hgx-h100-8") as machine:
        for call in ("nvmlDeviceGetRemappedRows", "nvmlDeviceGetFieldValues"):
            machine.fake.fault(call, gpu=1, code=999)
        machine.fake.fault("nvmlDeviceGetRemappedRows", gpu=2, code=999)
        machine.fake.lose(3, silent=True)
        found = silent(read(machine))
    assert {uuid: (problem.query, problem.code) for uuid, problem in found.items()} == {
        machine.uuids[1]: ("nvmlDeviceGetRemappedRows", 999)
    }


def test_a_card_that_has_none_of_the_states_is_not_silent() -> None:
    with opened("wsl-1") as machine:
        assert silent(read(machine)) == {}
