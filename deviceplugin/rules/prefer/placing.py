"""From what a policy leaves open to the cards that are touched, and from those to amounts by holder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from operator import attrgetter

from msgspec.structs import replace

from deviceplugin.rules.prefer.cards import Rule
from deviceplugin.rules.prefer.chooser import Chooser
from deviceplugin.rules.prefer.holders import Holder, Placement, assign
from deviceplugin.rules.prefer.wish import Choice, Wish

MANY = 20_000
"""Ways that are looked at one by one; the search is bounded beyond."""

Amounts = Mapping[int, int]
"""Shares to give by place of their holder."""
Cover = tuple[int, int]
"""For a group of holders: cards that it may take from, and cards that it must."""
Way = tuple[Placement, tuple[Cover, ...]]
"""A placement, and a cover for each of its groups."""


def place_one_each(chooser: Chooser, base: int, fresh: Sequence[Holder], number: int) -> tuple[Choice, Amounts]:
    """One share each on cards that are near each other, then on those least in use.

    Args:
        chooser: Of the cards.
        base: Cards of must-includes.
        fresh: Cards that may get a share.
        number: How many shall.
    """
    load = [0] * chooser.cards.count
    for holder in fresh:
        load[chooser.cards.members(holder.card)[0]] = holder.before
    candidates = base | sum(holder.card for holder in fresh)
    choice = chooser.choose(Wish(base.bit_count() + number, candidates, base, load=tuple(load)))
    return choice, {holder.place: 1 for holder in fresh if holder.card & choice.mask}


def place(chooser: Chooser, base: int, placements: Sequence[Placement]) -> tuple[Choice, Amounts]:
    """The best of some placements.

    Args:
        chooser: Of the cards.
        base: Cards of must-includes.
        placements: Ways that are equal to the policy; at least one.
    """
    if len(placements) == 1 and (simple := _simple(chooser, base, placements[0])) is not None:
        return simple
    ways: dict[int, list[Way]] = {}
    looked_at = 0
    for mask, way in islice(_ways(base, placements), MANY):
        ways.setdefault(mask, []).append(way)
        looked_at += 1
    choice = chooser.best(list(ways))
    lists = [_amounts(placement, groups) for placement, groups in ways[choice.mask]]
    best = min(lists, key=lambda amounts: sorted(Counter(amounts).elements()))
    tied = len(lists) > 1 or _uneven(ways[choice.mask][0][0])
    decided = Rule.INDEX if tied else choice.decided_by
    return Choice(choice.mask, decided, choice.exact and looked_at < MANY), best


def _simple(chooser: Chooser, base: int, placement: Placement) -> tuple[Choice, Amounts] | None:
    """Where one group of holders on different cards is left open: a choice of cards by their number."""
    groups = [group for part in placement.parts for group in part.groups]
    if len(groups) != 1:
        return None
    holders, number = groups[0]
    used = _used(base, placement)
    outside = [holder.card for holder in holders if not holder.card & used]
    if len(set(outside)) < len(outside):
        return None
    inside = len(holders) - len(outside)
    candidates = used | sum(outside)
    choices = [
        chooser.choose(Wish(used.bit_count() + more, candidates, used))
        for more in range(max(0, number - inside), min(number, len(outside)) + 1)
    ]
    choice = choices[0]
    if len(choices) > 1:
        masks = [some.mask for some in choices]
        best = chooser.best(masks)
        choice = replace(best, exact=all(some.exact for some in choices))
    alike = sum(1 for holder in holders if holder.card & choice.mask) > number
    if alike or _uneven(placement):
        choice = replace(choice, decided_by=Rule.INDEX)
    return choice, _amounts(placement, ((choice.mask, choice.mask & ~used),))


def _uneven(placement: Placement) -> bool:
    """Whether holders that are equal to the policy get different amounts, so that only their places tell them apart."""
    return any(
        number > 1 and part.amounts[0] != part.amounts[-1] for part in placement.parts for _, number in part.groups
    )


def _used(base: int, placement: Placement) -> int:
    for holder, _ in placement.certain:
        base |= holder.card
    return base


def _ways(base: int, placements: Sequence[Placement]) -> Iterator[tuple[int, Way]]:
    """All cards that placements may touch, one set after the other."""
    for placement in placements:
        used = _used(base, placement)
        groups = [islice(_touches(*group), MANY) for part in placement.parts for group in part.groups]
        for touched in product(*groups):
            mask = used
            for some in touched:
                mask |= some
            yield mask, (placement, tuple((some, some) for some in touched))


def _touches(holders: Sequence[Holder], number: int) -> Iterator[int]:
    """Sets of cards that some of a group of holders can be on, all of them touched."""
    on = Counter(holder.card for holder in holders)
    for size in range(1, min(number, len(on)) + 1):
        for cards in combinations(on, size):
            if sum(on[card] for card in cards) >= number:
                yield sum(cards)


def _amounts(placement: Placement, covers: Sequence[Cover]) -> Amounts:
    """Amounts by place; of holders and cards that are equal the first get more."""
    amounts: Counter[int] = Counter()
    for holder, amount in placement.certain:
        amounts[holder.place] += amount
    left = iter(covers)
    for part in placement.parts:
        picked = [holder for holders, number in part.groups for holder in _picked(holders, number, next(left))]
        picked.sort(key=attrgetter("place"))
        for holder, amount in assign(picked, part.amounts):
            amounts[holder.place] += amount
    return amounts


def _picked(holders: Sequence[Holder], number: int, cover: Cover) -> list[Holder]:
    """The first holders of a group that together touch the cards they must."""
    allowed, missing = cover
    picked: list[Holder] = []
    for holder in holders:
        if holder.card & missing or (holder.card & allowed and number - len(picked) > missing.bit_count()):
            picked.append(holder)
            missing &= ~holder.card
    return picked
