"""Criteria packed into one integer: sums add up field by field, and comparing integers compares criteria in order."""

from __future__ import annotations

from itertools import chain

from msgspec import Struct

from deviceplugin.rules.prefer.cards import Cards, Rule
from deviceplugin.rules.prefer.wish import Wish

FIELDS = (
    Rule.LEFT_PCIE,
    Rule.LEFT_NVLINK,
    Rule.PCIE,
    Rule.LEFT_NUMA,
    Rule.NUMA,
    Rule.LOAD,
    Rule.LEFT_DOMAINS,
    Rule.SUM_NVLINK,
    Rule.DOMAINS,
)
"""From the least to the most important. Rule 2 is no sum; it is kept by a floor for single links."""


class End(Struct, frozen=True):
    """What an NVLink domain or NUMA node is worth."""

    untouched: int
    """If nothing is taken from it."""
    blocks: tuple[int, ...]
    """By the number of cards left in it."""


class Span(Struct, frozen=True):
    """Some neighbouring fields of a score."""

    shift: int
    mask: int = -1
    """-1: up to the most important."""

    def of(self, score: int) -> int:
        """Those fields as a number."""
        return score >> self.shift & self.mask


class Scale(Struct, frozen=True):
    """What one unit of a criterion is worth. Every field counts something that is better the larger, from zero."""

    worth: dict[Rule, int]
    domain_end: End
    numa_end: End
    links: Span
    """Rules 1 to 4."""
    nodes: Span
    """Rules 5 and 6."""

    def told_by(self, best: int, second: int) -> Rule:
        """The most important criterion in which two scores differ; lowest indices if none."""
        bit = (best ^ second).bit_length()
        if not bit:
            return Rule.INDEX
        return next(rule for rule in reversed(FIELDS) if self.worth[rule].bit_length() <= bit)


def scale(cards: Cards, wish: Wish) -> Scale:
    """Fields just wide enough for some cards and a wish."""
    most = (wish.candidates if wish.available is None else wish.available).bit_count()
    pairs = most * (most - 1) // 2
    domain_digit, numa_digit = len(cards.domains).bit_length(), len(cards.numas).bit_length()
    width = {
        Rule.LEFT_PCIE: (pairs * _largest(cards.pcie)).bit_length(),
        Rule.LEFT_NVLINK: (pairs * _largest(cards.nvlink)).bit_length(),
        Rule.PCIE: (pairs * _largest(cards.pcie)).bit_length(),
        Rule.LEFT_NUMA: numa_digit * most,
        Rule.NUMA: numa_digit,
        Rule.LOAD: (wish.size * max(wish.load or (0,))).bit_length(),
        Rule.LEFT_DOMAINS: domain_digit * most,
        Rule.SUM_NVLINK: (pairs * _largest(cards.nvlink)).bit_length(),
        Rule.DOMAINS: 64,
    }
    worth, at = {}, 0
    for rule in FIELDS:
        worth[rule] = 1 << at
        at += max(1, width[rule])
    digits = (0, 0) if wish.available is None else (worth[Rule.LEFT_DOMAINS], worth[Rule.LEFT_NUMA])
    return Scale(
        worth,
        End(worth[Rule.DOMAINS], _blocks(digits[0], domain_digit, most)),
        End(worth[Rule.NUMA], _blocks(digits[1], numa_digit, most)),
        Span(worth[Rule.LEFT_DOMAINS].bit_length() - 1),
        Span(worth[Rule.LEFT_NUMA].bit_length() - 1, worth[Rule.LOAD] // worth[Rule.LEFT_NUMA] - 1),
    )


def _largest(matrix: tuple[tuple[int, ...], ...]) -> int:
    return max(chain.from_iterable(matrix), default=0)


def _blocks(worth: int, digit: int, most: int) -> tuple[int, ...]:
    """A digit for each size, the largest size the most significant."""
    return (0, *(worth << digit * size for size in range(most)))
