"""Chooses cards by whichever way is exact and cheapest for them."""

from __future__ import annotations

from functools import cached_property

from deviceplugin.rules.prefer import table
from deviceplugin.rules.prefer.cards import Cards, Rule
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
    def unlinked(self) -> Chooser:
        """The same without NVLink, for MIG instances."""
        return Chooser(self.cards.unlinked())

    def choose(self, wish: Wish) -> Choice:
        """The best set of a wish that can be met."""
        if wish.size == wish.forced.bit_count():
            return Choice(wish.forced, Rule.ONLY)
        if wish.size == wish.candidates.bit_count():
            return Choice(wish.candidates, Rule.ONLY)
        return table.choose(self.tables, wish, self.cards.count)
