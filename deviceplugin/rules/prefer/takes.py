"""What may be taken of each kind in one call, and what that is worth by itself."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from deviceplugin.rules.prefer.cards import Cards, Rule
from deviceplugin.rules.prefer.kinds import Step
from deviceplugin.rules.prefer.scale import Scale
from deviceplugin.rules.prefer.wish import Wish

NONE = -1
"""The worth of what does not exist."""


class Take(Struct, frozen=True):
    """One kind in one call. Tuples by number taken begin at `least`; others are by group before the step."""

    step: Step
    least: int
    most: int
    available: int
    masks: tuple[int, ...]
    """By number taken: which."""
    worth: tuple[int, ...]
    """By number taken: what pairs of the kind, and cards that are domains by themselves, are worth."""
    other: tuple[int, ...]
    """By number taken: worth lost by taking others of the kind instead; NONE where there are none."""
    linked: tuple[int, ...]
    """By group: worth of a pair that is taken."""
    left: tuple[int, ...]
    """By group: worth of a pair that is left."""
    here: tuple[int, ...]
    """By group: cards available."""


def takes(cards: Cards, steps: Sequence[Step], wish: Wish, scale: Scale) -> tuple[Take, ...]:
    """Prepares a wish, kind by kind."""
    here: tuple[int, ...] = ()
    made = []
    for step in steps:
        take = _take(cards, step, wish, scale, here)
        made.append(take)
        after = [0] * step.groups
        for group, number in zip(step.into, here, strict=True):
            after[group] += number
        after[step.own] += take.available
        here = tuple(after)
    return tuple(made)


def _take(cards: Cards, step: Step, wish: Wish, scale: Scale, here: tuple[int, ...]) -> Take:
    load = wish.load or (0,) * cards.count
    forced = [i for i in step.members if cards.bits[i] & wish.forced]
    free = [i for i in step.members if cards.bits[i] & wish.candidates & ~wish.forced]
    order = forced + sorted(free, key=lambda i: (load[i], i))
    least, most = len(forced), len(order)
    all_here = wish.candidates if wish.available is None else wish.available
    available = sum(1 for i in step.members if cards.bits[i] & all_here)
    taken, left = _pair(scale, step.inside), _pair_left(scale, step.inside, wish)
    highest, unit = max(load), scale.worth[Rule.LOAD]
    masks, worth, other = [], [], []
    for number in range(least, most + 1):
        rest = available - number
        value = taken * (number * (number - 1) // 2) + left * (rest * (rest - 1) // 2)
        value += unit * sum(highest - load[i] for i in order[:number])
        if step.single:
            value += scale.worth[Rule.DOMAINS] * (most - number)
            value += scale.domain_end.blocks[1] * rest
        masks.append(sum(cards.bits[i] for i in order[:number]))
        worth.append(value)
        other.append(unit * (load[order[number]] - load[order[number - 1]]) if least < number < most else NONE)
    return Take(
        step=step,
        least=least,
        most=most,
        available=available,
        masks=tuple(masks),
        worth=tuple(worth),
        other=tuple(other),
        linked=tuple(_pair(scale, pair) for pair in zip(step.nvlink, step.pcie, strict=True)),
        left=tuple(_pair_left(scale, pair, wish) for pair in zip(step.nvlink, step.pcie, strict=True)),
        here=here,
    )


def _pair(scale: Scale, pair: tuple[int, int]) -> int:
    return scale.worth[Rule.SUM_NVLINK] * pair[0] + scale.worth[Rule.PCIE] * pair[1]


def _pair_left(scale: Scale, pair: tuple[int, int], wish: Wish) -> int:
    if wish.available is None:
        return 0
    return scale.worth[Rule.LEFT_NVLINK] * pair[0] + scale.worth[Rule.LEFT_PCIE] * pair[1]
