"""Nothing heals without evidence of its class (H2), and flapping is damped."""

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Cordon, HealthPolicy, HealthSection
from deviceplugin.model.evidence import (
    DriverReloaded,
    ScanSeen,
    TakenUp,
    Tick,
)
from deviceplugin.model.node import Problem
from tests.strategies.nodes import card, node
from tests.unit.judge_ward import A, B, Ward, good


def test_h2_a_recoverable_xid_ends_when_clean_and_quiet() -> None:
    ward = Ward()
    (fell,) = ward.xid(94)
    assert (fell.before, fell.to, fell.reason, fell.xid) == ("healthy", "unhealthy", "xid-94", 94)
    ward.hear(good(), 1)
    assert ward.hear(Tick(), 58.9) == ()
    assert set(ward.sick) == {A}
    (back,) = ward.hear(Tick(), 0.1)
    assert (back.before, back.to, back.reason) == ("unhealthy", "healthy", "xid-94")
    assert ward.sick == {}


def test_h2_the_quiet_period_runs_from_the_last_event() -> None:
    ward = Ward()
    ward.xid(94)
    ward.now += 50
    ward.xid(94)
    ward.hear(good(), 50)
    assert set(ward.sick) == {A}
    ward.hear(Tick(), 10)
    assert ward.sick == {}


@pytest.mark.parametrize(
    "not_clean",
    [
        {"recovery_action": 1},
        {"remap_pending": True},
        {"remap_failure": True},
        {"retired_pending": True},
        {"recovery_action": None, "problems": (Problem(A, "nvmlDeviceGetFieldValues", 999),)},
        {"remap_pending": None, "remap_failure": None, "problems": (Problem(A, "nvmlDeviceGetRemappedRows", 999),)},
        {"recovery_action": -1},
        {"alive": False},
        {"alive": False, "retired_pending": False},
    ],
)
def test_h2_h9_what_is_pending_or_unknown_holds_a_recovery_up(not_clean: dict[str, object]) -> None:
    ward = Ward(policy=HealthSection(recovery_action=HealthPolicy.IGNORE, remap_failure=HealthPolicy.IGNORE))
    ward.xid(94)
    ward.hear(replace(good(), **not_clean), 1)
    ward.hear(Tick(), 1000)
    assert "xid-94" in ward.sick[A]


def test_h2_a_query_that_always_fails_and_says_nothing_of_recovery_does_not_hold_it_up() -> None:
    ward = Ward()
    ward.xid(94)
    odd = Problem(A, "nvmlDeviceGetGpuFabricInfoV", 999)
    ward.hear(replace(good(), alive=None, problems=(odd,)), 60)
    assert ward.sick == {}


def test_h2_a_reset_that_was_asked_for_is_believed_after_a_release_and_only_then() -> None:
    ward = Ward()
    ward.xid(79)
    ward.hear(replace(good(), recovery_action=1), 1)
    ward.hear(good(), 100)
    assert ward.sick == {A: ("xid-79",)}
    ward.hear(replace(good(), recovery_action=2), 1)
    ward.hear(TakenUp())
    ward.hear(replace(good(), recovery_action=2), 1)
    assert ward.sick == {A: ("xid-79", "recovery-action")}
    ward.hear(good(), 1)
    assert ward.sick == {}


def test_h2_a_release_resets_the_cards_it_was_for_and_no_others() -> None:
    ward = Ward()
    ward.xid(79, A)
    ward.xid(79, B)
    ward.hear(TakenUp(frozenset({A})))
    ward.hear(good(A), 100)
    ward.hear(good(B))
    assert set(ward.sick) == {B}


def test_h2_draining_is_no_reset() -> None:
    ward = Ward()
    ward.xid(79)
    ward.hear(replace(good(), recovery_action=3), 1)
    ward.hear(TakenUp())
    ward.hear(good(), 100)
    assert ward.sick == {A: ("xid-79",)}


def test_h2_a_driver_loaded_anew_resets_the_cards_named() -> None:
    ward = Ward()
    ward.xid(79, A)
    ward.xid(79, B)
    ward.hear(DriverReloaded(frozenset({B}), "boot-2"))
    ward.hear(good(A), 100)
    ward.hear(good(B))
    assert set(ward.sick) == {A}
    assert ward.state.boot_id == "boot-2"


def test_h2_a_card_out_of_the_scan_has_vanished_and_is_reset_when_it_is_back() -> None:
    ward = Ward()
    ward.xid(79)
    (gone,) = ward.scan(card(1), after=1)
    assert (gone.reason, gone.gpu_index, gone.pci) == ("vanished", 0, card(0).pci)
    assert ward.sick == {A: ("vanished", "xid-79")}
    ward.scan(card(1), after=30)
    ward.scan(card(0), card(1), after=30)
    assert ward.sick == {A: ("xid-79",)}
    ward.hear(good(), 1)
    assert ward.sick == {}


def test_flapping_doubles_the_quiet_period_up_to_a_cap() -> None:
    ward = Ward()
    waits = []
    for _ in range(8):
        ward.xid(94)
        ward.hear(good(), 1)
        waits.append(_seconds_until_back(ward, A))
    assert waits == [60, 120, 240, 480, 960, 1920, 1920, 1920]


def test_time_in_good_health_forgives() -> None:
    ward = Ward()
    for _ in range(3):
        ward.xid(94)
        ward.hear(good(), 1)
        _seconds_until_back(ward, A)
    assert ward.state.flaps[A].count == 2
    ward.hear(Tick(), 1799)
    assert A in ward.state.flaps
    ward.hear(Tick(), 1)
    assert ward.state.flaps == {}
    ward.xid(94)
    ward.hear(good(), 1)
    assert _seconds_until_back(ward, A) == 60


def test_a_lost_card_comes_back_at_once_the_first_time_and_later_the_next() -> None:
    ward = Ward()
    ward.scan(card(0, lost=True), card(1))
    ward.scan(card(0), card(1), after=1)
    assert ward.sick == {}
    ward.scan(card(0, lost=True), card(1), after=1)
    ward.scan(card(0), card(1), after=1)
    assert ward.sick == {A: ("lost",)}
    assert "and 60 s have passed" in ward.health.sick[A][0].detail
    ward.hear(Tick(), 59)
    assert ward.sick == {}


def test_without_a_quiet_period_nothing_is_damped() -> None:
    ward = Ward(policy=HealthSection(quiet_period=0))
    for _ in range(3):
        ward.xid(94)
        assert set(ward.sick) == {A}
        ward.hear(good())
        assert ward.sick == {}


def test_cordons_are_no_flapping() -> None:
    ward = Ward()
    for _ in range(3):
        ward.configure(cordon=(Cordon(0),))
        ward.configure(cordon=())
    assert ward.state.flaps == {}


def test_a_clock_that_steps_back_begins_the_quiet_period_anew_and_no_more() -> None:
    ward = Ward(now=100_000)
    ward.xid(94)
    ward.now = 10_000
    ward.hear(Tick())
    ward.hear(good(), 59)
    assert set(ward.sick) == {A}
    ward.hear(Tick(), 1)
    assert ward.sick == {}


def test_each_device_flaps_by_itself() -> None:
    ward = Ward()
    for _ in range(2):
        ward.xid(79, B)
        ward.xid(94)
        ward.hear(good(), 1)
        waited = _seconds_until_back(ward, A)
    assert waited == 120
    assert ward.state.flaps[B].count == 0


def _seconds_until_back(ward: Ward, uuid: str) -> float:
    began = ward.now - 1
    while uuid in ward.sick:
        ward.hear(Tick(), 59 if ward.now == began + 1 else 60)
    return ward.now - began


def test_another_policy_for_something_else_takes_no_evidence_away() -> None:
    ward = Ward()
    ward.xid(94)
    ward.hear(good(), 1)
    ward.configure(ignored=(13,))
    ward.hear(Tick(), 59)
    assert ward.sick == {}


def test_a_clean_card_heals_itself_and_no_other() -> None:
    ward = Ward()
    ward.xid(94, A)
    ward.xid(94, B)
    ward.hear(good(A), 60)
    ward.hear(Tick(), 60)
    assert set(ward.sick) == {B}


def test_a_long_time_without_anything_heard_forgives_too() -> None:
    ward = Ward()
    ward.xid(94)
    ward.hear(good(), 60)
    ward.now += 100_000
    ward.xid(94)
    ward.hear(good(), 60)
    assert ward.sick == {}


def test_h2_a_suspected_reload_that_was_none_is_no_reset() -> None:
    ward = Ward()
    ward.xid(79)
    ward.hear(DriverReloaded(boot_id="boot-1/7"))
    ward.hear(good(), 100)
    assert set(ward.sick) == {A}
    ward.hear(DriverReloaded(boot_id="boot-1/8"))
    ward.hear(good())
    assert ward.sick == {}


def test_h2_another_driver_version_was_loaded_anew() -> None:
    ward = Ward()
    ward.scan(card(0), card(1))
    ward.xid(79)
    other = replace(node(card(0), card(1)), driver_version=None)
    ward.hear(ScanSeen(other))
    ward.hear(good(), 100)
    assert set(ward.sick) == {A}
    ward.hear(ScanSeen(replace(other, driver_version="999.1")))
    ward.hear(good())
    assert ward.sick == {}
