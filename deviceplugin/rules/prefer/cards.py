"""The cards of one resource as bits, and the criteria by which sets of them are compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain, combinations

from deviceplugin.model.inventory import Closeness

Matrix = tuple[tuple[int, ...], ...]


class Rule(StrEnum):
    """Criteria in the words of logs and explanations; those of whole cards stand in their order."""

    ONLY = "the only choice"
    HEALTH = "fewest GPUs that health ranks last"
    DOMAINS = "fewest NVLink domains"
    MIN_NVLINK = "largest smallest NVLink"
    SUM_NVLINK = "largest sum of NVLink"
    LEFT_DOMAINS = "largest blocks left in NVLink domains"
    LOAD = "most even load"
    NUMA = "fewest NUMA nodes"
    LEFT_NUMA = "largest blocks left in NUMA nodes"
    PCIE = "largest sum of PCIe closeness"
    LEFT_NVLINK = "largest sum of NVLink left"
    LEFT_PCIE = "largest sum of PCIe closeness left"
    OPENED = "fewest holders opened"
    OPENED_SHARES = "fewest shares on opened holders"
    FULL = "fullest holders"
    HOLDERS = "fewest holders"
    SPREAD = "most holders"
    INDEX = "lowest indices"


Score = tuple[tuple[Rule, int | tuple[int, ...]], ...]
"""Criteria in order, each with a value of which the larger is better."""


@dataclass(frozen=True, eq=False)
class Cards:
    """Cards ordered by index; card i of n is bit n-1-i: of two sets of one size the larger mask has lower indices."""

    uuids: tuple[str, ...]
    index: tuple[int, ...]
    numa: tuple[int | None, ...]
    domain: tuple[int, ...]
    nvlink: Matrix
    pcie: Matrix

    @cached_property
    def count(self) -> int:
        """How many cards there are."""
        return len(self.uuids)

    @cached_property
    def bits(self) -> tuple[int, ...]:
        """The bit of each card."""
        return tuple(1 << i for i in reversed(range(self.count)))

    @cached_property
    def domains(self) -> tuple[int, ...]:
        """A mask for each NVLink domain."""
        return self._groups(self.domain)

    @cached_property
    def numas(self) -> tuple[int, ...]:
        """A mask for each NUMA node; cards of unknown node count together as one."""
        return self._groups(self.numa)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """All NVLink widths, widest first; 0, no link, is the last."""
        return tuple(sorted({0, *chain.from_iterable(self.nvlink)}, reverse=True))

    @cached_property
    def even(self) -> bool:
        """All are linked alike, or none is: sets of one size do not differ in NVLink."""
        widths = {self.nvlink[a][b] for a, b in combinations(range(self.count), 2)}
        return len(widths) <= 1 and len(self.domains) in (1, self.count)

    def _groups(self, labels: Sequence[int | None]) -> tuple[int, ...]:
        masks: dict[int | None, int] = {}
        for label, bit in zip(labels, self.bits, strict=True):
            masks[label] = masks.get(label, 0) | bit
        return tuple(masks.values())

    def members(self, mask: int) -> tuple[int, ...]:
        """Positions of the cards in a mask, ascending."""
        return tuple(i for i, bit in enumerate(self.bits) if mask & bit)

    def mask(self, positions: Iterable[int]) -> int:
        """The mask of some positions."""
        return sum(self.bits[i] for i in positions)

    def first(self, sets: Sequence[int]) -> int:
        """The set whose list of cards is lexicographically smallest."""
        largest = max(sets)
        if all(mask.bit_count() == largest.bit_count() for mask in sets):
            return largest
        return min(sets, key=self.members)

    def unlinked(self) -> Cards:
        """The same cards without NVLink, as MIG instances see them: rules 1 to 3 tell nothing apart."""
        nothing = tuple((0,) * self.count for _ in range(self.count))
        return Cards(self.uuids, self.index, self.numa, (0,) * self.count, nothing, self.pcie)


def cards_of(closeness: Closeness, gpus: Sequence[tuple[str, int, int | None]]) -> Cards:
    """The cards of a resource.

    Args:
        closeness: Of the whole scan.
        gpus: UUID, index and NUMA node of each card that the resource has a share of. A card that the scan did not
            measure is a domain by itself, at unknown distance.
    """
    place = {uuid: i for i, uuid in enumerate(closeness.uuids)}
    ordered = sorted(gpus, key=lambda gpu: (gpu[1], gpu[0]))
    uuids = tuple(uuid for uuid, _, _ in ordered)
    at = tuple(place.get(uuid) for uuid in uuids)

    def matrix(values: Matrix) -> Matrix:
        return tuple(tuple(0 if a is None or b is None else values[a][b] for b in at) for a in at)

    return Cards(
        uuids=uuids,
        index=tuple(index for _, index, _ in ordered),
        numa=tuple(numa if a is None else closeness.numa[a] for a, (_, _, numa) in zip(at, ordered, strict=True)),
        domain=tuple(-1 - i if a is None else closeness.domain[a] for i, a in enumerate(at)),
        nvlink=matrix(closeness.nvlink),
        pcie=matrix(closeness.pcie),
    )


def pairs_sum(matrix: Matrix, members: Sequence[int]) -> int:
    """Sum over the pairs of some cards."""
    return sum(matrix[a][b] for a, b in combinations(members, 2))


def smallest(matrix: Matrix, members: Sequence[int]) -> int:
    """Smallest value over the pairs of some cards; 0 without a pair."""
    return min((matrix[a][b] for a, b in combinations(members, 2)), default=0)


def touched(groups: Sequence[int], mask: int) -> int:
    """How many groups a set takes from."""
    return sum(1 for group in groups if group & mask)


def blocks(groups: Sequence[int], mask: int) -> tuple[int, ...]:
    """Sizes of a set in each group, largest first."""
    return tuple(sorted(((group & mask).bit_count() for group in groups), reverse=True))


def score(cards: Cards, mask: int, available: int | None, load: Sequence[int] | None = None) -> Score:
    """Rules 1 to 8 for one set, in their order.

    Args:
        cards: All cards of the resource.
        mask: The set.
        available: What it is taken from; None leaves the rules about the rest out.
        load: What each card adds to the load, if that matters.
    """
    members, rest = cards.members(mask), 0 if available is None else available & ~mask
    left = cards.members(rest)
    criteria: dict[Rule, int | tuple[int, ...]] = {
        Rule.DOMAINS: -touched(cards.domains, mask),
        Rule.MIN_NVLINK: smallest(cards.nvlink, members),
        Rule.SUM_NVLINK: pairs_sum(cards.nvlink, members),
        Rule.LEFT_DOMAINS: blocks(cards.domains, rest),
        Rule.LOAD: -sum(load[i] for i in members) if load else 0,
        Rule.NUMA: -touched(cards.numas, mask),
        Rule.LEFT_NUMA: blocks(cards.numas, rest),
        Rule.PCIE: pairs_sum(cards.pcie, members),
        Rule.LEFT_NVLINK: pairs_sum(cards.nvlink, left),
        Rule.LEFT_PCIE: pairs_sum(cards.pcie, left),
    }
    return tuple(criteria.items())


def told_apart(one: Score, other: Score) -> Rule:
    """The first criterion in which two scores differ; lowest indices if none."""
    return next((rule for (rule, a), (_, b) in zip(one, other, strict=True) if a != b), Rule.INDEX)
