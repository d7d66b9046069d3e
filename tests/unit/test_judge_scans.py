"""Cards and instances that are lost, vanish, come back, or cannot be looked at."""

import pytest
from msgspec.structs import replace

from deviceplugin.model.evidence import (
    Forgotten,
    ScanSeen,
)
from deviceplugin.model.node import DriverState, Node, Problem
from deviceplugin.model.vitals import Reading
from tests.strategies.nodes import card, cut_card
from tests.unit.judge_ward import A, B, Ward, good, mig_ward, slot


@pytest.mark.parametrize(
    "state", [DriverState.FAILING, DriverState.RELEASED, DriverState.STARTING, DriverState.MISMATCH]
)
def test_h9_a_scan_that_could_not_look_changes_nothing(state: DriverState) -> None:
    ward = Ward()
    ward.xid(79)
    before = ward.state
    assert ward.hear(ScanSeen(Node(state=state)), 1) == ()
    assert ward.state == before


@pytest.mark.parametrize("state", [DriverState.NO_DRIVER, DriverState.NO_HARDWARE])
def test_without_a_driver_all_have_vanished_and_come_back_with_it(state: DriverState) -> None:
    ward = Ward()
    ward.hear(ScanSeen(Node(state=state)), 1)
    assert ward.sick == {A: ("vanished",), B: ("vanished",)}
    assert "driver is not there" in ward.health.sick[A][0].detail
    ward.scan(card(0), card(1))
    assert ward.sick == {}


def test_a_lost_card_is_back_when_it_answers_the_whole_scan() -> None:
    ward = Ward()
    ward.scan(card(0, lost=True), card(1))
    for subject in (A, card(0).pci, "index 0"):
        ward.scan(card(0), card(1), problems=(Problem(subject, "nvmlDeviceGetUUID", 10),), after=1)
        assert ward.sick == {A: ("lost",)}
    ward.scan(card(0), card(1), problems=(Problem(A, "nvmlDeviceGetMinorNumber", 3), Problem(B, "nvmlX", 999)), after=1)
    assert ward.sick == {}


def test_a_query_that_failed_while_the_card_was_well_is_no_sign_that_it_is_lost() -> None:
    odd = (Problem(A, "nvmlDeviceGetSomething", 999),)
    ward = Ward()
    assert ward.scan(card(0), card(1), problems=odd) == ()
    ward.scan(card(0, lost=True), card(1))
    ward.scan(card(0), card(1), problems=odd)
    assert ward.sick == {}


def test_a_lost_reading_counts_at_once_and_its_return_is_a_reset() -> None:
    ward = Ward()
    ward.xid(79)
    (lost,) = ward.hear(Reading(A, 0, alive=False), 1)
    assert (lost.reason, lost.rule) == ("lost", "built-in")
    ward.hear(good(), 1)
    assert ward.sick == {A: ("lost", "xid-79")}
    ward.scan(card(0), card(1), after=60)
    ward.hear(good())
    assert ward.sick == {}


def test_cards_that_share_a_uuid_are_as_bad_as_the_worse_one_and_one_without_a_uuid_is_none() -> None:
    ward = Ward()
    ward.scan(card(0), card(0, lost=True), card(0), card(1), card(2, uuid=""))
    assert ward.sick == {A: ("lost",)}
    assert set(ward.state.cards) == {A, B}


def test_two_cards_that_swap_their_index_keep_their_health() -> None:
    ward = Ward()
    ward.xid(79)
    ward.scan(replace(card(1), index=0), replace(card(0), index=1))
    assert ward.sick == {A: ("xid-79",)}
    assert ward.health.sick[A][0].gpu_index == 1


def test_mig_instances_that_go_have_vanished_until_they_are_forgotten_or_back() -> None:
    ward = mig_ward()
    (gone,) = ward.scan(cut_card(0, "1g.10gb", "1g.10gb"), card(1))
    assert (gone.uuid, gone.reason) == (slot(2), "vanished")
    ward.scan(cut_card(0, "1g.10gb", "1g.10gb", "2g.20gb"), card(1))
    assert ward.sick == {}
    ward.scan(cut_card(0, "1g.10gb", "1g.10gb"), card(1))
    assert ward.hear(Forgotten(slot(2))) == ()
    assert ward.sick == {}


def test_a_card_that_is_forgotten_stays_so_while_it_is_away() -> None:
    ward = Ward()
    ward.scan(card(1))
    ward.hear(Forgotten(A))
    assert ward.scan(card(1), after=30) == ()
    assert ward.sick == {}
    ward.scan(card(0), card(1))
    assert ward.sick == {}


def test_instances_that_could_not_be_read_are_still_there() -> None:
    ward = mig_ward()
    ward.scan(cut_card(0), card(1), problems=(Problem(A, "nvmlDeviceGetMigDeviceHandleByIndex", 999),))
    assert ward.sick == {}
    ward.xid(79, gi=8)
    assert set(ward.sick) == {slot(1)}


def test_a_lost_card_keeps_its_instances() -> None:
    ward = mig_ward()
    ward.scan(replace(cut_card(0), lost=True), card(1))
    ward.scan(cut_card(0, "1g.10gb", "1g.10gb", "2g.20gb"), card(1))
    assert ward.sick == {}


def test_instances_are_believed_though_another_query_failed() -> None:
    ward = mig_ward()
    ward.scan(cut_card(0, "1g.10gb"), card(1), problems=(Problem(A, "nvmlDeviceGetFanSpeed", 999),))
    assert set(ward.sick) == {slot(1), slot(2)}
