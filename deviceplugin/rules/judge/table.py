"""The state machine of one ailment: what each signal does in each phase, by class of recovery.

Signals that are not in the table change nothing. No phase but BETTER leads to WELL for a fault, and only evidence
leads to BETTER: silence never heals.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from deviceplugin.model.health import Kind


class Phase(StrEnum):
    """How far an ailment is on its way out."""

    SICK = "sick"
    """Nothing speaks for the device."""
    RESET = "reset"
    """A reset was seen; the driver has not yet shown that it helped."""
    BETTER = "better"
    """All evidence is there; the quiet period runs."""
    WELL = "well"
    """Over."""


class Signal(StrEnum):
    """What a piece of evidence says to one ailment."""

    SEEN = "seen"
    """It happened, or still holds."""
    CLEARED = "cleared"
    """Its own state reads good."""
    CLEAN = "clean"
    """Recovery action none, and no remap or retirement pending or failed."""
    DIRTY = "dirty"
    """One of these is bad."""
    MUTE = "mute"
    """This hardware has no state that could tell."""
    RESET = "reset"
    """The card was gone and came back, or the driver was loaded anew."""
    BACK = "back"
    """The device answered a whole scan."""
    LIFTED = "lifted"
    """Who declared it took it back."""
    QUIET = "quiet"
    """The quiet period since it was last seen is over."""


_Steps = Mapping[tuple[Phase, Signal], Phase]

_AGAIN: _Steps = {
    (Phase.RESET, Signal.SEEN): Phase.SICK,
    (Phase.BETTER, Signal.SEEN): Phase.SICK,
    (Phase.BETTER, Signal.QUIET): Phase.WELL,
}
_AFTER_RESET: _Steps = {
    (Phase.SICK, Signal.RESET): Phase.RESET,
    (Phase.RESET, Signal.MUTE): Phase.BETTER,
}
_DECLARED: _Steps = {(Phase.SICK, Signal.LIFTED): Phase.WELL}

TABLE: Mapping[Kind, _Steps] = MappingProxyType(
    {
        Kind.RECOVERABLE: {
            **_AGAIN,
            **_AFTER_RESET,
            (Phase.SICK, Signal.CLEAN): Phase.BETTER,
            (Phase.RESET, Signal.CLEAN): Phase.BETTER,
            (Phase.BETTER, Signal.DIRTY): Phase.SICK,
        },
        Kind.RESET_REQUIRED: {
            **_AGAIN,
            **_AFTER_RESET,
            (Phase.RESET, Signal.CLEAN): Phase.BETTER,
            (Phase.BETTER, Signal.DIRTY): Phase.RESET,
        },
        Kind.STATE: {
            **_AGAIN,
            **_AFTER_RESET,
            (Phase.SICK, Signal.CLEARED): Phase.BETTER,
            (Phase.RESET, Signal.CLEARED): Phase.BETTER,
        },
        Kind.LOST: {
            **_AGAIN,
            (Phase.SICK, Signal.BACK): Phase.BETTER,
            (Phase.RESET, Signal.BACK): Phase.BETTER,
        },
        Kind.CORDONED: _DECLARED,
        Kind.INJECTED: _DECLARED,
        Kind.UNCHECKED: _DECLARED,
    }
)


def step(kind: Kind, phase: Phase, signal: Signal) -> Phase:
    """The phase after `signal`."""
    return TABLE[kind].get((phase, signal), phase)
