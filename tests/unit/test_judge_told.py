"""Events other than Xids, and that every change says why (H5, H6)."""

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Cordon, HealthPolicy, HealthSection
from deviceplugin.model.evidence import (
    Tick,
)
from deviceplugin.model.health import Transition, Verdict
from deviceplugin.model.vitals import Event, EventKind
from tests.strategies.nodes import card
from tests.unit.judge_ward import A, Ward, good, old


@pytest.mark.parametrize(
    ("kind", "remaps", "expected"),
    [
        (EventKind.DOUBLE_BIT_ECC, True, ("ecc-double-bit", "recoverable")),
        (EventKind.DOUBLE_BIT_ECC, False, ("ecc-double-bit", "reset-required")),
        (EventKind.DOUBLE_BIT_ECC, None, ("ecc-double-bit", "reset-required")),
        (EventKind.CONTAINED_POISON, True, ("ecc-contained", "recoverable")),
        (EventKind.FATAL_POISON, True, ("ecc-fatal", "reset-required")),
        (EventKind.DRAM_RETIREMENT_FAILURE, True, ("remap-failure", "state")),
        (EventKind.UNAVAILABLE, True, ("unavailable", "reset-required")),
        (EventKind.SINGLE_BIT_ECC, True, None),
        (EventKind.SINGLE_BIT_ECC_STORM, True, None),
        (EventKind.RECOVERY_ACTION, True, None),
        (EventKind.OTHER, True, None),
    ],
)
def test_h5_events_other_than_xids_count(
    kind: EventKind,
    remaps: bool | None,  # noqa: FBT001
    expected: tuple[str, str] | None,
) -> None:
    ward = Ward()
    if remaps is not None:
        ward.hear(good() if remaps else old())
    told = ward.hear(Event(A, kind))
    assert [(one.reason, one.kind) for one in told] == ([expected] if expected else [])
    assert ward.reread == ((A,) if expected or kind is EventKind.RECOVERY_ACTION else ())


def test_h5_ecc_events_follow_the_ecc_policy() -> None:
    ward = Ward(policy=HealthSection(ecc=HealthPolicy.RANK_LAST))
    ward.hear(Event(A, EventKind.DOUBLE_BIT_ECC))
    assert (ward.sick, ward.last) == ({}, {A: ("ecc-double-bit",)})


def test_h6_a_transition_says_all_there_is_to_say() -> None:
    ward = Ward()
    (told,) = ward.xid(79)
    assert told == Transition(
        at=1000.0,
        uuid=A,
        pci=card(0).pci,
        gpu_index=0,
        before=Verdict.HEALTHY,
        to=Verdict.UNHEALTHY,
        reason="xid-79",
        rule="health.fatal",
        detail="Xid 79 (GPU has fallen off the bus). It comes back after a GPU reset or a reboot, when the driver "
        "reports no recovery action and nothing pending and 60 s have passed since it last happened.",
        kind="reset-required",
        xid=79,
    )


def test_h6_a_second_cause_is_told_and_its_end_too() -> None:
    ward = Ward()
    ward.xid(94)
    (second,) = ward.hear(replace(good(), remap_failure=True))
    assert (second.before, second.to, second.reason) == ("unhealthy", "unhealthy", "remap-failure")
    assert not second.over
    (less,) = ward.hear(good(), 1)
    assert (less.before, less.to, less.reason) == ("unhealthy", "unhealthy", "remap-failure")
    assert (
        less.detail
        == "remap-failure is over: the driver no longer reports it. It is still unhealthy for other reasons."
    )
    (back,) = ward.hear(Tick(), 100)
    assert (back.before, back.to) == ("unhealthy", "healthy")
    assert less.over
    assert back.over


def test_h6_several_changes_at_once_are_told_one_after_the_other() -> None:
    ward = Ward()
    told = ward.hear(replace(good(), remap_failure=True, remap_pending=True))
    assert [(one.before, one.to, one.reason) for one in told] == [
        ("healthy", "unhealthy", "remap-failure"),
        ("unhealthy", "unhealthy", "remap-pending"),
    ]


def test_h6_the_gravest_sickness_is_the_one_to_show() -> None:
    ward = Ward()
    ward.configure(cordon=(Cordon(0),))
    ward.hear(replace(good(), remap_failure=True))
    ward.xid(94)
    ward.xid(79)
    ward.scan(card(0, lost=True), card(1))
    assert ward.sick == {A: ("lost", "xid-79", "remap-failure", "xid-94", "cordoned")}


def test_h6_the_same_thing_again_is_not_told_again() -> None:
    ward = Ward()
    assert ward.xid(79)
    assert ward.xid(79) == ()
    bad = replace(good(), remap_failure=True)
    assert ward.hear(bad)
    assert ward.hear(bad) == ()
