"""Pauses between attempts, and saying a trouble once."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from deviceplugin.model.errors import ClusterError, Trouble

log = logging.getLogger(__name__)

FIRST = 1.0
LONGEST = 60.0
LONGEST_FORBIDDEN = 300.0
"""Rights do not come by asking; but they may come."""

_REMEDIES = {
    Trouble.FORBIDDEN: "give this service account the right to it (the chart does when this is switched on there)",
    Trouble.ABSENT: "serving goes on without it",
    Trouble.SLOW: "serving goes on without it",
    Trouble.BUSY: "it will be asked less",
}


class Pace:
    """How long to wait before a watch is begun: the longer, the more of them in a row were over at once.

    Args:
        lasting: A watch that held for so many seconds was a good one.
    """

    def __init__(self, lasting: float = 10.0) -> None:
        self._lasting = lasting
        self._began = -lasting
        self._pause = 0.0

    def pause(self, now: float) -> float:
        """Notes a beginning; seconds to wait before it."""
        short = now - self._began < self._lasting
        self._pause = min(LONGEST, self._pause * 2 or FIRST) if short else 0.0
        self._began = now + self._pause
        return self._pause


class Pauses:
    """How long to wait after a failure: doubled each time up to a cap, with jitter so that nodes do not ask in step.

    Args:
        about: What cannot be done meanwhile, for the log.
        first: Seconds after the first failure.
        chance: Random numbers from 0 to 1.
    """

    def __init__(self, about: str, first: float = FIRST, chance: Callable[[], float] = random.random) -> None:
        self._about = about
        self._first = first
        self._chance = chance
        self._failures = 0
        self._said: Trouble | None = None

    def failed(self, error: ClusterError) -> float:
        """Notes a failure; seconds to wait. The log has one line for each kind of trouble in a row.

        A version that is too old (GONE) is part of how watching works, and not said.
        """
        if error.trouble not in {self._said, Trouble.GONE}:
            remedy = _REMEDIES.get(error.trouble, "it is tried again")
            log.warning("%s is held up: %s; %s", self._about, error, remedy, extra={"trouble": error.trouble})
            self._said = error.trouble
        cap = LONGEST_FORBIDDEN if error.trouble is Trouble.FORBIDDEN else LONGEST
        pause = min(cap, self._first * 2.0 ** min(self._failures, 20))
        self._failures += 1
        return pause * (0.5 + self._chance() / 2)

    def worked(self) -> None:
        """Notes a success."""
        if self._said is not None:
            log.info("%s works again", self._about)
        self._failures = 0
        self._said = None
