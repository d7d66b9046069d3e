"""Holders: what shares are cut from, and what a placement of shares on them can leave open."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Holder(Struct, frozen=True):
    """A card, a MIG instance that is shared, or the card of unshared MIG instances, as one call finds it."""

    place: int
    """By GPU index, then MIG slot."""
    card: int
    """The bit of its card."""
    before: int
    """Shares in use, must-includes among them."""
    room: int
    """Shares that may be chosen besides must-includes."""
    must: bool
    """Whether a must-include is on it."""


class Part(Struct, frozen=True):
    """Some amounts of shares, each to go on a holder of its own."""

    groups: tuple[tuple[tuple[Holder, ...], int], ...]
    """Holders that are equal to the policy, in order of place, and how many of them get an amount."""
    amounts: tuple[int, ...]
    """Largest first; holders of low place get the larger ones as far as they have room."""


class Placement(Struct, frozen=True):
    """One way to place shares that the policy finds best: amounts that are certain, and parts that leave a choice."""

    certain: tuple[tuple[Holder, int], ...] = ()
    parts: tuple[Part, ...] = ()


def even_load(holders: Sequence[Holder], number: int) -> Placement:
    """Places shares so that the sum of squares of shares in use is smallest.

    All are filled up to the highest level that the number reaches; any of those at that level may get one of the rest.
    """
    level = _level(holders, number)
    filled = [(holder, min(holder.room, max(0, level - holder.before))) for holder in holders]
    rest = number - sum(amount for _, amount in filled)
    certain = tuple((holder, amount) for holder, amount in filled if amount)
    if not rest:
        return Placement(certain)
    brim = tuple(holder for holder, amount in filled if holder.before + amount == level and amount < holder.room)
    return Placement(certain, (Part(((brim, rest),), (1,) * rest),))


def _level(holders: Sequence[Holder], number: int) -> int:
    low, high = 0, max(holder.before + holder.room for holder in holders) + 1
    while high - low > 1:
        level = (low + high) // 2
        if sum(min(holder.room, max(0, level - holder.before)) for holder in holders) <= number:
            low = level
        else:
            high = level
    return low


def assign(holders: Sequence[Holder], amounts: Sequence[int]) -> list[tuple[Holder, int]]:
    """Gives each holder one of the amounts: those of low place the largest that leave enough room for the others."""
    if amounts[0] == amounts[-1]:
        return [(holder, amounts[0]) for holder in holders]
    given, left = [], list(amounts)
    for at, holder in enumerate(holders):
        later = sorted((other.room for other in holders[at + 1 :]), reverse=True)
        amount = next(some for some in left if some <= holder.room and fits(_without(left, some), later))
        given.append((holder, amount))
        left = _without(left, amount)
    return given


def _without(amounts: Sequence[int], one: int) -> list[int]:
    at = amounts.index(one)
    return [*amounts[:at], *amounts[at + 1 :]]


def fits(amounts: Sequence[int], rooms: Sequence[int]) -> bool:
    """Whether amounts, the largest first, go into as many rooms, the largest first."""
    return all(amount <= room for amount, room in zip(amounts, rooms, strict=True))
