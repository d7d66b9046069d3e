"""The current snapshot: one writer publishes, any number of readers follow the newest.

Following is latest-value: a slow reader skips to the newest snapshot and holds nobody up. All of it runs on one
event loop; `current` may be read from any thread, since a snapshot is immutable and replaced whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msgspec.structs import replace

from deviceplugin.model.snapshot import Snapshot


class Board:
    """Holds the current `Snapshot`."""

    def __init__(self, first: Snapshot | None = None) -> None:
        self._current = first or Snapshot()
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def current(self) -> Snapshot:
        """The newest snapshot."""
        return self._current

    @property
    def closed(self) -> bool:
        """Whether `close` was called: followers end after the newest snapshot."""
        return self._closed

    def publish(self, snapshot: Snapshot) -> Snapshot:
        """Replaces the current snapshot by `snapshot` under the next version number and wakes all followers."""
        self._current = replace(snapshot, version=self._current.version + 1)
        self._wake()
        return self._current

    def close(self) -> None:
        """Ends all followers."""
        self._closed = True
        self._wake()

    async def follow(self) -> AsyncIterator[Snapshot]:
        """Yields the current snapshot, then each newer one as it comes, until the board is closed."""
        seen = -1
        while True:
            if self._current.version != seen:
                snapshot = self._current
                seen = snapshot.version
                yield snapshot
            elif self._closed:
                return
            else:
                await self._changed.wait()

    def _wake(self) -> None:
        # Waiters hold the old event: it stays set for them while newcomers wait on a fresh one.
        self._changed.set()
        self._changed = asyncio.Event()
