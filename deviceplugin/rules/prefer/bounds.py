"""What NVLink, and blocks left in its domains, will be worth at best: exact, since domains do not link.

Where NVLink tells nothing apart, the same for NUMA nodes and blocks left in them.
"""

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
    if cards.even and wish.load is None:
        return _by_node(plan, wish, units, taking)
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
    return Bounds(rest[wish.size], after, units.links)


def _by_node(plan: Plan, wish: Wish, units: Scale, taking: Sequence[Take]) -> Bounds:
    ends = [at for at, step in enumerate(plan.steps) if step.numa is not None]
    rest: Worths = {0: 0}
    after: dict[int, Worths] = {}
    for begin, end in reversed(list(zip((0, *(at + 1 for at in ends)), ends, strict=False))):
        after[end] = rest
        some, node = taking[begin : end + 1], units.numa_end
        least, most, here = sum(t.least for t in some), sum(t.most for t in some), sum(t.available for t in some)
        own = {n: units.nodes.of(node.blocks[here - n] + (0 if n else node.untouched)) for n in range(least, most + 1)}
        rest = _both(own, rest, wish.size)
    return Bounds(rest[wish.size], after, units.nodes)


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
        worths[number] = units.links.of(worth)
    return worths


def _uneven(taking: Sequence[Take], units: Scale) -> Worths:
    least, most = sum(t.least for t in taking), sum(t.most for t in taking)
    found, _ = sweep(taking, units, Window(least, most), None)
    return {state[0]: units.links.of(worth) for state, (worth, _, _) in found.items()}


def _both(one: Worths, other: Worths, most: int) -> Worths:
    """The best of each total of two."""
    both: dict[int, int] = {}
    for a, worth in one.items():
        for b, more in other.items():
            if a + b <= most and both.get(a + b, NONE) < worth + more:
                both[a + b] = worth + more
    return both
