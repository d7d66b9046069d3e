"""A restart washes no bad card, and a reboot is a reset (H3)."""

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Cordon
from deviceplugin.model.evidence import (
    Injected,
    Injection,
    ScanSeen,
    Tick,
)
from deviceplugin.model.health import Sickness
from deviceplugin.model.node import DriverState, Gpu, Node
from deviceplugin.model.vitals import Reading
from deviceplugin.rules.judge import health, judge, remember, standing, start
from tests.strategies.nodes import card, cut_card, node
from tests.unit.judge_ward import POLICY, A, Ward, good, mig_ward, slot


def revived(ward: Ward, boot: str = "boot-1", gpus: tuple[Gpu, ...] = ()) -> Ward:
    other = Ward(*gpus)
    other.now = ward.now + 1
    other.node = node(*(gpus or (card(0), card(1))))
    other.state = start(other.node, ward.policy, remember(ward.state), boot, other.now)
    other.policy = ward.policy
    return other


def test_h3_a_restart_washes_nothing() -> None:
    ward = Ward()
    ward.xid(79)
    again = revived(ward)
    again.hear(good(), 1000)
    assert again.sick == {A: ("xid-79",)}
    assert again.health.sick[A][0].since == ward.health.sick[A][0].since
    assert [one.reason for one in standing(again.state, again.now)] == ["xid-79"]


@pytest.mark.parametrize(("boot", "cured"), [("boot-2", True), ("boot-1", False), ("", False)])
def test_h3_a_reboot_is_a_reset_where_it_can_be_told(boot: str, cured: bool) -> None:  # noqa: FBT001
    ward = Ward()
    ward.xid(79)
    again = revived(ward, boot)
    assert again.sick == {A: ("xid-79",)}
    again.hear(good(), 60)
    assert (again.sick == {}) is cured


def test_h3_after_a_restart_the_quiet_period_begins_anew() -> None:
    ward = Ward()
    ward.xid(94)
    ward.hear(good(), 59)
    again = revived(ward)
    again.hear(good(), 59)
    assert set(again.sick) == {A}
    again.hear(Tick(), 1)
    assert again.sick == {}


@pytest.mark.parametrize(("number", "kind"), [(79, "reset-required"), (94, "recoverable")])
def test_h3_what_the_policy_ignores_is_remembered_with_its_own_way_back(number: int, kind: str) -> None:
    ward = Ward()
    ward.xid(number)
    ward.configure(fatal=(1,), recoverable=(), ignored=(number,))
    again = revived(revived(ward))
    assert again.sick == {}
    again.hear(good(), 1)
    (kept,) = remember(again.state)
    assert (kept.uuid, kept.kind, kept.rule) == (A, kind, "health.ignored")
    again.configure(fatal=(79,), recoverable=(94,), ignored=())
    assert again.sick == {A: (f"xid-{number}",)}
    again.hear(good(), 60)
    assert (again.sick == {}) is (kind == "recoverable")


def test_h3_states_are_kept_until_a_reading_says_otherwise() -> None:
    ward = Ward()
    ward.hear(replace(good(), remap_failure=True))
    again = revived(ward)
    again.hear(Reading(A, 0))
    assert again.sick == {A: ("remap-failure",)}
    again.hear(good())
    assert again.sick == {}


def test_h3_an_instance_is_found_again_by_its_uuid_or_its_card_by_the_bus_id() -> None:
    ward = mig_ward()
    ward.xid(79, gi=8)
    again = revived(ward, gpus=(cut_card(0, "1g.10gb", "1g.10gb"), card(1)))
    assert set(again.sick) == {slot(1)}
    without = revived(ward, gpus=(cut_card(0, "1g.10gb"), card(1)))
    assert without.sick == {}
    assert without.state.ailments[slot(1), "xid-79"].gpu == A
    without.scan(cut_card(0, "1g.10gb", "1g.10gb"), card(1))
    assert set(without.sick) == {slot(1)}


@pytest.mark.parametrize("first", [DriverState.NO_DRIVER, DriverState.FAILING])
def test_h3_a_remembered_instance_is_of_its_card_though_the_driver_came_late(first: DriverState) -> None:
    ward = mig_ward()
    ward.xid(79, gi=8)
    cut = ward.node.gpus[0]
    ward.state = start(Node(state=first), POLICY, remember(ward.state), "boot-1", ward.now)
    ward.scan(cut, card(1), after=1)
    assert ward.sick == {slot(1): ("xid-79",)}
    assert set(ward.state.cards) == {A, card(1).uuid}
    ward.scan(replace(cut, lost=True), card(1), after=1)
    ward.scan(cut, card(1), after=1)
    ward.hear(good(), 60)
    assert ward.sick == {}
    assert remember(ward.state) == ()


def test_h3_a_card_that_is_away_at_start_was_reset_when_it_comes_back() -> None:
    ward = Ward()
    ward.xid(79)
    again = revived(ward, gpus=(card(1),))
    assert again.sick == {}
    assert [one.reason for one in again.scan(card(0), card(1), after=1)] == ["xid-79"]
    again.hear(good(), 60)
    assert again.sick == {}


def test_h3_a_card_that_a_reboot_left_without_is_forgotten() -> None:
    ward = Ward()
    ward.xid(79)
    again = revived(ward, "boot-2", gpus=(card(1),))
    assert remember(again.state) == ()


def test_h3_a_lost_card_is_remembered_and_its_return_is_seen() -> None:
    ward = Ward()
    ward.xid(79)
    ward.scan(card(0, lost=True), card(1))
    again = revived(ward)
    assert again.sick == {A: ("xid-79",)}
    again.hear(good(), 60)
    assert again.sick == {}


def test_h3_a_lost_card_that_answers_after_a_reboot_or_an_upgrade_is_back() -> None:
    ward = Ward()
    ward.scan(card(0, lost=True), card(1))
    assert remember(ward.state) != ()
    again = revived(ward, "boot-2")
    again.hear(good(), 60)
    assert again.sick == {}
    assert remember(again.state) == ()


def test_h3_what_is_declared_or_vanished_is_not_remembered_and_garbage_is_not_taken_up() -> None:
    ward = Ward()
    ward.configure(cordon=(Cordon(0),))
    ward.hear(Injected((Injection("0"),)))
    ward.scan(card(0))
    assert remember(ward.state) == ()
    for reason in ("", "xid-", "xid-x", "xid-٣", "cordoned", "injected", "whatever"):
        assert start(node(card(0)), POLICY, (Sickness(A, reason, "state", 1.0),)).ailments == {}


def test_h3_a_time_from_the_future_is_not_taken_up() -> None:
    state = start(node(card(0)), POLICY, (Sickness(A, "xid-79", "reset-required", 1e11),), "b", 50.0)
    assert health(state).sick[A][0].since == 50.0


def test_h3_a_lost_card_at_start_counts_in_the_first_state() -> None:
    state = start(node(card(0, lost=True), card(1)), POLICY, (), "b", 50.0)
    assert set(health(state).sick) == {A}


def test_h3_a_late_driver_tells_what_was_remembered_when_it_comes() -> None:
    ward = Ward()
    ward.xid(79)
    state = start(Node(state=DriverState.NO_DRIVER), POLICY, remember(ward.state), "boot-1", 1.0)
    assert health(state).sick == {}
    told = judge(state, ScanSeen(node(card(0))), POLICY, 2.0).transitions
    assert [(one.uuid, one.reason) for one in told] == [(A, "xid-79")]
