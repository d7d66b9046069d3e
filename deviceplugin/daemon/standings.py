"""Asks the MPS control daemons behind the offered resources how they are, again and again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from deviceplugin.board import Board
from deviceplugin.config.document import Config
from deviceplugin.daemon.world import World
from deviceplugin.model.errors import MpsError
from deviceplugin.model.mps import MpsStanding
from deviceplugin.rules.confirm import missing, plans
from deviceplugin.rules.offer.handover import seen_from_here

if TYPE_CHECKING:
    from deviceplugin.mps.places import Places

log = logging.getLogger(__name__)

Watch = Callable[[Path, Callable[[], None]], Callable[[], None]]

SOON, LATER = 1.0, 5.0
"""Seconds between two questions: while a piece is missing, and while all is well."""


class Standings:
    """Tells the world of each change; without a resource under MPS it asks nobody and loads nothing.

    Args:
        world: Told how the daemons are.
        changed: Called after the world was told something new.
        watch: Has a callable called when the file at a path is another; the answer ends it.
    """

    def __init__(self, world: World, changed: Callable[[], None], watch: Watch) -> None:
        self._world = world
        self._changed = changed
        self._watch = watch
        self._watched: dict[Path, Callable[[], None]] = {}
        self._said: frozenset[str] = frozenset()

    async def look(self) -> None:
        """Asks every daemon once, off the loop."""
        wanted = plans(self._world.inventory)
        config = self._world.loaded.config
        found = await asyncio.gather(*(asyncio.to_thread(self._ask, name, config) for name in wanted))
        standings = {name: self._kept(name, one) for name, one in zip(wanted, found, strict=True)}
        if standings != self._world.standings:
            self._world.standings = standings
            self._changed()
        self._tell()

    async def run(self, board: Board) -> None:
        """Until cancelled."""
        news = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(board, news))
            while True:
                news.clear()
                await self.look()
                shared = plans(self._world.inventory)
                if shared or self._watched:
                    self._heed(shared, news.set)
                pause = SOON if self._said else LATER
                try:
                    async with asyncio.timeout(pause if shared else None):
                        await news.wait()
                except TimeoutError:
                    continue

    async def _follow(self, board: Board, news: asyncio.Event) -> None:
        """Looks at once when other daemons are wanted."""
        before = plans(board.current.inventory)
        async for snapshot in board.follow():
            now = plans(snapshot.inventory)
            if now != before:
                news.set()
            before = now

    def _heed(self, shared: Iterable[str], look: Callable[[], None]) -> None:
        """Watches the ready files: one that goes or changes is no news to wait for."""
        from deviceplugin.mps.places import READY

        paths = {self._root(self._world.loaded.config).of(name) / READY for name in shared}
        for path in self._watched.keys() - paths:
            self._watched.pop(path)()
        for path in paths - self._watched.keys():
            self._watched[path] = self._watch(path, look)

    def _root(self, config: Config) -> Places:
        from deviceplugin.mps import places

        return places.find(config.flags.mps_root, self._world.host_root)

    def _ask(self, name: str, config: Config) -> MpsStanding:
        from deviceplugin.mps import standing

        root = self._root(config)
        driver_root = seen_from_here(config.flags.nvidia_driver_root, config, self._world.host_root)
        try:
            return MpsStanding(standing.applied(root, name, driver_root), "")
        except MpsError as error:
            return MpsStanding(missing=str(error))

    def _kept(self, name: str, found: MpsStanding) -> MpsStanding:
        """With the time since which it is so."""
        before = self._world.standings.get(name)
        if before is not None and (before.plan, before.missing) == (found.plan, found.missing):
            return before
        return MpsStanding(found.plan, found.missing, time.time())

    def _tell(self) -> None:
        """Logs each missing piece once, and when all is there."""
        lacking = frozenset(missing(self._world.inventory, self._world.standings))
        for sentence in sorted(lacking - self._said):
            log.warning("not ready: %s", sentence)
        if self._said and not lacking and plans(self._world.inventory):
            log.info("MPS is ready: every control daemon answers as configured")
        self._said = lacking
