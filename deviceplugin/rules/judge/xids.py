"""Which Xids count, by the health section of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from deviceplugin.config.document import HealthSection, UnknownXid
from deviceplugin.model.health import Kind, Verdict

REMAP_PENDING = 63
"""Judged as the state it announces, unless a list of the configuration names it."""
RECOVERY_ACTION_CHANGED = 154
"""Says only that field 230 is to be read, unless a list of the configuration names it."""
SPECIAL = frozenset({REMAP_PENDING, RECOVERY_ACTION_CHANGED})


class Ruling(Struct, frozen=True):
    """What an ailment does under the policy in force, and which entry of the configuration says so."""

    verdict: Verdict
    kind: Kind
    rule: str


_FATAL = (Verdict.UNHEALTHY, Kind.RESET_REQUIRED)
_RECOVERABLE = (Verdict.UNHEALTHY, Kind.RECOVERABLE)
_IGNORED = (Verdict.HEALTHY, Kind.RECOVERABLE)
_UNKNOWN = {
    UnknownXid.FATAL: _FATAL,
    UnknownXid.RECOVERABLE: _RECOVERABLE,
    UnknownXid.IGNORE: _IGNORED,
}

NAMES: Mapping[int, str] = MappingProxyType(
    {
        13: "graphics engine exception",
        31: "GPU memory page fault",
        43: "GPU stopped processing",
        45: "preemptive channel removal",
        48: "double-bit ECC error",
        62: "microcontroller halt",
        63: "row remap pending",
        64: "row remap failure",
        68: "video processor exception",
        74: "NVLink error",
        79: "GPU has fallen off the bus",
        94: "contained memory error",
        95: "uncontained memory error",
        109: "context switch time-out",
        119: "GSP time-out",
        120: "GSP error",
        140: "unrecovered ECC error",
        143: "GPU initialisation failure",
        154: "recovery action changed",
        999: "unknown to the driver",
    }
)


def listed(xid: int, policy: HealthSection) -> bool:
    """Whether a list of the configuration names the Xid."""
    return xid in policy.fatal or xid in policy.recoverable or xid in policy.ignored


def classify(xid: int, policy: HealthSection) -> Ruling:
    """What an Xid does; in several lists at once, the most careful one decides."""
    if xid in policy.fatal:
        return Ruling(*_FATAL, "health.fatal")
    if xid in policy.recoverable:
        return Ruling(*_RECOVERABLE, "health.recoverable")
    if xid in policy.ignored:
        return Ruling(*_IGNORED, "health.ignored")
    return Ruling(*_UNKNOWN[policy.unknown_xid], "health.unknownXid")


def describe(xid: int) -> str:
    """`Xid 79 (GPU has fallen off the bus)`."""
    name = NAMES.get(xid)
    return f"Xid {xid} ({name})" if name else f"Xid {xid}"


def in_force(policy: HealthSection) -> Mapping[str, tuple[int, ...]]:
    """The table of Xids as it is logged and exported; an Xid that is nowhere in it follows `health.unknownXid`."""
    every = sorted({*policy.fatal, *policy.recoverable, *policy.ignored})
    rules = {xid: classify(xid, policy).rule.removeprefix("health.") for xid in every}
    return {
        name: tuple(xid for xid, rule in rules.items() if rule == name) for name in ("fatal", "recoverable", "ignored")
    }


def classes(policy: HealthSection) -> Mapping[str, str]:
    """The same table turned round: class by Xid, and that of the Xids in no list as `other`."""
    listed = {str(xid): name for name, xids in in_force(policy).items() for xid in xids}
    return listed | {"other": _OTHER[policy.unknown_xid]}


_OTHER = {UnknownXid.FATAL: "fatal", UnknownXid.RECOVERABLE: "recoverable", UnknownXid.IGNORE: "ignored"}
