"""The states a reading shows: which ailment each is, which policy rules it, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType

from msgspec import Struct

from deviceplugin.model.node import Fabric, FabricState
from deviceplugin.model.vitals import Reading, RecoveryAction


class Answer(Enum):
    """What a reading says of one state."""

    BAD = "bad"
    GOOD = "good"
    ABSENT = "absent"
    """This hardware or driver has no such state."""
    UNKNOWN = "unknown"
    """It has, and could not be asked: this changes nothing."""


class State(Struct, frozen=True):
    """One state of a card."""

    reason: str
    policy: str
    """Field of the health section."""
    rule: str
    query: str
    """Part of the name of the vendor's function that reads it."""
    bad: Callable[[Reading], bool | None]
    """None where the reading does not say."""
    seen: Callable[[Reading], str]
    back: str
    blocks: bool = False
    """Whether it holds up the recovery from an Xid."""
    may_go: bool = False
    """A card can come to have no such state (it has no links in MIG mode): then nothing is wrong with it."""


_ACTIONS: Mapping[int, str] = MappingProxyType(
    {
        RecoveryAction.GPU_RESET: "a GPU reset",
        RecoveryAction.NODE_REBOOT: "a reboot of the node",
        RecoveryAction.DRAIN_P2P: "draining of peer-to-peer work",
        RecoveryAction.DRAIN_AND_RESET: "draining and a GPU reset",
        RecoveryAction.RECOVER_IMEX_DOMAIN: "recovery of the IMEX domain",
        RecoveryAction.BUS_RESET: "a bus reset",
        RecoveryAction.SYSTEM_REBOOT: "a reboot of the system",
    }
)
RESETS = frozenset(
    {
        RecoveryAction.GPU_RESET,
        RecoveryAction.NODE_REBOOT,
        RecoveryAction.DRAIN_AND_RESET,
        RecoveryAction.BUS_RESET,
        RecoveryAction.SYSTEM_REBOOT,
    }
)
"""Actions that only a reset ends."""

_FLAGS = MappingProxyType({0: "degraded bandwidth", 2: "route recovery", 4: "unhealthy route", 6: "access time-out"})
_CONFIGURATION_SHIFT, _CONFIGURATION_FINE = 8, 1


def fabric_faults(mask: int) -> tuple[str, ...]:
    """Faults in nvmlGpuFabricInfo's health mask: two bits each, 1 for true, and a number for the configuration."""
    faults = [name for shift, name in _FLAGS.items() if mask >> shift & 3 == 1]
    if mask >> _CONFIGURATION_SHIFT & 15 > _CONFIGURATION_FINE:
        faults.append("wrong configuration")
    return tuple(faults)


def _fabric_bad(reading: Reading) -> bool | None:
    fabric = reading.fabric
    if fabric is None or fabric.state is FabricState.NOT_SUPPORTED:
        return None
    return not fabric.completed or bool(fabric_faults(fabric.health_mask))


def _fabric_seen(reading: Reading) -> str:
    fabric = reading.fabric or Fabric(FabricState.NOT_SUPPORTED)
    faults = ", ".join(fabric_faults(fabric.health_mask))
    state = fabric.state.name.lower().replace("_", " ")
    status = f" with status {fabric.status}" if fabric.state is FabricState.COMPLETED and fabric.status else ""
    return f"the NVLink fabric is {state}{status}" + (f" and shows {faults}" if faults else "")


def _action_bad(reading: Reading) -> bool | None:
    action = reading.recovery_action
    return None if action is None or action < 0 else action != RecoveryAction.NONE


def _action_seen(reading: Reading) -> str:
    action = reading.recovery_action or 0
    return f"the driver asks for {_ACTIONS.get(action, f'recovery action {action}')}"


def _ecc_bad(reading: Reading) -> bool | None:
    count = reading.volatile_uncorrectable
    if count is None or count < 0 or reading.remap_supported is not False:
        return None
    return count > 0


def _links_bad(reading: Reading) -> bool | None:
    return None if reading.links_down is None else bool(reading.links_down)


def _links_seen(reading: Reading) -> str:
    return "NVLinks are down: " + ", ".join(str(link) for link in reading.links_down or ())


STATES: Mapping[str, State] = MappingProxyType(
    {
        state.reason: state
        for state in (
            State(
                "recovery-action",
                "recovery_action",
                "health.recoveryAction",
                "FieldValues",
                _action_bad,
                _action_seen,
                "when the driver asks for no recovery action any more",
                blocks=True,
            ),
            State(
                "remap-failure",
                "remap_failure",
                "health.remapFailure",
                "RemappedRows",
                lambda reading: reading.remap_failure,
                lambda _: "a row remap failed",
                "when the driver reports no failed remap any more; as a rule the board must be replaced",
                blocks=True,
            ),
            State(
                "remap-pending",
                "remap_pending",
                "health.remapPending",
                "RemappedRows",
                lambda reading: reading.remap_pending,
                lambda _: "a row remap waits for a GPU reset",
                "when a GPU reset has done the remap",
                blocks=True,
            ),
            State(
                "retired-pages-pending",
                "remap_pending",
                "health.remapPending",
                "RetiredPages",
                lambda reading: reading.retired_pending,
                lambda _: "pages wait for a GPU reset to be retired",
                "when a GPU reset has retired the pages",
                blocks=True,
            ),
            State(
                "ecc-uncorrectable",
                "ecc",
                "health.ecc",
                "EccErrors",
                _ecc_bad,
                lambda reading: f"{reading.volatile_uncorrectable} uncorrectable ECC errors since the last reset",
                "when the driver counts none, after a GPU reset",
            ),
            State(
                "fabric",
                "fabric",
                "health.fabric",
                "Fabric",
                _fabric_bad,
                _fabric_seen,
                "when the fabric is completed and shows no fault",
                may_go=True,
            ),
            State(
                "nvlink-down",
                "nvlink",
                "health.nvlink",
                "NvLink",
                _links_bad,
                _links_seen,
                "when the links are up",
                may_go=True,
            ),
        )
    }
)
"""By reason, the gravest first."""


_WITHOUT_REMAP = frozenset({"retired-pages-pending", "ecc-uncorrectable"})
"""States of cards that do not remap rows."""


def answer(reading: Reading, state: State) -> Answer:
    """What the reading says of one state: a query that failed leaves its own state unknown, and no other."""
    bad = state.bad(reading)
    if bad is not None:
        return Answer.BAD if bad else Answer.GOOD
    failed = any(state.query in problem.query for problem in reading.problems)
    if failed or _unclear(reading, state) or not _spoke(reading):
        return Answer.UNKNOWN
    return Answer.GOOD if state.may_go else Answer.ABSENT


def _spoke(reading: Reading) -> bool:
    """Whether the card said anything at all, so that what it does not say is something it does not have."""
    return reading.alive or (
        reading.alive is None and (reading.remap_supported, reading.recovery_action) != (None, None)
    )


def _unclear(reading: Reading, state: State) -> bool:
    """Whether there is an answer that cannot be believed, or it is unknown whether the card has that state."""
    if state.reason == "recovery-action":
        return reading.recovery_action is not None
    count = reading.volatile_uncorrectable or 0
    old = state.reason in _WITHOUT_REMAP
    return old and (reading.remap_supported is None or (state.reason == "ecc-uncorrectable" and count < 0))
