"""Flapping is damped: each return that did not last doubles the quiet period; time in good health forgives."""

from __future__ import annotations

from deviceplugin.model.health import Kind, Verdict
from deviceplugin.rules.judge.state import Flaps
from deviceplugin.rules.judge.xids import Ruling

MOST = 5
"""Doublings: with the default of a minute, the quiet period grows to 32 minutes."""
FORGIVEN_AFTER = 10
"""Quiet periods in good health that forgive one flap."""

_AT_ONCE = frozenset({Kind.LOST, Kind.STATE})
"""Classes whose own evidence is as good as a quiet period: they wait only if they flap."""
_WAITING = frozenset({Kind.RECOVERABLE, Kind.RESET_REQUIRED})


def hold(ruling: Ruling, flaps: Flaps, quiet: float) -> float:
    """Seconds an ailment must not have been seen before it is over; no less for one that is ignored at present."""
    if ruling.verdict is Verdict.RANK_LAST:
        return 0.0
    if ruling.kind in _WAITING:
        return float(quiet * 2**flaps.count)
    if ruling.kind in _AT_ONCE and flaps.count:
        return float(quiet * 2 ** (flaps.count - 1))
    return 0.0


def fell(flaps: Flaps, now: float, quiet: float) -> Flaps:
    """The device fell sick; it counts as a flap if it had come back before."""
    if flaps.returned is None:
        return flaps
    return Flaps(min(MOST, max(0, flaps.count + 1 - _forgiven(flaps.returned, now, quiet))), flaps.returned)


def forgotten(flaps: Flaps, now: float, quiet: float) -> bool:
    """Whether so much time passed in good health that nothing is left to hold against the device."""
    return flaps.returned is None or flaps.count < _forgiven(flaps.returned, now, quiet)


def _forgiven(returned: float, now: float, quiet: float) -> int:
    return int((now - returned) // (quiet * FORGIVEN_AFTER)) if quiet > 0 else MOST + 1
