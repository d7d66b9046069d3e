"""Sharing by MPS: what a control daemon is to be told, and what is known of one that runs."""

from __future__ import annotations

from msgspec import Struct


class MpsDevice(Struct, frozen=True):
    """A card in the hand of an MPS control daemon."""

    uuid: str
    index: int
    memory_mib: int | None = None
    """Device memory of one client; None: no limit."""


class MpsPlan(Struct, frozen=True):
    """What the MPS control daemon of one resource is told."""

    devices: tuple[MpsDevice, ...]
    thread_percentage: float
    """Threads that one client may use, 1 to 100; one number for all cards of the daemon."""


class MpsStanding(Struct, frozen=True):
    """How the control daemon of one resource was found."""

    plan: MpsPlan | None = None
    """What it was told and answers to; None where `missing` says what is not there."""
    missing: str = "its control daemon has not been asked yet"
    """The missing piece and the remedy, a sentence that the resource's name begins."""
    since: float = 0.0
    """Unix time in seconds since which it is so."""
