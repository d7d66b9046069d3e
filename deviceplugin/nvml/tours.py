"""Tours of the cards on the worker's thread, none of which one card can hold up.

A call about a card that does not come back costs a thread and the patience, once: the card is left out, and the tour is
made again without it. If that one ends, the card is at fault; if it hangs as well, before any card was asked or at card
after card, the driver as a whole is, and no card is blamed. A card is asked again when its call comes back, later if it
hung before, and otherwise after a long time while few threads hang.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from deviceplugin.model.errors import NvmlError
from deviceplugin.nvml.codes import Code
from deviceplugin.nvml.tour import PAIRS, Tour
from deviceplugin.nvml.worker import Worker

Answer = TypeVar("Answer")

PATIENCE = 8.0
"""Seconds for one call: a GPU that is opened without persistence mode may take several."""
_LEAST, _USUAL = 2.0, 5.0
SPARES = 4
"""Threads that may hang before nothing is asked any more."""
_FEW = 2
"""Threads that may hang when a card whose call has not come back is asked once more."""
_PAUSE = 30.0
_LONGEST_PAUSE = 600.0
_FORGIVEN = 900.0
"""Seconds after which a card that hung is no longer made to wait for it."""


class _Hang(Struct, frozen=True):
    """A call about one card that did not come back in time."""

    query: str
    kind: str
    """Of the tour: only one that asks the same can show who is at fault."""
    tour: Tour
    began: float
    """Monotonic time at which it was noticed."""
    times: int = 0
    """How often it had hung shortly before."""
    proven: bool = False
    """Other cards, or the driver as a whole, answered meanwhile."""
    over: bool = False
    """The call came back after all."""

    def due(self, now: float, hanging: int) -> bool:
        """Whether the card is to be asked again."""
        pause = min(_PAUSE * 2 ** (self.times - 1), _LONGEST_PAUSE) if self.times else 0.0
        waited = now - self.began
        return waited >= pause if self.over else waited >= _LONGEST_PAUSE and hanging <= _FEW


class Tours:
    """Makes tours; all methods are called on the loop.

    Args:
        worker: Its thread makes them.
        found: Called with a card and the query when a card is found to hang, at once and before the tour that showed
            it is answered.
        over: Called when a call that hung came back.

    Attributes:
        patience: Seconds one call may take.
    """

    def __init__(self, worker: Worker, found: Callable[[str, str], None], over: Callable[[], None]) -> None:
        self.patience = PATIENCE
        self._worker = worker
        self._found = found
        self._over = over
        # Replaced, never written into: the worker's thread reads it.
        self._hangs: Mapping[str, _Hang] = MappingProxyType({})
        self._history: dict[str, tuple[float, int]] = {}
        """When a card last hung, and how often in a row before."""

    @property
    def left_out(self) -> Mapping[str, str]:
        """The cards that are found to hang and have not answered since, with the call."""
        return {card: hang.query for card, hang in self._hangs.items() if hang.proven}

    def suit(self, interval: float) -> None:
        """Whoever reads health states more often than every 5 s wants to know of a card that hangs sooner, too."""
        self.patience = min(PATIENCE, max(_LEAST, interval * PATIENCE / _USUAL))

    async def make(self, kind: str, call: Callable[[Tour], Answer], *, deadline: float) -> Answer:
        """The answer of a tour, in which cards that hang are left out.

        Args:
            kind: What is asked; tours of one kind ask the same.
            call: Asks it.
            deadline: Seconds for the whole tour.

        Raises:
            NvmlError: The driver as a whole does not answer, is out of reach, or too many threads hang.
        """
        while True:
            tour = Tour()
            watch = _Watch(self, tour, kind)
            try:
                answer = await self._worker.submit(partial(self._run, tour, call), deadline=deadline, watch=watch)
            except NvmlError as error:
                if watch.blamed:
                    continue
                if error.code == Code.TIMEOUT:
                    self._keep(lambda _card, hang: hang.proven)
                raise
            self._learn(tour, kind)
            return answer

    def _run(self, tour: Tour, call: Callable[[Tour], Answer]) -> Answer:
        """On the worker's thread: which cards are left out is decided when it begins."""
        now, hanging = time.monotonic(), self._worker.hanging
        left = {card: hang for card, hang in self._hangs.items() if not hang.due(now, hanging)}
        tour.skipped = {card: hang.query for card, hang in left.items()}
        tour.doubtful = not all(hang.proven for hang in left.values())
        return call(tour)

    def left(self, tour: Tour) -> float:
        """Seconds until the call under way has taken too long."""
        since = tour.where.since
        return since + self.patience - time.monotonic() if since else self.patience

    def blame(self, tour: Tour, kind: str, began: float) -> bool:
        """Whether one card holds up this tour; it is left out from now on."""
        where, now = tour.where, time.monotonic()
        stuck = bool(where.since) and now - where.since >= self.patience
        most = bool(where.card) and 2 * (now - where.arrived) >= now - began
        if not where.card or not (stuck or most):
            return False
        last, times = self._history.get(where.card, (0.0, -1))
        times = times + 1 if now - last < _FORGIVEN else 0
        self._history[where.card] = now, times
        known = self._hangs.get(where.card)
        self._put(where.card, _Hang(where.query, kind, tour, now, times, proven=known is not None and known.proven))
        return True

    def returned(self, tour: Tour) -> None:
        """A call that hung came back."""
        mine = [card for card, hang in self._hangs.items() if hang.tour is tour]
        for card in mine:
            self._put(card, replace(self._hangs[card], over=True))
        if mine:
            self._over()

    def _learn(self, tour: Tour, kind: str) -> None:
        """A tour that ended clears the cards it asked, and convicts those it did without.

        Raises:
            NvmlError: It had no card left to ask.
        """
        self._keep(lambda card, _hang: card not in tour.answered)
        if tour.doubtful and len(tour.skipped) > 1 and not tour.answered - {PAIRS}:
            self._keep(lambda _card, hang: hang.proven)
            raise NvmlError(f"calls about every GPU hang ({', '.join(set(tour.skipped.values()))})", code=Code.TIMEOUT)
        for card, hang in self._hangs.items():
            if card in tour.skipped and hang.kind == kind and not hang.proven:
                self._put(card, replace(hang, proven=True))
                self._found(card, hang.query)

    def _put(self, card: str, hang: _Hang) -> None:
        self._hangs = MappingProxyType({**self._hangs, card: hang})

    def _keep(self, fits: Callable[[str, _Hang], bool]) -> None:
        self._hangs = MappingProxyType({card: hang for card, hang in self._hangs.items() if fits(card, hang)})


class _Watch:
    """How the worker looks after one tour."""

    def __init__(self, tours: Tours, tour: Tour, kind: str) -> None:
        self.blamed = False
        self._tours = tours
        self._tour = tour
        self._kind = kind

    def left(self) -> float:
        """Seconds until it is to be looked at again; none once a call takes too long."""
        return self._tours.left(self._tour)

    def abandoned(self, began: float) -> None:
        """Its thread is left behind."""
        self._tour.given_up = True
        self.blamed = self._tours.blame(self._tour, self._kind, began)

    def returned(self) -> None:
        """The thread that was left behind came back."""
        self._tours.returned(self._tour)
