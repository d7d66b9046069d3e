"""One pass over the cards, seen from both sides: the thread that asks writes where it is, the loop reads it.

A call into a driver that hangs cannot be ended, only left behind with its thread. What can be known is which card it
was about: a tour notes that, leaves out the cards that it was told to leave out, and ends as soon as a call that
nobody waits for any more comes back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from msgspec import Struct

from deviceplugin.nvml.codes import Code, failure

PAIRS = "pairs"
"""What a tour is with while it asks about two cards at once: then no single card is to be blamed."""
_NONE: Mapping[str, str] = MappingProxyType({})


class Where(Struct, frozen=True):
    """Where a tour is; all at once, so that it can be read from another thread."""

    card: str = ""
    """UUID, `index 3` of a card that has not said who it is, PAIRS, or empty between the cards."""
    arrived: float = 0.0
    """Monotonic time at which the tour came to the card."""
    query: str = ""
    since: float = 0.0
    """Monotonic time at which the call under way began; 0 between two calls."""


class Tour:
    """One pass over the cards.

    Attributes:
        skipped: Cards that are left out, with the call that hangs.
        doubtful: It is not yet known whether those cards hang, or the driver as a whole.
        answered: Cards that were asked everything and hung nowhere.
        given_up: Nobody waits for this tour any more.
    """

    def __init__(self, skipped: Mapping[str, str] = _NONE, *, doubtful: bool = False) -> None:
        self.skipped = skipped
        self.doubtful = doubtful
        self.answered: set[str] = set()
        self.given_up = False
        self.where = Where()

    @contextmanager
    def visit(self, card: str) -> Iterator[None]:
        """What is asked within is about this card."""
        self.where = Where(card, time.monotonic())
        yield
        self.where = Where()
        self.answered.add(card)

    def begin(self, query: str) -> None:
        """A call of the driver begins."""
        where = self.where
        self.where = Where(where.card, where.arrived, query, time.monotonic())

    def end(self) -> None:
        """It ended.

        Raises:
            NvmlError: (TIMEOUT) so late that the tour was given up.
        """
        where = self.where
        self.where = Where(where.card, where.arrived)
        if self.given_up:
            raise failure(where.query, Code.TIMEOUT)
