"""Cordons and rehearsals (H10, H11)."""

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Cordon, HealthSection
from deviceplugin.model.evidence import (
    Forgotten,
    Injected,
    Injection,
    Tick,
)
from deviceplugin.model.health import Verdict
from deviceplugin.model.node import Node
from deviceplugin.rules.judge import judge, start
from tests.strategies.nodes import card, cut_card
from tests.unit.judge_ward import A, B, Ward, mig_ward, slot


@pytest.mark.parametrize("name", [0, "0", A, "00000000:10:00.0", "0000:10:00.0", "10:00.0", " 0 "])
def test_h10_a_card_is_cordoned_by_any_of_its_names(name: str | int) -> None:
    ward = Ward()
    (told,) = ward.configure(cordon=(Cordon("nobody"), Cordon(name, "smells of smoke")))
    assert (told.uuid, told.reason, told.rule) == (A, "cordoned", "health.cordon[1]")
    assert told.detail.startswith("Cordoned: smells of smoke. It comes back when its entry is taken out")
    (back,) = ward.configure(cordon=())
    assert (back.to, back.detail) == ("healthy", "cordoned is over: health.cordon does not name the device any more.")


@pytest.mark.parametrize("name", ["0:1", slot(1)])
def test_h10_an_instance_is_cordoned_alone(name: str) -> None:
    ward = mig_ward()
    ward.configure(cordon=(Cordon(name),))
    assert set(ward.sick) == {slot(1)}


def test_h10_a_real_fault_during_the_cordon_survives_it() -> None:
    ward = Ward()
    ward.configure(cordon=(Cordon(0),))
    ward.xid(79)
    (told,) = ward.configure(cordon=())
    assert (told.before, told.to) == ("unhealthy", "unhealthy")
    assert ward.sick == {A: ("xid-79",)}


def test_h10_an_entry_that_names_nothing_is_said_once() -> None:
    ward = Ward()
    ward.configure(cordon=(Cordon("9"),))
    assert ward.notes == ["health.cordon[0]: '9' names no GPU or MIG instance of this node"]
    ward.hear(Tick())
    assert ward.notes == []
    ward.scan(card(0), card(1), card(9))
    assert set(ward.sick) == {card(9).uuid}


def test_h10_an_index_goes_on_to_mean_the_card_it_meant() -> None:
    ward = Ward()
    ward.configure(cordon=(Cordon(1),))
    ward.scan(replace(card(1), index=0))
    assert ward.sick == {A: ("vanished",), B: ("cordoned",)}
    ward.scan(card(0))
    assert ward.sick == {B: ("vanished", "cordoned")}
    ward.hear(Forgotten(B))
    ward.hear(Tick())
    assert ward.sick == {}
    ward.scan(card(0), card(1))
    assert ward.sick == {B: ("cordoned",)}


def test_h10_an_instance_that_is_made_anew_is_cordoned_by_its_place() -> None:
    ward = mig_ward()
    ward.configure(cordon=(Cordon("0:1"),))
    ward.scan(cut_card(0, "1g.10gb"), card(1))
    gone = [uuid for uuid in ward.sick if uuid != slot(2)]
    assert gone == [slot(1)]
    assert ward.sick[slot(1)] == ("vanished", "cordoned")
    ward.hear(Forgotten(slot(1)))
    ward.hear(Forgotten(slot(2)))
    fresh = cut_card(0, "1g.10gb", "1g.10gb")
    renamed = replace(fresh.instances[1], uuid="MIG-new")
    ward.scan(replace(fresh, instances=(fresh.instances[0], renamed)), card(1))
    assert set(ward.sick) == {"MIG-new"}


def test_h10_no_cordon_is_called_unmatched_before_a_card_was_seen() -> None:
    policy = HealthSection(cordon=(Cordon(0),))
    state = start(Node(), policy, (), "b", 0.0)
    assert judge(state, Tick(), policy, 1.0).notes == ()


def test_h11_a_rehearsal_holds_while_it_is_declared() -> None:
    ward = Ward()
    (told,) = ward.hear(Injected((Injection("0", xid=79, note="drill"),)))
    assert (told.to, told.reason, told.xid, told.rule) == ("unhealthy", "injected", 79, "health.injectFile")
    assert told.detail.startswith(
        "A rehearsal of Xid 79 (GPU has fallen off the bus): drill. It comes back when its line"
    )
    (told,) = ward.hear(Injected((Injection("0", Verdict.RANK_LAST),)))
    assert (told.before, told.to) == ("unhealthy", "rank-last")
    assert ward.health.last[A][0].detail.startswith("A rehearsed fault. That ends when")
    (told,) = ward.hear(Injected())
    assert (told.to, told.detail) == ("healthy", "injected is over: the rehearsal is over.")
    assert ward.hear(Injected((Injection("7"),))) == ()
    assert ward.notes == ["health.injectFile: '7' names no GPU or MIG instance of this node"]
