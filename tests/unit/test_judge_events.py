"""What an event takes out: the card, an instance, or nothing (H1), and events that are garbage."""

import pytest

from deviceplugin.model.vitals import Event, EventKind, Reading
from tests.strategies.nodes import card
from tests.unit.judge_ward import WHOLE, A, B, Ward, mig_ward, slot


@pytest.mark.parametrize(
    ("gi", "ci", "expected"),
    [
        (None, None, {A}),
        (WHOLE, WHOLE, {A}),
        (-1, -1, {A}),
        (7, 0, {slot(0)}),
        (8, None, {slot(1)}),
        (9, WHOLE, {slot(2)}),
        (None, 0, {slot(0), slot(1), slot(2)}),
        (WHOLE, 0, {slot(0), slot(1), slot(2)}),
        (7, 1, {A}),
        (5, 0, {A}),
    ],
)
def test_h1_an_event_takes_out_what_it_names(gi: int | None, ci: int | None, expected: set[str]) -> None:
    ward = mig_ward()
    ward.xid(79, gi=gi, ci=ci)
    assert set(ward.sick) == expected


def test_h1_a_whole_card_takes_its_shares_and_instances_along_and_leaves_the_neighbour() -> None:
    ward = mig_ward()
    ward.xid(79)
    assert [one.reason for one in ward.health.reasons(slot(1), A)] == ["xid-79"]
    assert ward.health.reasons(B, B) == ()


def test_h1_siblings_of_a_sick_instance_are_untouched() -> None:
    ward = mig_ward()
    ward.xid(79, gi=8, ci=0)
    assert [bool(ward.health.reasons(slot(n), A)) for n in range(3)] == [False, True, False]


def test_an_event_for_no_card_judges_none_and_has_all_read() -> None:
    ward = Ward()
    assert ward.hear(Event(None, EventKind.XID, 79)) == ()
    assert set(ward.reread) == {A, B}
    assert "did not name" in ward.notes[0]
    assert ward.hear(Event("", EventKind.DOUBLE_BIT_ECC)) == ()
    assert ward.notes == []


@pytest.mark.parametrize("number", [None, 0, -5])
def test_an_xid_that_is_none_changes_nothing_and_is_named(number: int | None) -> None:
    ward = Ward()
    assert ward.hear(Event(A, EventKind.XID, number)) == ()
    assert f"carried {number}" in ward.notes[0]


def test_a_reading_of_no_card_changes_nothing_and_is_named() -> None:
    ward = Ward()
    assert ward.hear(Reading("", 0, alive=False)) == ()
    assert "names no GPU" in ward.notes[0]


@pytest.mark.parametrize("at", [0.0, -1.0, float("nan"), float("inf"), 1e18])
def test_an_event_with_an_impossible_time_happened_now(at: float) -> None:
    ward = Ward()
    ward.hear(Event(A, EventKind.XID, 94, at=at))
    assert ward.health.sick[A][0].since == ward.now


def test_an_event_for_a_card_that_no_scan_has_shown_counts_when_it_shows() -> None:
    ward = Ward()
    assert ward.xid(79, card(5).uuid) == ()
    assert ward.sick == {}
    (told,) = ward.scan(card(0), card(1), card(5))
    assert (told.uuid, told.gpu_index) == (card(5).uuid, 5)


def test_an_event_that_names_an_instance_itself_is_about_that() -> None:
    ward = mig_ward()
    ward.hear(Event(slot(1), EventKind.XID, 79))
    assert set(ward.sick) == {slot(1)}
    assert ward.reread == (A,)
    ward.hear(Event(slot(1), EventKind.DRAM_RETIREMENT_FAILURE))
    assert set(ward.sick) == {slot(1), A}
