"""Rehearsals: health events that people write into the inject file, to try alerts and themselves."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from deviceplugin.files.inject import InjectFile

if TYPE_CHECKING:
    from deviceplugin.daemon.supervisor import Daemon


class Rehearsals:
    """Follows the inject file that the configuration names."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._now = asyncio.Event()

    def look(self) -> None:
        """Asks for the file to be read anew; it may also be another one now."""
        self._now.set()

    async def run(self) -> None:
        """Takes in rehearsals whenever the inject file changes; without one, nothing is watched."""
        path, unwatch, file = "", _nothing, InjectFile("")
        try:
            while True:
                wanted = self._daemon.config.health.inject_file
                if wanted != path:
                    unwatch()
                    file = InjectFile(wanted)
                    unwatch = self._daemon.watcher.watch(Path(wanted), self._now.set) if wanted else _nothing
                if wanted or path:
                    injected = await asyncio.to_thread(file.read)
                    if injected is not None:
                        self._daemon.take_in(self._daemon.world.witnessed(injected, time.time()))
                path = wanted
                await self._now.wait()
                self._now.clear()
        finally:
            unwatch()


def _nothing() -> None:
    """The end of watching nothing."""
