"""Sources of health that fail (H7, H8)."""

import pytest

from deviceplugin.config.document import CheckFailure, HealthSection
from deviceplugin.model.evidence import (
    ChecksFailed,
    ChecksWorked,
    Unanswered,
)
from deviceplugin.model.node import LEFT_OUT, Problem
from tests.strategies.nodes import card
from tests.unit.judge_ward import A, B, Ward, good


def test_h7_a_few_failures_decide_nothing() -> None:
    ward = Ward(policy=HealthSection(on_check_failure=CheckFailure.UNHEALTHY))
    ward.hear(ChecksWorked("states"))
    for _ in range(2):
        assert ward.hear(ChecksFailed("states")) == ()
        assert ward.notes == []
    assert len(ward.hear(ChecksFailed("states"))) == 2
    ward.hear(ChecksWorked("states"))
    assert ward.notes == ["health source 'states' can be read again", "GPUs are checked again"]
    ward.hear(ChecksFailed("states"))
    assert ward.sick == {}
    ward.hear(ChecksWorked("states"))
    assert ward.notes == []


@pytest.mark.parametrize(
    ("codes", "openable", "ours"),
    [
        ({}, None, True),
        ({A: 999, B: 999}, None, True),
        ({A: 15}, False, True),
        ({A: 999, B: 15}, None, False),
        ({A: 999}, True, False),
    ],
)
def test_h7_the_hardware_or_our_own_access_is_at_fault(
    codes: dict[str, int],
    openable: bool | None,  # noqa: FBT001
    ours: bool,  # noqa: FBT001
) -> None:
    ward = Ward()
    ward.hear(ChecksFailed("events", "nvmlEventSetWait answered 999", codes, openable, 3))
    note, *more = ward.notes
    assert bool(more) is ours
    assert ("plugin's own access" in note) is ours
    assert ("the hardware is at fault" in note) is not ours
    assert ("cannot open the device nodes" in note) is (openable is False)
    assert "(nvmlEventSetWait answered 999)" in note
    assert ward.health.checked is not ours
    assert set(ward.sick) == (set() if ours else set(codes))
    ward.hear(ChecksFailed("events", "", codes, openable, 3))
    assert ward.notes == []


def test_h8_a_source_that_knows_the_remedy_better_is_quoted() -> None:
    ward = Ward()
    ward.hear(ChecksWorked("events"))
    ward.hear(ChecksFailed("events", "12 s", failures=5, remedy="it hangs. Reboot"))
    assert ward.notes[0] == "health source 'events' cannot be read (12 s): it hangs. Reboot"
    assert not ward.health.checked


def test_h7_a_single_card_that_fails_alone_is_the_hardware() -> None:
    ward = Ward(card(0))
    ward.hear(ChecksFailed("states", codes={A: 999}, failures=3))
    assert ward.sick == {A: ("unanswering",)}
    ward.scan(card(0))
    assert ward.sick == {}


def test_h7_a_card_that_did_not_answer_was_not_reset_when_it_answers() -> None:
    ward = Ward()
    ward.xid(79)
    ward.hear(ChecksFailed("states", codes={A: 999}, failures=3))
    ward.scan(card(0), card(1), problems=(Problem(A, "nvmlDeviceGetName", 999),))
    assert ward.sick == {A: ("unanswering", "xid-79")}
    ward.scan(card(0), card(1))
    ward.hear(good(), 1000)
    assert ward.sick == {A: ("xid-79",)}


def test_h7_blame_that_moves_is_said_again() -> None:
    ward = Ward()
    ward.hear(ChecksFailed("states", codes={A: 999}, failures=3))
    ward.hear(ChecksFailed("states"))
    assert "plugin's own access" in ward.notes[0]


@pytest.mark.parametrize("policy", CheckFailure)
def test_h8_what_holds_without_any_source_is_a_policy(policy: CheckFailure) -> None:
    ward = Ward(policy=HealthSection(on_check_failure=policy))
    ward.hear(ChecksFailed("events", failures=3))
    unfit = {A: ("unchecked",), B: ("unchecked",)} if policy is CheckFailure.UNHEALTHY else {}
    assert ward.sick == unfit
    assert not ward.health.checked
    ward.scan(card(0), card(1), card(2))
    assert (card(2).uuid in ward.sick) is (policy is CheckFailure.UNHEALTHY)
    ward.hear(ChecksWorked("states"))
    assert ward.sick == {}
    assert ward.health.checked


@pytest.mark.parametrize("policy", CheckFailure)
def test_h8_a_source_that_never_worked_counts_at_once_and_the_policy_is_said(policy: CheckFailure) -> None:
    ward = Ward(policy=HealthSection(on_check_failure=policy))
    ward.hear(ChecksFailed("states"))
    assert not ward.health.checked
    assert f"GPUs are not checked, no source can be read; health.onCheckFailure is {policy}" in ward.notes[-1]
    assert bool(ward.sick) is (policy is CheckFailure.UNHEALTHY)


def test_h8_a_single_failure_at_first_blames_no_card() -> None:
    ward = Ward()
    ward.hear(ChecksFailed("states", codes={A: 999}))
    assert ward.sick == {}
    assert ward.notes == []


def test_h8_without_a_card_nobody_is_told_that_none_is_checked() -> None:
    ward = Ward()
    ward.scan()
    ward.hear(ChecksFailed("states"))
    assert not ward.health.checked


def test_h8_the_policy_may_change_meanwhile() -> None:
    ward = Ward()
    ward.hear(ChecksFailed("events", failures=3))
    told = ward.configure(on_check_failure=CheckFailure.UNHEALTHY)
    assert {(one.uuid, one.rule) for one in told} == {(A, "health.onCheckFailure"), (B, "health.onCheckFailure")}


def test_m2_a_card_that_calls_hang_on_is_out_until_a_scan_asked_it() -> None:
    ward = Ward()
    left = Problem(A, LEFT_OUT, 10, "calls about this GPU hang")
    assert ward.scan(card(0), card(1), problems=(left,)) == ()
    assert ward.hear(Unanswered("GPU-unheard-of", "nvmlDeviceGetName")) == ()
    (out,) = ward.hear(Unanswered(A, "nvmlDeviceGetName"))
    assert (out.uuid, out.reason, out.kind) == (A, "unanswering", "lost")
    assert "hang (nvmlDeviceGetName)" in out.detail
    assert ward.hear(Unanswered(A, "nvmlDeviceGetName")) == ()
    assert ward.scan(card(0), card(1), problems=(left,)) == ()
    assert list(ward.sick) == [A]
    (back,) = ward.scan(card(0), card(1))
    assert (back.to, back.reason) == ("healthy", "unanswering")


def test_h7_a_lost_card_beside_cards_that_fail_alike_does_not_make_them_the_hardware() -> None:
    ward = Ward(card(0), card(1), card(2))
    alike = {card(0).uuid: 999, card(1).uuid: 999}
    ward.hear(ChecksFailed("events", "", {**alike, card(2).uuid: 6}, None, 3))
    assert ward.sick == {}
    assert "plugin's own access" in ward.notes[0]
