"""Exact choice by kinds of cards: work grows with the kinds, not with the cards.

What NVLink can still be worth is known beforehand, domain by domain; what falls behind that is dropped early.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import comb

from msgspec.structs import replace

from deviceplugin.rules.prefer.bounds import bounds
from deviceplugin.rules.prefer.cards import Cards, Rule
from deviceplugin.rules.prefer.kinds import Plan
from deviceplugin.rules.prefer.scale import Scale, Span, scale
from deviceplugin.rules.prefer.sweep import Best, Window, better, sweep
from deviceplugin.rules.prefer.takes import NONE, takes
from deviceplugin.rules.prefer.wish import Choice, Wish


def choose(cards: Cards, plan: Plan, wish: Wish) -> Choice:
    """The best set of a wish.

    Args:
        cards: All cards of the resource.
        plan: Their kinds.
        wish: What is wanted; it can be met.

    Raises:
        TooMuchError: if there are too many states to look at.
    """
    homes = [d for d in cards.domains if not wish.forced & ~d and (d & wish.candidates).bit_count() >= wish.size > 1]
    if homes and not cards.even:
        return _at_home(cards, plan, wish, homes)
    units = scale(cards, wish)
    taking = takes(cards, plan.steps, wish, units)
    limits = bounds(cards, plan, wish, units, taking)
    found, lost = sweep(taking, units, Window(wish.size, wish.size), limits)
    best = found[wish.size,]
    return Choice(best[1], _decided(units, limits.span, best, lost))


def _decided(units: Scale, span: Span, best: Best, lost: int) -> Rule:
    """What told the best from the runner-up, which may have been dropped for what a span of criteria was worth."""
    worth, _, second = best
    if second == lost == NONE:
        return Rule.ONLY
    if second != NONE and span.of(second) >= lost:
        return units.told_by(worth, second)
    return units.told_by(span.of(worth) << span.shift, lost << span.shift)


def _at_home(cards: Cards, plan: Plan, wish: Wish, homes: Sequence[int]) -> Choice:
    """The best set within one NVLink domain: of those with the widest narrowest link."""
    units = scale(cards, wish)
    wishes = [replace(wish, candidates=wish.candidates & home) for home in homes]
    taking = [takes(cards, plan.steps, some, units) for some in wishes]
    windows = (Window(wish.size, wish.size, floor) for floor in cards.widths)
    founds = ([sweep(some, units, window, None)[0] for some in taking] for window in windows)
    found = [one[wish.size,] for one in next(filter(any, founds)) if one]
    worth, mask, second = reduce(better, found)
    if second != NONE:
        return Choice(mask, units.told_by(worth, second))
    forced = wish.forced.bit_count()
    inside, anywhere = (
        sum(comb(some.candidates.bit_count() - forced, wish.size - forced) for some in among)
        for among in (wishes, [wish])
    )
    return Choice(mask, Rule.MIN_NVLINK if inside > 1 else Rule.DOMAINS if anywhere > 1 else Rule.ONLY)
