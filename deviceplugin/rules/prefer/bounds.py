"""What NVLink, and blocks left in its domains, will be worth at best: exact, since domains do not link."""

from __future__ import annotations

from collections.abc import Sequence

from deviceplugin.rules.prefer.cards import Cards, Rule
from deviceplugin.rules.prefer.kinds import Block, Plan, flattened
from deviceplugin.rules.prefer.scale import Scale
from deviceplugin.rules.prefer.sweep import Bounds, Window, Worths, sweep
from deviceplugin.rules.prefer.takes import NONE, Take, takes
from deviceplugin.rules.prefer.wish import Wish


def bounds(cards: Cards, plan: Plan, wish: Wish, units: Scale, taking: Sequence[Take]) -> Bounds:
    """Works block by block from the last to the first.

    Args:
        cards: All cards of the resource.
        plan: Their kinds.
        wish: What is wanted.
        units: Of the wish.
        taking: Of the wish, kind by kind.
    """
    flat = flattened(cards)
    rest: Worths = {0: 0}
    after: dict[int, Worths] = {}
    for block in reversed(plan.blocks):
        after[block.steps[-1]] = rest
        if block.width is None:
            own = _uneven(takes(flat, block.inner, wish, units), units)
        else:
            own = _even(block, taking[block.steps[0] : block.steps[-1] + 1], units)
        rest = _both(own, rest, wish.size)
    return Bounds(rest[wish.size], after)


def _even(block: Block, taking: Sequence[Take], units: Scale) -> Worths:
    """Worth of a domain in which all pairs are alike, or of cards that are domains by themselves."""
    least, most, here = sum(t.least for t in taking), sum(t.most for t in taking), sum(t.available for t in taking)
    pair, end = units.worth[Rule.SUM_NVLINK] * (block.width or 0), units.domain_end
    worths = {}
    for number in range(least, most + 1):
        if block.single:
            worth = end.untouched * (most - number) + end.blocks[1] * (here - number)
        else:
            worth = pair * (number * (number - 1) // 2) + end.blocks[here - number] + (0 if number else end.untouched)
        worths[number] = worth >> units.links
    return worths


def _uneven(taking: Sequence[Take], units: Scale) -> Worths:
    least, most = sum(t.least for t in taking), sum(t.most for t in taking)
    found, _ = sweep(taking, units, Window(least, most), None)
    return {state[0]: worth >> units.links for state, (worth, _, _) in found.items()}


def _both(one: Worths, other: Worths, most: int) -> Worths:
    """The best of each total of two."""
    both: dict[int, int] = {}
    for a, worth in one.items():
        for b, more in other.items():
            if a + b <= most and both.get(a + b, NONE) < worth + more:
                both[a + b] = worth + more
    return both
