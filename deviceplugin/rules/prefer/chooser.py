"""Chooses cards by whichever way is exact and cheapest for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from deviceplugin.rules.prefer import layers, search, table
from deviceplugin.rules.prefer.cards import Cards, Rule
from deviceplugin.rules.prefer.kinds import Kind, Plan, kinds_of, plan
from deviceplugin.rules.prefer.sweep import TooMuchError
from deviceplugin.rules.prefer.wish import Choice, Wish


class Chooser:
    """The cards of a resource with what is worked out once for them."""

    def __init__(self, cards: Cards) -> None:
        self.cards = cards

    @cached_property
    def tables(self) -> table.Tables:
        """Values of every set, for up to 16 cards."""
        return table.build(self.cards)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Cards that can be exchanged."""
        return tuple(kinds_of(self.cards))

    @cached_property
    def plan(self) -> Plan:
        """In which order to decide on the kinds, for more cards."""
        return plan(self.cards)

    @cached_property
    def unlinked(self) -> Chooser:
        """The same without NVLink, for MIG instances."""
        return Chooser(self.cards.unlinked())

    def prepare(self) -> None:
        """Works out what `choose` needs."""
        _ = (self.kinds, self.tables) if self.cards.count <= table.LARGEST else self.plan

    def choose(self, wish: Wish) -> Choice:
        """The best set of a wish that can be met."""
        if wish.size == wish.forced.bit_count():
            return Choice(wish.forced, Rule.ONLY)
        if wish.size == wish.candidates.bit_count():
            return Choice(wish.candidates, Rule.ONLY)
        if self.cards.count <= table.LARGEST:
            return table.choose(self.cards, self.kinds, self.tables, wish)
        try:
            return layers.choose(self.cards, self.plan, wish)
        except TooMuchError:
            return search.choose(self.cards, wish)

    def best(self, sets: Sequence[int]) -> Choice:
        """The best of some sets, of whatever sizes, without regard to what is left."""
        if self.cards.count <= table.LARGEST:
            return table.best(self.cards, self.tables, Wish(0, 0), sets)
        return search.best(self.cards, sets)
