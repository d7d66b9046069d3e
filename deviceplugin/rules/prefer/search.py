"""Bounded search for large machines without order: a good set, not proved to be the best."""

from __future__ import annotations

from collections.abc import Sequence

from deviceplugin.rules.prefer.cards import Cards, Rule, Score, score, told_apart
from deviceplugin.rules.prefer.wish import Choice, Wish

STARTS = 8
"""Cards around which sets are grown."""

EXCHANGES = 200
"""Sets that are looked at to better the best of them."""


Near = tuple[bool, int, int, int, int]
"""In one NVLink domain, smallest and sum of NVLink, sum of PCIe closeness, and index (negative)."""


def choose(cards: Cards, wish: Wish) -> Choice:
    """Grows sets around several cards, nearest cards first, and betters the best by exchanging single cards.

    Args:
        cards: All cards of the resource.
        wish: What is wanted; it can be met.
    """

    def worth(mask: int) -> tuple[Score, int]:
        return score(cards, mask, wish.available, wish.load), mask

    seen = sorted({worth(_grown(cards, wish, start)) for start in _starts(cards, wish)})
    found, others = seen[-1], seen[:-1]
    rounds, better = wish.size, True
    while better and rounds:
        rivals = [worth(mask) for mask in _exchanged(cards, wish, found[1])]
        others += [found, *rivals]
        better, found = max(rivals) > found, max(*rivals, found)
        rounds -= 1
    second = max(other for other in others if other != found)
    return Choice(found[1], told_apart(found[0], second[0]), exact=False)


def best(cards: Cards, sets: Sequence[int]) -> Choice:
    """The best of some sets, of whatever sizes, without regard to what is left."""
    scores = {mask: score(cards, mask, None) for mask in sets}
    top = max(scores.values())
    mask = cards.first([mask for mask, own in scores.items() if own == top])
    rivals = [own for other, own in scores.items() if other != mask]
    return Choice(mask, told_apart(top, max(rivals)) if rivals else Rule.ONLY)


def _starts(cards: Cards, wish: Wish) -> list[int]:
    """Free cards, of as many NVLink domains as there are, the lowest first."""
    free = cards.members(wish.candidates & ~wish.forced)
    nth = {i: sum(cards.domain[j] == cards.domain[i] for j in free if j < i) for i in free}
    return sorted(free, key=lambda i: (nth[i], i))[:STARTS]


def _grown(cards: Cards, wish: Wish, start: int) -> int:
    """Takes the card that is nearest to those taken before, again and again."""
    chosen = wish.forced | cards.bits[start]
    near = {i: (False, cards.widths[0], 0, 0, -i) for i in cards.members(wish.candidates & ~chosen)}
    fresh: tuple[int, ...] = cards.members(chosen)
    while chosen.bit_count() < wish.size:
        for card in fresh:
            near = {i: _nearer(cards, card, i, own) for i, own in near.items()}
        fresh = (max(near, key=near.__getitem__),)
        del near[fresh[0]]
        chosen |= cards.bits[fresh[0]]
    return chosen


def _nearer(cards: Cards, taken: int, card: int, near: Near) -> Near:
    """How near a card is to a set, now that another card was taken."""
    reached, narrowest, links, pcie, order = near
    width = cards.nvlink[card][taken]
    return (
        reached or cards.domain[card] == cards.domain[taken],
        min(narrowest, width),
        links + width,
        pcie + cards.pcie[card][taken],
        order,
    )


def _exchanged(cards: Cards, wish: Wish, mask: int) -> list[int]:
    """Sets that differ in one card, those with the weakest card replaced first, a fair share of all."""
    members = cards.members(mask)
    weak = sorted(
        cards.members(mask & ~wish.forced),
        key=lambda i: (sum(cards.nvlink[i][j] for j in members), sum(cards.pcie[i][j] for j in members)),
    )
    free = [bit for bit in cards.bits if bit & wish.candidates & ~mask]
    return [mask ^ cards.bits[card] | bit for card in weak for bit in free][: EXCHANGES // wish.size + 1]
