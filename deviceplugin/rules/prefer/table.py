"""Exact choice among up to 16 cards by tables over all their sets, made once for a scan.

Of cards of one kind only how many are taken matters, so only the lowest of each kind are put together into sets.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, pairwise

from msgspec.structs import replace

from deviceplugin.rules.prefer.cards import Cards, Matrix, Rule
from deviceplugin.rules.prefer.kinds import Kind
from deviceplugin.rules.prefer.wish import Choice, Wish

LARGEST = 16
"""Cards for which tables are made: 65,536 sets."""

DOMAINS, SMALLEST = 1 << 48, 1 << 32
"""Worth of an untouched domain, and of a link in the narrowest pair, beside the sum of links."""

Read = Callable[[Sequence[int]], Iterable[int]]
"""From sets to their values of a criterion."""


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Values by mask, the larger the better."""

    links: Sequence[int]
    """Rules 1 to 3 in one number."""
    nvlink: Sequence[int]
    """Sum over pairs."""
    pcie: Sequence[int]
    """Sum over pairs."""
    numa: Sequence[int]
    """NUMA nodes not touched."""
    domain_blocks: Sequence[int]
    """Rank of the sizes in each NVLink domain, largest first."""
    numa_blocks: Sequence[int]
    """Rank of the sizes in each NUMA node, largest first."""


def build(cards: Cards) -> Tables:
    """Makes the tables; work and memory double with each card."""
    nvlink, narrowest = _sums(cards.nvlink), _minima(cards.nvlink)
    domains = _untouched(cards, cards.domains)
    return Tables(
        links=array("q", [d * DOMAINS + m * SMALLEST + s for d, m, s in zip(domains, narrowest, nvlink, strict=True)]),
        nvlink=array("q", nvlink),
        pcie=array("q", _sums(cards.pcie)),
        numa=_untouched(cards, cards.numas),
        domain_blocks=_blocks(cards, cards.domains),
        numa_blocks=_blocks(cards, cards.numas),
    )


def choose(cards: Cards, kinds: Sequence[Kind], tables: Tables, wish: Wish) -> Choice:
    """The best set of a wish.

    Args:
        cards: All cards of the resource.
        kinds: Their kinds.
        tables: Of the cards.
        wish: What is wanted; it can be met.
    """
    choice = best(cards, tables, wish, _sets(cards, kinds, wish))
    return replace(choice, decided_by=_among_twins(cards, kinds, wish, choice))


def best(cards: Cards, tables: Tables, wish: Wish, sets: Sequence[int]) -> Choice:
    """The best of some sets: each criterion keeps the best of those that the ones before it left."""
    decided = Rule.ONLY
    for rule, read in _criteria(cards, tables, wish):
        if len(sets) == 1:
            break
        marks = list(read(sets))
        top = max(marks)
        if marks.count(top) < len(marks):
            decided = _link_rule(top, marks) if rule is Rule.SUM_NVLINK else rule
            sets = list(compress(sets, map(top.__eq__, marks)))
    return Choice(sets[0], decided) if len(sets) == 1 else Choice(cards.first(sets), Rule.INDEX)


def _criteria(cards: Cards, tables: Tables, wish: Wish) -> Iterator[tuple[Rule, Read]]:
    """Criteria in order, without those that tell nothing apart; rules 1 to 3 are one."""
    available, links = wish.available, not (wish.size and cards.even)
    if links:
        yield Rule.SUM_NVLINK, _of(tables.links)
        if available is not None and len(cards.domains) > 1:
            yield Rule.LEFT_DOMAINS, _of_rest(tables.domain_blocks, available)
    if wish.load is not None:
        yield Rule.LOAD, partial(map, _lightness(cards, wish.load))
    if len(cards.numas) > 1:
        yield Rule.NUMA, _of(tables.numa)
        if available is not None:
            yield Rule.LEFT_NUMA, _of_rest(tables.numa_blocks, available)
    yield Rule.PCIE, _of(tables.pcie)
    if available is not None:
        if links:
            yield Rule.LEFT_NVLINK, _of_rest(tables.nvlink, available)
        yield Rule.LEFT_PCIE, _of_rest(tables.pcie, available)


def _of(values: Sequence[int]) -> Read:
    return partial(map, values.__getitem__)


def _of_rest(values: Sequence[int], available: int) -> Read:
    return lambda sets: map(values.__getitem__, map(available.__xor__, sets))


def _lightness(cards: Cards, load: Sequence[int]) -> Callable[[int], int]:
    return lambda mask: -sum(load[i] for i in cards.members(mask))


def _link_rule(best: int, marks: Sequence[int]) -> Rule:
    """Which of rules 1 to 3 told the best from the next."""
    second = max(mark for mark in marks if mark != best)
    if best // DOMAINS != second // DOMAINS:
        return Rule.DOMAINS
    return Rule.MIN_NVLINK if best // SMALLEST != second // SMALLEST else Rule.SUM_NVLINK


def _sets(cards: Cards, kinds: Sequence[Kind], wish: Wish) -> list[int]:
    """Masks of the wished size that hold what is forced and only candidates, and of each kind the lowest."""
    heaps = [_heap(cards, kind, wish) for kind in kinds]
    # Two halves meet in the middle: hardly any set is put together that is not wanted.
    one, other = _by_size(heaps[::2]), _by_size(heaps[1::2])
    return [a | b for size, sets in one.items() for b in other.get(wish.size - size, ()) for a in sets]


def _by_size(heaps: Sequence[list[int]]) -> dict[int, list[int]]:
    """Sets that take some of each heap, by their size."""
    found: dict[int, list[int]] = {0: [0]}
    for heap in heaps:
        grown: dict[int, list[int]] = {}
        for size, sets in found.items():
            for more in heap:
                grown.setdefault(size + more.bit_count(), []).extend([mask | more for mask in sets])
        found = grown
    return found


def _heap(cards: Cards, kind: Kind, wish: Wish) -> list[int]:
    """Masks of a kind: what is forced, then one more at a time, the least loaded and lowest first."""
    masks = [sum(cards.bits[i] for i in kind if cards.bits[i] & wish.forced)]
    free = [i for i in kind if cards.bits[i] & wish.candidates & ~wish.forced]
    if wish.load is not None:
        load = wish.load
        free.sort(key=lambda i: (load[i], i))
    for i in free:
        masks.append(masks[-1] | cards.bits[i])
    return masks


def _among_twins(cards: Cards, kinds: Sequence[Kind], wish: Wish, choice: Choice) -> Rule:
    """What decided, seeing that another card of a kind might have been taken instead of one that was."""
    decided = choice.decided_by
    for kind in kinds:
        free = [i for i in kind if cards.bits[i] & wish.candidates & ~wish.forced]
        taken = [i for i in free if cards.bits[i] & choice.mask]
        if not 0 < len(taken) < len(free):
            continue
        if wish.load is None or max(wish.load[i] for i in taken) == min(wish.load[i] for i in free if i not in taken):
            return Rule.INDEX
        decided = max(decided, Rule.LOAD, key=list(Rule).index)
    return decided


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


def _untouched(cards: Cards, groups: Sequence[int]) -> list[int]:
    """Groups that a set does not take from, by mask."""
    totals = [len(groups)]
    for bit in reversed(cards.bits):
        mates = next(group for group in groups if group & bit) & (bit - 1)
        totals += [total if mask & mates else total - 1 for mask, total in enumerate(totals)]
    return totals


def _blocks(cards: Cards, groups: Sequence[int]) -> list[int]:
    """Rank by mask of the sizes of a set in each group, as lists with the largest first."""
    worth = [0, *(1 << (5 * size) for size in range(cards.count))]
    step = [after - before for before, after in pairwise(worth)]
    totals = [0]
    for bit in reversed(cards.bits):
        mates = next(group for group in groups if group & bit) & (bit - 1)
        totals += [total + step[(mask & mates).bit_count()] for mask, total in enumerate(totals)]
    rank = {total: i for i, total in enumerate(sorted(set(totals)))}
    return [rank[total] for total in totals]
