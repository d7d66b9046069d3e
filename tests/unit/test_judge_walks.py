"""The state machine of one ailment, walked transition by transition through `judge` itself."""

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Cordon, HealthPolicy, HealthSection
from deviceplugin.model.evidence import (
    ChecksFailed,
    ChecksWorked,
    DriverReloaded,
    Evidence,
    Injected,
    Injection,
    PolicyChanged,
    ScanSeen,
    Tick,
)
from deviceplugin.model.health import Kind
from deviceplugin.model.node import Problem
from deviceplugin.model.vitals import Event, EventKind, Reading
from deviceplugin.rules.judge import JudgeState, judge, start
from deviceplugin.rules.judge.table import TABLE, Phase, Signal, step
from tests.strategies.nodes import card, node

GPU = card(0).uuid
NODE = node(card(0), card(1))
QUIET = 60.0
POLICY = HealthSection(quiet_period=QUIET, nvlink=HealthPolicy.UNHEALTHY)
GOOD = Reading(
    GPU, 0, alive=True, remap_supported=True, remap_pending=False, remap_failure=False, recovery_action=0, links_down=()
)
DIRTY = replace(GOOD, remap_pending=True)
MUTE = Reading(GPU, 0, alive=True, remap_supported=False)
LOST = ScanSeen(node(card(0, lost=True), card(1)))
HERE = ScanSeen(NODE)
DOWN = replace(GOOD, links_down=(3,))
NO_LINKS_READ = replace(GOOD, links_down=None, problems=(Problem(GPU, "nvmlDeviceGetNvLinkState", 999),))
REMAPPED = Event(GPU, EventKind.DRAM_RETIREMENT)


def xid(number: int) -> Event:
    return Event(GPU, EventKind.XID, number)


RECOVERABLE, RESET_REQUIRED = "xid-94", "xid-79"

# Ailment, then pairs of evidence and the phase it leads to; Tick stands for a quiet period that passes.
WALKS: dict[str, tuple[str, list[tuple[Evidence, Phase]]]] = {
    "recoverable: clean and quiet": (
        RECOVERABLE,
        [(xid(94), Phase.SICK), (GOOD, Phase.BETTER), (Tick(), Phase.WELL)],
    ),
    "recoverable: silence alone never heals": (RECOVERABLE, [(xid(94), Phase.SICK), (Tick(), Phase.SICK)]),
    "recoverable: pending again, and happening again, begin anew": (
        RECOVERABLE,
        [
            (xid(94), Phase.SICK),
            (DIRTY, Phase.SICK),
            (GOOD, Phase.BETTER),
            (DIRTY, Phase.SICK),
            (GOOD, Phase.BETTER),
            (xid(94), Phase.SICK),
        ],
    ),
    "recoverable: hardware without states needs a reset": (
        RECOVERABLE,
        [(xid(94), Phase.SICK), (MUTE, Phase.SICK), (DriverReloaded(), Phase.RESET), (MUTE, Phase.BETTER)],
    ),
    "recoverable: a reset and a clean reading, or a new event": (
        RECOVERABLE,
        [
            (xid(94), Phase.SICK),
            (DriverReloaded(), Phase.RESET),
            (DIRTY, Phase.RESET),
            (xid(94), Phase.SICK),
            (DriverReloaded(), Phase.RESET),
            (GOOD, Phase.BETTER),
        ],
    ),
    "reset-required: clean and quiet are not enough": (
        RESET_REQUIRED,
        [(xid(79), Phase.SICK), (GOOD, Phase.SICK), (MUTE, Phase.SICK), (HERE, Phase.SICK), (Tick(), Phase.SICK)],
    ),
    "reset-required: reset, clean, quiet": (
        RESET_REQUIRED,
        [
            (xid(79), Phase.SICK),
            (DriverReloaded(), Phase.RESET),
            (Tick(), Phase.RESET),
            (DIRTY, Phase.RESET),
            (GOOD, Phase.WELL),
        ],
    ),
    "reset-required: clean and dirty again, and quiet at last": (
        RESET_REQUIRED,
        [
            (xid(79), Phase.SICK),
            (DriverReloaded(), Phase.RESET),
            (GOOD, Phase.BETTER),
            (DIRTY, Phase.RESET),
            (GOOD, Phase.BETTER),
            (Tick(), Phase.WELL),
        ],
    ),
    "reset-required: gone and back is a reset": (
        RESET_REQUIRED,
        [(xid(79), Phase.SICK), (LOST, Phase.SICK), (GOOD, Phase.SICK), (HERE, Phase.RESET), (MUTE, Phase.BETTER)],
    ),
    "reset-required: it happens again in each phase": (
        RESET_REQUIRED,
        [
            (xid(79), Phase.SICK),
            (xid(79), Phase.SICK),
            (DriverReloaded(), Phase.RESET),
            (xid(79), Phase.SICK),
            (DriverReloaded(), Phase.RESET),
            (GOOD, Phase.BETTER),
            (DriverReloaded(), Phase.BETTER),
            (xid(79), Phase.SICK),
        ],
    ),
    "state: its own good reading ends it at once": ("nvlink-down", [(DOWN, Phase.SICK), (GOOD, Phase.WELL)]),
    "state: an unknown reading and a reset without reading do not": (
        "nvlink-down",
        [
            (DOWN, Phase.SICK),
            (NO_LINKS_READ, Phase.SICK),
            (Tick(), Phase.SICK),
            (DriverReloaded(), Phase.RESET),
            (NO_LINKS_READ, Phase.RESET),
            (DOWN, Phase.SICK),
            (DriverReloaded(), Phase.RESET),
            (GOOD, Phase.WELL),
        ],
    ),
    "state: announced on hardware that has no such state, a reset ends it": (
        "remap-pending",
        [(REMAPPED, Phase.SICK), (MUTE, Phase.SICK), (DriverReloaded(), Phase.RESET), (MUTE, Phase.WELL)],
    ),
    "lost: a whole scan ends it, a reading does not": (
        "lost",
        [
            (LOST, Phase.SICK),
            (GOOD, Phase.SICK),
            (Tick(), Phase.SICK),
            (DriverReloaded(), Phase.SICK),
            (HERE, Phase.WELL),
        ],
    ),
    "cordoned: only the configuration ends it": (
        "cordoned",
        [(PolicyChanged(), Phase.SICK), (GOOD, Phase.SICK), (DriverReloaded(), Phase.SICK), (HERE, Phase.SICK)],
    ),
    "injected: until the line is gone": (
        "injected",
        [(Injected((Injection("0"),)), Phase.SICK), (GOOD, Phase.SICK), (Tick(), Phase.SICK), (Injected(), Phase.WELL)],
    ),
    "unchecked: until a source answers": (
        "unchecked",
        [(ChecksFailed("events", failures=3), Phase.SICK), (Tick(), Phase.SICK), (ChecksWorked("events"), Phase.WELL)],
    ),
}


def phase(state: JudgeState, reason: str) -> Phase:
    ailment = state.ailments.get((GPU, reason))
    return ailment.phase if ailment else Phase.WELL


@pytest.mark.parametrize("name", WALKS)
def test_walk(name: str) -> None:
    reason, steps = WALKS[name]
    policy = replace_cordon(POLICY) if reason == "cordoned" else POLICY
    state, now = start(NODE, POLICY, (), "boot", 0), 1000.0
    for number, (evidence, expected) in enumerate(steps):
        now += QUIET if isinstance(evidence, Tick) else 1
        state = judge(state, evidence, policy, now).state
        assert phase(state, reason) is expected, f"step {number}: {evidence}"


def replace_cordon(policy: HealthSection) -> HealthSection:
    return HealthSection(quiet_period=policy.quiet_period, nvlink=policy.nvlink, cordon=(Cordon(0),))


BETTER_AND_AGAIN = {
    (Phase.RESET, Signal.SEEN): Phase.SICK,
    (Phase.BETTER, Signal.SEEN): Phase.SICK,
    (Phase.BETTER, Signal.QUIET): Phase.WELL,
}
EXPECTED = {
    Kind.RECOVERABLE: BETTER_AND_AGAIN
    | {
        (Phase.SICK, Signal.CLEAN): Phase.BETTER,
        (Phase.SICK, Signal.RESET): Phase.RESET,
        (Phase.RESET, Signal.CLEAN): Phase.BETTER,
        (Phase.RESET, Signal.MUTE): Phase.BETTER,
        (Phase.BETTER, Signal.DIRTY): Phase.SICK,
    },
    Kind.RESET_REQUIRED: BETTER_AND_AGAIN
    | {
        (Phase.SICK, Signal.RESET): Phase.RESET,
        (Phase.RESET, Signal.CLEAN): Phase.BETTER,
        (Phase.RESET, Signal.MUTE): Phase.BETTER,
        (Phase.BETTER, Signal.DIRTY): Phase.RESET,
    },
    Kind.STATE: BETTER_AND_AGAIN
    | {
        (Phase.SICK, Signal.CLEARED): Phase.BETTER,
        (Phase.SICK, Signal.RESET): Phase.RESET,
        (Phase.RESET, Signal.CLEARED): Phase.BETTER,
        (Phase.RESET, Signal.MUTE): Phase.BETTER,
    },
    Kind.LOST: BETTER_AND_AGAIN | {(Phase.SICK, Signal.BACK): Phase.BETTER, (Phase.RESET, Signal.BACK): Phase.BETTER},
    Kind.CORDONED: {(Phase.SICK, Signal.LIFTED): Phase.WELL},
    Kind.INJECTED: {(Phase.SICK, Signal.LIFTED): Phase.WELL},
    Kind.UNCHECKED: {(Phase.SICK, Signal.LIFTED): Phase.WELL},
}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("before", Phase)
@pytest.mark.parametrize("signal", Signal)
def test_every_cell_of_the_table(kind: Kind, before: Phase, signal: Signal) -> None:
    assert step(kind, before, signal) is EXPECTED[kind].get((before, signal), before)


def test_every_kind_has_its_steps_and_nothing_follows_well() -> None:
    assert set(TABLE) == set(Kind)
    assert not [key for steps in TABLE.values() for key in steps if key[0] is Phase.WELL]
