"""Keeps something in the cluster as it is wanted: after each change, from time to time, and again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from deviceplugin.cluster.pauses import Pauses
from deviceplugin.model.errors import ClusterError

Wish = TypeVar("Wish")

RESYNC = 600.0
"""Seconds after which it is written again although nothing changed here: somebody may have changed it there."""


class Keeper(Generic[Wish]):
    """Keeps one thing.

    Args:
        wanted: What is wanted now, None to leave it as it is. It is called on another thread.
        apply: Writes it; ClusterError is tried again.
        pauses: Between attempts.
        mark: What of it counts as a change.
        resync: Seconds until it is written again.
    """

    def __init__(
        self,
        wanted: Callable[[], Wish | None],
        apply: Callable[[Wish], Awaitable[None]],
        pauses: Pauses,
        *,
        mark: Callable[[Wish], object] = lambda wish: wish,
        resync: float = RESYNC,
    ) -> None:
        self._wanted = wanted
        self._apply = apply
        self._pauses = pauses
        self._mark = mark
        self._resync = resync
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Something may be wanted differently now."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        standing: object = None
        due = 0.0
        while True:
            self._changed.clear()
            wish = await asyncio.to_thread(self._wanted)
            if wish is not None and (self._mark(wish) != standing or loop.time() >= due):
                try:
                    await self._apply(wish)
                except ClusterError as error:
                    await asyncio.sleep(self._pauses.failed(error))
                    continue
                self._pauses.worked()
                standing, due = self._mark(wish), loop.time() + self._resync
            try:
                async with asyncio.timeout(self._resync):
                    await self._changed.wait()
            except TimeoutError:
                continue
