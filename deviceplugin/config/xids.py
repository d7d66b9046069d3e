"""Lists of Xids: what a given list names leaves the default lists; upstream's two variables are folded in."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, structs

from deviceplugin.config.document import HealthPolicy, HealthSection, UnknownXid
from deviceplugin.config.origin import Origin, Source

DISABLE = "DP_DISABLE_HEALTHCHECKS"
ENABLE = "DP_ENABLE_HEALTHCHECKS"

_LISTS = ("fatal", "recoverable", "ignored")
_EVERY_XID = frozenset({"all", "xids"})
_STATES = (
    ("ecc", "ecc"),
    ("remap_pending", "remapPending"),
    ("remap_failure", "remapFailure"),
    ("recovery_action", "recoveryAction"),
    ("fabric", "fabric"),
    ("nvlink", "nvlink"),
)


class Folded(Struct, frozen=True):
    """The section after folding, the sources of what changed, and what could not be read."""

    section: HealthSection
    sources: Mapping[str, Source]
    warnings: tuple[str, ...] = ()


def without_repeats(section: HealthSection, sources: Mapping[str, Source]) -> HealthSection:
    """Xids that a given list names leave the lists that hold by default."""
    given = {name for name in _LISTS if f"health.{name}" in sources}
    named = {xid for name in given for xid in getattr(section, name)}
    rest = {name: tuple(x for x in getattr(section, name) if x not in named) for name in _LISTS if name not in given}
    return structs.replace(section, **rest)


def fold(section: HealthSection, environ: Mapping[str, str], sources: Mapping[str, Source]) -> Folded:
    """Applies DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS; enabling wins, and a flag wins over both.

    `all` disables every check and `xids` every Xid; enabled, both mean every Xid.
    """
    off, bad_off = _words(environ.get(DISABLE, ""), DISABLE)
    on, bad_on = _words(environ.get(ENABLE, ""), ENABLE)
    changes = _disable(section, off, on) if off else {}
    if on:
        changes |= _enable(structs.replace(section, **changes), section, on)
    kept = {
        name: value
        for name, value in changes.items()
        if value != getattr(section, name) and sources.get(_path(name), Source()).origin is not Origin.FLAG
    }
    cause = Source(Origin.VARIABLE, ENABLE if on else DISABLE)
    return Folded(structs.replace(section, **kept), {_path(name): cause for name in kept}, bad_off + bad_on)


def _path(name: str) -> str:
    return f"health.{dict(_STATES, unknown_xid='unknownXid').get(name, name)}"


def _words(text: str, variable: str) -> tuple[frozenset[str], tuple[str, ...]]:
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    good = frozenset(word for word in words if word in _EVERY_XID or word.isdecimal())
    bad = tuple(
        f'{variable}: "{word}" is left out; write Xid numbers, all or xids' for word in words if word not in good
    )
    return good, bad


def _disable(section: HealthSection, off: frozenset[str], on: frozenset[str]) -> dict[str, object]:
    if off & _EVERY_XID:
        changes: dict[str, object] = {"fatal": (), "recoverable": (), "unknown_xid": UnknownXid.IGNORE}
        if "all" in off and not on & _EVERY_XID:
            changes |= dict.fromkeys((name for name, _ in _STATES), HealthPolicy.IGNORE)
        return changes
    xids = {int(word) for word in off}
    return {
        "fatal": tuple(xid for xid in section.fatal if xid not in xids),
        "recoverable": tuple(xid for xid in section.recoverable if xid not in xids),
        "ignored": (*section.ignored, *sorted(xids - set(section.ignored))),
    }


def _enable(now: HealthSection, before: HealthSection, on: frozenset[str]) -> dict[str, object]:
    """What enabling makes of the section `now`, which was `before` until something was disabled."""
    if on & _EVERY_XID:
        unknown = before.unknown_xid if before.unknown_xid is not UnknownXid.IGNORE else UnknownXid.FATAL
        fatal = (*before.fatal, *before.ignored)
        return {"fatal": fatal, "recoverable": before.recoverable, "ignored": (), "unknown_xid": unknown}
    xids = {int(word) for word in on}
    recoverable = (*now.recoverable, *sorted((xids & set(before.recoverable)) - set(now.recoverable)))
    return {
        "ignored": tuple(xid for xid in now.ignored if xid not in xids),
        "recoverable": recoverable,
        "fatal": (*now.fatal, *sorted(xids - set(recoverable) - set(now.fatal))),
    }
