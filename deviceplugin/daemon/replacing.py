"""When this process makes way for a fresh one: a driver that was upgraded underneath needs its library loaded anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum

from deviceplugin.model.node import DriverState

log = logging.getLogger(__name__)

FIRST_PAUSE = 30.0
"""Before the second fresh process in a row; doubled for each further one."""
LONGEST_PAUSE = 600.0
OTHERWISE = frozenset({DriverState.READY, DriverState.FAILING, DriverState.NO_DRIVER, DriverState.NO_HARDWARE})
"""Seen before a mismatch, these say that the mismatch is a new one."""


class Ending(Enum):
    """Why the daemon ended."""

    STOPPED = "stopped"
    REPLACE = "replace"
    """The driver was upgraded underneath: only a fresh process can load the new library."""


class Replacement:
    """Follows the driver's state, and calls `end` when a fresh process is due.

    The first comes at once. Where that meets the mismatch again, library and kernel module really differ (an
    installation under way): the next ones wait, since only a process of their own can see that the library is another.

    Args:
        tries: Fresh processes in a row before this one.
        end: Called once when this process is to make way; `due` tells afterwards whether that still holds.
    """

    def __init__(self, tries: int, end: Callable[[], None]) -> None:
        self.tries = tries
        self.due = False
        """Whether this process should make way now."""
        self._end = end
        self._timer: asyncio.TimerHandle | None = None

    def follow(self, state: DriverState) -> None:
        """Takes note of the driver's state."""
        if state is DriverState.MISMATCH:
            if self._timer is None:
                self._plan()
            return
        if state in OTHERWISE:
            # The module was not there when this process began: a mismatch that comes now is of another driver again.
            self.tries = 0
        if state is DriverState.READY:
            self.due = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _plan(self) -> None:
        loop = asyncio.get_running_loop()
        if not self.tries:
            log.warning("the driver was upgraded underneath; beginning a fresh process that loads the new library")
            self._timer = loop.call_later(0, self._make_way)
            return
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self.tries - 1, 10))
        log.warning(
            "the driver's library and kernel module are still of different versions: finish the driver's installation "
            "or reboot the node; a fresh process looks again in %g s",
            pause,
        )
        self._timer = loop.call_later(pause, self._make_way)

    def _make_way(self) -> None:
        self.due = True
        self._end()
