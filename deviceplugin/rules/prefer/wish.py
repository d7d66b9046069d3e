"""A choice of cards: what is asked, and what comes out."""

from __future__ import annotations

from msgspec import Struct

from deviceplugin.rules.prefer.cards import Rule


class Wish(Struct, frozen=True):
    """Which cards are wanted; sets are masks of `Cards`."""

    size: int
    candidates: int
    """Cards that may be chosen, the forced ones among them."""
    forced: int = 0
    """Cards that must be chosen."""
    available: int | None = None
    """What the choice is taken from: the rules about what is left look at it. None: they do not apply."""
    load: tuple[int, ...] | None = None
    """For shares: what each card adds to the load, of which the sum shall be small (after the rules of NVLink)."""


class Choice(Struct, frozen=True):
    """The set that was chosen."""

    mask: int
    decided_by: Rule
    """The criterion by which it beat the runner-up."""
    exact: bool = True
    """Whether it is proved to be the best."""
