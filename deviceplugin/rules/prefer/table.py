"""Exact choice among up to 16 cards by tables over all their sets, made once for a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb

from deviceplugin.rules.prefer.cards import Cards, Matrix, Rule
from deviceplugin.rules.prefer.wish import Choice, Wish

LARGEST = 16
"""Cards for which tables are made: 65,536 sets."""

SCAN = 4
"""Putting a set together costs as much as looking at this many."""

Top = tuple[int, int, int]

LINKS = (Rule.DOMAINS, Rule.MIN_NVLINK, Rule.SUM_NVLINK)


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Values by mask, the larger the better."""

    top: Sequence[int]
    """Rank by rules 1 to 3."""
    tops: Sequence[Top]
    """What a rank stands for: domains touched (negative), smallest and sum of NVLink."""
    nvlink: Sequence[int]
    """Sum over pairs."""
    pcie: Sequence[int]
    """Sum over pairs."""
    numa: Sequence[int]
    """NUMA nodes touched, negative."""
    domain_blocks: Sequence[int]
    """Rank of the sizes in each NVLink domain, largest first."""
    numa_blocks: Sequence[int]
    """Rank of the sizes in each NUMA node, largest first."""


def build(cards: Cards) -> Tables:
    """Makes the tables; work and memory double with each card."""
    nvlink = _sums(cards.nvlink)
    values = list(zip(_touched(cards.domains, cards.count), _minima(cards.nvlink), nvlink, strict=True))
    tops = sorted(set(values))
    rank = {top: i for i, top in enumerate(tops)}
    return Tables(
        top=[rank[top] for top in values],
        tops=tops,
        nvlink=nvlink,
        pcie=_sums(cards.pcie),
        numa=_touched(cards.numas, cards.count),
        domain_blocks=_blocks(cards.domains, cards.count),
        numa_blocks=_blocks(cards.numas, cards.count),
    )


def choose(tables: Tables, wish: Wish, count: int) -> Choice:
    """The best set of a wish.

    Args:
        tables: Of the cards.
        wish: What is wanted; it can be met.
        count: How many cards there are.
    """
    return narrow(tables, _sets(wish, count), wish)


def narrow(tables: Tables, sets: Sequence[int], wish: Wish) -> Choice:
    """The best of some sets of one size: each criterion keeps the best of those the ones before it left."""
    decided = Rule.ONLY
    for rule, values in _criteria(tables, wish):
        if len(sets) == 1:
            break
        marks = [values(mask) for mask in sets]
        best = max(marks)
        if marks.count(best) < len(marks):
            decided = rule or _link_rule(tables, best, marks)
            sets = [mask for mask, mark in zip(sets, marks, strict=True) if mark == best]
    return Choice(max(sets), decided if len(sets) == 1 else Rule.INDEX)


def _criteria(tables: Tables, wish: Wish) -> Iterator[tuple[Rule | None, Callable[[int], int]]]:
    """Criteria in order; None stands for rules 1 to 3 at once."""
    available, load = wish.available, wish.load
    yield None, tables.top.__getitem__
    if available is not None:
        yield Rule.LEFT_DOMAINS, lambda mask: tables.domain_blocks[available & ~mask]
    if load is not None:
        yield Rule.LOAD, lambda mask: -sum(x for i, x in enumerate(reversed(load)) if mask >> i & 1)
    yield Rule.NUMA, tables.numa.__getitem__
    if available is not None:
        yield Rule.LEFT_NUMA, lambda mask: tables.numa_blocks[available & ~mask]
    yield Rule.PCIE, tables.pcie.__getitem__
    if available is not None:
        yield Rule.LEFT_NVLINK, lambda mask: tables.nvlink[available & ~mask]
        yield Rule.LEFT_PCIE, lambda mask: tables.pcie[available & ~mask]


def _link_rule(tables: Tables, best: int, marks: Sequence[int]) -> Rule:
    """Which of rules 1 to 3 told the best rank from the next."""
    first, second = tables.tops[best], tables.tops[max(mark for mark in marks if mark != best)]
    return next(rule for rule, a, b in zip(LINKS, first, second, strict=True) if a != b)


def _sets(wish: Wish, count: int) -> Sequence[int]:
    """Masks of the wished size that hold what is forced and only candidates."""
    forced, candidates = wish.forced, wish.candidates
    free = candidates & ~forced
    more = wish.size - forced.bit_count()
    if SCAN * comb(free.bit_count(), more) < comb(count, wish.size):
        bits = [1 << i for i in range(count) if free >> i & 1]
        return [forced + sum(some) for some in combinations(bits, more)]
    look = forced | ~candidates
    return [mask for mask in _of_size(count, wish.size) if mask & look == forced]


@lru_cache(maxsize=64)
def _of_size(count: int, size: int) -> tuple[int, ...]:
    return tuple(sum(some) for some in combinations([1 << i for i in range(count)], size))


def _sums(matrix: Matrix) -> list[int]:
    """Sum over pairs by mask: a set and one card more is the set's sum and the card's sum to the set."""
    sums = [0]
    for i in reversed(range(len(matrix))):
        to = [0]
        for j in reversed(range(i + 1, len(matrix))):
            width = matrix[i][j]
            to += [value + width for value in to]
        sums += [a + b for a, b in zip(sums, to, strict=True)]
    return sums


def _minima(matrix: Matrix) -> list[int]:
    """Smallest over pairs by mask; 0 where there is no pair."""
    none = max((max(row, default=0) for row in matrix), default=0)
    minima = [none]
    for i in reversed(range(len(matrix))):
        to = [none]
        for j in reversed(range(i + 1, len(matrix))):
            width = matrix[i][j]
            to += [value if value < width else width for value in to]  # noqa: FURB136 - min() takes three times as long
        minima += [a if a < b else b for a, b in zip(minima, to, strict=True)]  # noqa: FURB136
    for single in (0, *(1 << i for i in range(len(matrix)))):
        minima[single] = 0
    return minima


def _touched(groups: Iterable[int], count: int) -> list[int]:
    """Groups that a set takes from, negative."""
    totals = [0] * (1 << count)
    for group in groups:
        totals = [total - 1 if mask & group else total for mask, total in enumerate(totals)]
    return totals


def _blocks(groups: Iterable[int], count: int) -> list[int]:
    """Rank by mask of the sizes of a set in each group, as lists with the largest first."""
    weights = [0, *(1 << (5 * size) for size in range(1, count + 1))]
    totals = [0] * (1 << count)
    for group in groups:
        totals = [total + weights[(mask & group).bit_count()] for mask, total in enumerate(totals)]
    rank = {total: i for i, total in enumerate(sorted(set(totals)))}
    return [rank[total] for total in totals]
