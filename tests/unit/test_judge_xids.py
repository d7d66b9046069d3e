"""Which Xids count is a matter of the configuration (H4)."""

import pytest

from deviceplugin.config.document import Cordon, HealthSection, UnknownXid
from deviceplugin.model.evidence import (
    DriverReloaded,
    Tick,
)
from deviceplugin.model.vitals import Event, EventKind
from deviceplugin.rules.judge import classes, in_force, remember
from tests.unit.judge_ward import POLICY, A, B, Ward, good, old


@pytest.mark.parametrize(
    ("number", "policy", "rule"),
    [
        (79, POLICY, "health.fatal"),
        (94, POLICY, "health.recoverable"),
        (13, POLICY, None),
        (999, POLICY, "health.unknownXid"),
        (1234567, POLICY, "health.unknownXid"),
        (1, HealthSection(unknown_xid=UnknownXid.RECOVERABLE), "health.unknownXid"),
        (1, HealthSection(unknown_xid=UnknownXid.IGNORE), None),
        (13, HealthSection(fatal=(13,)), "health.fatal"),
        (94, HealthSection(ignored=(94,)), "health.recoverable"),
        (154, POLICY, None),
        (154, HealthSection(fatal=(154,)), "health.fatal"),
        (63, HealthSection(fatal=(63,)), "health.fatal"),
        (63, HealthSection(ignored=(63,)), None),
    ],
)
def test_h4_lists_of_the_configuration_decide(number: int, policy: HealthSection, rule: str | None) -> None:
    ward = Ward(policy=policy)
    told = ward.xid(number)
    assert [one.rule for one in told] == ([rule] if rule else [])
    assert ward.reread == ((A,) if rule or number == 154 else ())


def test_h4_a_remap_that_waits_follows_its_own_policy_and_names_what_the_card_has() -> None:
    ward = Ward()
    (told,) = ward.xid(63)
    assert (told.to, told.reason, told.rule) == ("rank-last", "remap-pending", "health.remapPending")
    assert ward.last == {A: ("remap-pending",)}
    ward.hear(good(), 1)
    assert ward.last == {}
    ward.hear(old(B))
    ward.hear(Event(B, EventKind.DRAM_RETIREMENT))
    assert ward.last == {B: ("retired-pages-pending",)}


def test_h4_a_changed_table_takes_effect_on_what_stands_and_says_so() -> None:
    ward = Ward()
    ward.xid(79)
    (told,) = ward.configure(fatal=(48,), ignored=(79,))
    assert (told.to, told.rule) == ("healthy", "health.ignored")
    assert told.detail == "xid-79 does not count any more, health.ignored says so now."
    assert [one.reason for one in remember(ward.state)] == ["xid-79"]
    (told,) = ward.configure(fatal=(79,), ignored=())
    assert (told.to, told.rule) == ("unhealthy", "health.fatal")


def test_h3_what_is_ignored_for_a_while_counts_again_as_if_it_had_never_been_ignored() -> None:
    ward = Ward()
    ward.xid(74)
    ward.configure(fatal=(79,), ignored=(74,))
    assert ward.sick == {}
    for _ in range(3):
        assert ward.hear(good(), 1000) == ()
        ward.hear(Tick(), 1000)
    assert [(one.reason, one.kind) for one in remember(ward.state)] == [("xid-74", "reset-required")]
    (told,) = ward.configure(fatal=(74,), ignored=())
    assert (told.to, told.kind, told.rule) == ("unhealthy", "reset-required", "health.fatal")
    ward.hear(good(), 1000)
    assert ward.sick == {A: ("xid-74",)}
    ward.hear(DriverReloaded())
    ward.hear(good())
    assert ward.sick == {}


def test_h3_a_reset_ends_what_is_ignored_after_a_quiet_period_too() -> None:
    ward = Ward()
    ward.xid(74)
    ward.configure(fatal=(79,), ignored=(74,), unknown_xid=UnknownXid.IGNORE)
    ward.hear(DriverReloaded())
    ward.hear(good(), ward.policy.quiet_period - 1)
    assert [one.reason for one in remember(ward.state)] == ["xid-74"]
    assert ward.hear(good(), 1) == ()
    assert remember(ward.state) == ()
    assert ward.configure(fatal=(74,), ignored=()) == ()


def test_h3_a_recoverable_xid_that_is_ignored_ends_by_its_own_evidence() -> None:
    ward = Ward()
    ward.xid(94)
    ward.configure(recoverable=(), unknown_xid=UnknownXid.IGNORE)
    assert [one.kind for one in remember(ward.state)] == ["recoverable"]
    ward.hear(good(), 59)
    ward.configure(recoverable=(94,))
    assert ward.sick == {A: ("xid-94",)}
    ward.configure(recoverable=())
    ward.hear(good(), 1)
    assert remember(ward.state) == ()


def test_h4_evidence_for_one_class_of_recovery_is_none_for_another() -> None:
    ward = Ward()
    ward.xid(94)
    ward.hear(good(), 1)
    ward.configure(fatal=(94,), recoverable=())
    ward.hear(good(), 1000)
    assert set(ward.sick) == {A}
    ward.hear(DriverReloaded())
    ward.configure(fatal=(), recoverable=(94,))
    ward.hear(good())
    assert ward.sick == {}


def test_h4_the_policy_may_come_with_any_evidence() -> None:
    ward = Ward()
    ward.policy = HealthSection(cordon=(Cordon(1),))
    ward.hear(good())
    assert ward.sick == {B: ("cordoned",)}


def test_h4_the_table_in_force_can_be_shown() -> None:
    policy = HealthSection(fatal=(79, 48), recoverable=(94, 48), ignored=(13,))
    assert in_force(policy) == {"fatal": (48, 79), "recoverable": (94,), "ignored": (13,)}
    by_xid = {"48": "fatal", "79": "fatal", "94": "recoverable", "13": "ignored"}
    assert classes(policy) == by_xid | {"other": "fatal"}
    assert classes(HealthSection(unknown_xid=UnknownXid.IGNORE))["other"] == "ignored"


def test_h4_what_was_ignored_when_it_happened_does_not_count_later() -> None:
    ward = Ward()
    ward.xid(13)
    assert ward.configure(ignored=(), fatal=(13,)) == ()
    assert ward.sick == {}
