"""The answer of preferred allocation, and what it says of the cards it takes from."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from deviceplugin.rules.prefer.cards import Cards, Rule, pairs_sum, smallest, touched


class Preference(Struct, frozen=True):
    """The ids to give, and why. `domains` to `sum_pcie` are of the cards behind them."""

    ids: tuple[str, ...]
    gpu_indices: tuple[int, ...]
    domains: int
    """NVLink domains touched."""
    min_nvlink: int
    """Smallest NVLink width over the pairs of cards; 0 for one card."""
    sum_nvlink: int
    numa_nodes: int
    sum_pcie: int
    exact: bool
    """Whether the set is proved to be the best; otherwise the search was bounded."""
    decided_by: Rule
    """The criterion by which it beat the runner-up."""
    unknown: int = 0
    """Available ids that the resource does not have; they were skipped."""


class Verdict(Struct, frozen=True):
    """How a set of shares was found."""

    ids: tuple[str, ...]
    mask: int
    """The cards they are on."""
    decided_by: Rule
    exact: bool = True


def preference(cards: Cards, verdict: Verdict, unknown: int) -> Preference:
    """Describes what was chosen."""
    members: Sequence[int] = cards.members(verdict.mask)
    return Preference(
        ids=verdict.ids,
        gpu_indices=tuple(cards.index[i] for i in members),
        domains=touched(cards.domains, verdict.mask),
        min_nvlink=smallest(cards.nvlink, members),
        sum_nvlink=pairs_sum(cards.nvlink, members),
        numa_nodes=touched(cards.numas, verdict.mask),
        sum_pcie=pairs_sum(cards.pcie, members),
        exact=verdict.exact,
        decided_by=verdict.decided_by,
        unknown=unknown,
    )
