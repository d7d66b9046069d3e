"""Kinds of cards, and the order in which to decide how many of each to take.

Two cards are of one kind if exchanging them changes no distance: how many of a kind are taken is all that matters.
Kinds are decided one after the other. What has been decided is told apart only as far as the kinds still to come can
tell it apart: decided kinds that look alike from there, in NVLink domains and NUMA nodes that are done, are one group
of which only the number taken matters. On machines that are built as a tree there are few groups at any time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations

from msgspec import Struct

from deviceplugin.rules.prefer.cards import Cards

Kind = tuple[int, ...]
"""Positions of cards that can be exchanged, ascending."""

SINGLES = -1
"""The block of all cards that are NVLink domains by themselves."""


class Step(Struct, frozen=True):
    """The decision on one kind."""

    members: tuple[int, ...]
    """Positions of its cards, ascending."""
    single: bool
    """Its cards are domains by themselves."""
    inside: tuple[int, int]
    """NVLink and PCIe between two of the kind."""
    nvlink: tuple[int, ...]
    """To each group before the step."""
    pcie: tuple[int, ...]
    """To each group before the step."""
    domain: tuple[int, ...] | None
    """Groups before the step in its NVLink domain, if the step is the last there and it is not single."""
    numa: tuple[int, ...] | None
    """Groups before the step in its NUMA node, if the step is the last there."""
    into: tuple[int, ...]
    """The group after the step of each group before it."""
    own: int
    """The group after the step that the kind joins."""
    groups: int
    """How many groups there are after the step."""


class Block(Struct, frozen=True):
    """The steps of one NVLink domain, or of all cards that are domains by themselves."""

    steps: range
    single: bool
    width: int | None
    """NVLink of every pair; None where pairs differ."""
    inner: tuple[Step, ...] = ()
    """Where pairs differ: the steps by NVLink alone."""


class Plan(Struct, frozen=True):
    """All kinds in order of decision: NVLink domain by domain, in them NUMA node by node, near ones together."""

    steps: tuple[Step, ...]
    blocks: tuple[Block, ...]


def plan(cards: Cards) -> Plan:
    """Finds the kinds of some cards and puts them in order."""
    kinds = sorted(kinds_of(cards), key=lambda kind: _nearness(cards, kind[0]))
    flat = flattened(cards)
    flat_kinds = kinds_of(flat)
    blocks, start = [], 0
    for block in dict.fromkeys(_block(cards, kind[0]) for kind in kinds):
        end = start + sum(_block(cards, kind[0]) == block for kind in kinds)
        members = sorted(i for kind in kinds[start:end] for i in kind)
        widths = {cards.nvlink[a][b] for a, b in combinations(members, 2)}
        width = min(widths, default=0)
        if width == max(widths, default=0):
            blocks.append(Block(range(start, end), block == SINGLES, width))
        else:
            inner = _steps(flat, [kind for kind in flat_kinds if kind[0] in members])
            blocks.append(Block(range(start, end), single=False, width=None, inner=inner))
        start = end
    return Plan(_steps(cards, kinds), tuple(blocks))


def flattened(cards: Cards) -> Cards:
    """The same cards with nothing to tell apart but NVLink."""
    none = tuple((0,) * cards.count for _ in range(cards.count))
    return replace(cards, numa=(None,) * cards.count, pcie=none)


def kinds_of(cards: Cards) -> list[Kind]:
    """The kinds of some cards, by their lowest."""
    kinds: list[list[int]] = []
    for card in range(cards.count):
        kind = next((kind for kind in kinds if _twins(cards, kind[0], card)), None)
        if kind is None:
            kinds.append([card])
        else:
            kind.append(card)
    return [tuple(kind) for kind in kinds]


def _block(cards: Cards, card: int) -> int:
    domain = cards.domain[card]
    return SINGLES if cards.domain.count(domain) == 1 else cards.domain.index(domain)


def _twins(cards: Cards, one: int, other: int) -> bool:
    if cards.numa[one] != cards.numa[other] or _block(cards, one) != _block(cards, other):
        return False
    rest = [i for i in range(cards.count) if i not in (one, other)]
    return all(m[one][i] == m[other][i] for m in (cards.nvlink, cards.pcie) for i in rest)


def _nearness(cards: Cards, card: int) -> tuple[int, ...]:
    """Sorts cards so that near ones come together: the first card of each circle around it, from wide to narrow."""
    mine = [i for i in range(cards.count) if _block(cards, i) == _block(cards, card)]
    node = [i for i in mine if cards.numa[i] == cards.numa[card]]
    circles = [[i for i in node if i == card or cards.pcie[card][i] >= level] for level in (3, 4, 5, 6)]
    return (*(min(circle) for circle in (mine, node, *circles)), card)


def _steps(cards: Cards, kinds: Sequence[tuple[int, ...]]) -> tuple[Step, ...]:
    before: list[Hashable] = []
    steps = []
    for at in range(len(kinds)):
        later = [kind[0] for kind in kinds[at + 1 :]]
        after = [_seen(cards, kind[0], later) for kind in kinds[: at + 1]]
        steps.append(_step(cards, kinds[: at + 1], later, (before, after)))
        before = after
    return tuple(steps)


def _seen(cards: Cards, card: int, later: Sequence[int]) -> Hashable:
    """What the kinds still to come can tell of a decided one."""
    block, numa = _block(cards, card), cards.numa[card]
    return (
        tuple((cards.nvlink[card][i], cards.pcie[card][i]) for i in later),
        block if block != SINGLES and any(_block(cards, i) == block for i in later) else None,
        (numa,) if any(cards.numa[i] == numa for i in later) else None,
    )


def _step(
    cards: Cards,
    kinds: Sequence[tuple[int, ...]],
    later: Sequence[int],
    seen: tuple[Sequence[Hashable], Sequence[Hashable]],
) -> Step:
    before, after = seen
    card = kinds[-1][0]
    old, new = list(dict.fromkeys(before)), list(dict.fromkeys(after))
    heads = [kinds[before.index(group)][0] for group in old]
    block, numa = _block(cards, card), cards.numa[card]
    domain_ends = block != SINGLES and not any(_block(cards, i) == block for i in later)
    numa_ends = not any(cards.numa[i] == numa for i in later)
    return Step(
        members=kinds[-1],
        single=block == SINGLES,
        inside=(cards.nvlink[card][kinds[-1][-1]], cards.pcie[card][kinds[-1][-1]]),
        nvlink=tuple(cards.nvlink[card][i] for i in heads),
        pcie=tuple(cards.pcie[card][i] for i in heads),
        domain=tuple(g for g, i in enumerate(heads) if _block(cards, i) == block) if domain_ends else None,
        numa=tuple(g for g, i in enumerate(heads) if cards.numa[i] == numa) if numa_ends else None,
        into=tuple(new.index(after[before.index(group)]) for group in old),
        own=new.index(after[-1]),
        groups=len(new),
    )
