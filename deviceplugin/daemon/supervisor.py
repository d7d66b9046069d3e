"""The daemon: composes the doors, takes in what they report, and is the one writer of the board."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from deviceplugin.board import Board
from deviceplugin.config.document import Config
from deviceplugin.config.load import Loaded
from deviceplugin.daemon import telling
from deviceplugin.daemon.answers import Answers
from deviceplugin.daemon.bookkeeping import Bookkeeping
from deviceplugin.daemon.choice import Choice, by_label
from deviceplugin.daemon.endpoints import Endpoints
from deviceplugin.daemon.hardware import Hardware
from deviceplugin.daemon.outlets import Outlets
from deviceplugin.daemon.preparing import prefer, prepare
from deviceplugin.daemon.rehearsing import Rehearsals
from deviceplugin.daemon.reloading import Reloading
from deviceplugin.daemon.replacing import Ending, Replacement
from deviceplugin.daemon.showing import Showing
from deviceplugin.daemon.standings import Standings
from deviceplugin.daemon.world import News, World
from deviceplugin.files.sickness import SicknessFile, boot_identity
from deviceplugin.files.watch import Watcher
from deviceplugin.kubelet.decisions import Rules
from deviceplugin.kubelet.endpoint import Wiring
from deviceplugin.kubelet.settings import EndpointSettings
from deviceplugin.ledger import Ledger
from deviceplugin.model.errors import ConfigError, NvmlError
from deviceplugin.model.node import DriverState
from deviceplugin.nvml.driver import Driver
from deviceplugin.rules.allocate import allocate
from deviceplugin.web.local import LocalSocket

log = logging.getLogger("deviceplugin.daemon")


AGAIN = 30.0
"""Seconds after which something that pods can do without is begun again."""


class Daemon:
    """One life of the plugin. Construct it on the loop that runs it.

    Args:
        loaded: The configuration at start.
        choice: Loads the configuration anew; ConfigError leaves the present one in force.
        driver: NVML, or a pretend one.
        fresh: How many processes in a row, this one included, were begun to load a new driver library.
    """

    def __init__(self, loaded: Loaded, choice: Choice, driver: Driver, *, fresh: int = 0) -> None:
        self.ledger = Ledger()
        self.board = Board()
        self.watcher = Watcher()
        self.granted = asyncio.Event()
        """Set by each granted Allocate."""
        self.moved = asyncio.Event()
        """Set when there is something new to show that the board does not tell, such as a registration."""
        self._fresh = fresh
        self._sicknesses = SicknessFile(loaded.config.daemon.state_dir)
        self._saver = ThreadPoolExecutor(1, "saves")
        self.world = World(loaded, driver.host_root, boot_identity(driver.host_root), self._sicknesses.load())
        self.hardware = Hardware(driver, self.world, self.ledger, self.take_in)
        self.mps = Standings(self.world, lambda: self.take_in(News()), self.watcher.watch)
        rules = Rules(allocate, prefer)
        wiring = Wiring(
            rules,
            Bookkeeping(self.ledger, self.granted.set, self.moved.set, self.hardware.rescan),
            lambda path, changed: self.watcher.watch(Path(path), changed),
        )
        self.endpoints = Endpoints(self.board, EndpointSettings.of(loaded.config.kubelet), wiring)
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.reloading = Reloading(self, choice)
        self.replacement = Replacement(fresh, self.reloading.request)
        self.rehearsals = Rehearsals(self)
        self._told = self.board.current
        self._published = False
        self._outlets = Outlets(self)

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.world.loaded.config

    async def run(self) -> Ending:
        """Lives until it is told to stop, or must be replaced.

        Raises:
            ConfigError: The configuration does not fit this node at start.
            NvmlError: The driver cannot be used at start, and failOnInitError is true.
        """
        self._listen_to_signals()
        telling.configuration(self.world.loaded)
        self.ledger.stamp("config")
        async with AsyncExitStack() as stack:
            stack.callback(self.hardware.stop)
            answers = Answers(self)
            showing = Showing(self, answers)
            local = LocalSocket(self.config.daemon.control_socket, {**answers.table, "status": showing.status})
            if self.config.daemon.control_socket and await local.open():
                stack.push_async_callback(local.close)
            if await self._begun():
                await self._live(showing)
        ending = await self._ending
        await self._save()
        log.info("ended: %s", ending.value)
        return ending

    async def _begun(self) -> bool:
        """Waits for the first scan; False when it was told to stop meanwhile, as a driver that hangs never ends it."""
        first = asyncio.create_task(self._first(), name="first scan")
        either: set[asyncio.Future[Any]] = {first, self._ending}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if first.done():
            await first
            return True
        first.cancel()
        return False

    async def _live(self, showing: Showing) -> None:
        parts: dict[str, Callable[[], Awaitable[None]]] = {
            "watching files": self.watcher.run,
            "scanning": self.hardware.run_scans,
            "reading health states": self.hardware.run_reads,
            "reloading the configuration": self.reloading.run,
            "rehearsing": self.rehearsals.run,
            "preparing preferred allocation": partial(prepare, self.board),
            "the look at MPS control daemons": partial(self.mps.run, self.board),
            "metrics and status page": showing.run,
            "labels and cluster": self._outlets.run,
        }
        async with asyncio.TaskGroup() as group:
            endpoints = group.create_task(self.endpoints.run(), name="endpoints")
            aside = [group.create_task(self._aside(part, run), name=part) for part, run in parts.items()]
            await self._ending
            self.board.close()
            await endpoints
            for task in aside:
                task.cancel()

    def stop(self, ending: Ending = Ending.STOPPED) -> None:
        """Ends `run`."""
        if not self._ending.done():
            self._ending.set_result(ending)

    def take_in(self, news: News) -> None:
        """Publishes the world as it is now, if it differs from what the board shows, and tells what changed."""
        if news.transitions:
            # First of all, on a thread of its own: what streams are told soon should be in the file by then.
            self._save()
        before, now = self._told, self.world.snapshot
        telling.news(news)
        for transition in news.transitions:
            self.ledger.turn(transition)
            self._outlets.turned(transition)
        if (before.node, before.health, before.config) == (now.node, now.health, now.config) and (
            before.inventory is now.inventory
        ):
            return
        # What is about to end the process is told by its error.
        if self._published or not self._gives_up(now.node.state):
            telling.snapshot(before, now)
        self._told = now
        if self._published:
            self.board.publish(now)
        self.replacement.follow(now.node.state)

    async def _first(self) -> None:
        node = await self.hardware.first()
        if self._gives_up(node.state):
            raise NvmlError(f"{node.detail}; to wait for the driver instead, set --fail-on-init-error=false")
        conflicts = tuple(map(self.world.loaded.placed, self.world.inventory.conflicts))
        if conflicts and not by_label(self.world.loaded):
            raise ConfigError(*conflicts)
        for conflict in conflicts:
            # Where a label chooses, only a process that lives can see it choose another.
            log.error("the configuration does not fit this node, what fits is served: %s", conflict)
        await self.mps.look()
        self._published = True
        self.board.publish(self.world.snapshot)

    def _gives_up(self, state: DriverState) -> bool:
        """Whether a driver in that state ends a start. A process that took over from another is not at its start."""
        return state is not DriverState.READY and self.config.flags.fail_on_init_error and not self._fresh

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._hung_up)

    async def _aside(self, part: str, run: Callable[[], Awaitable[None]]) -> None:
        """Runs a part that pods can do without for a while: a bug there is logged and counted, allocation goes on."""
        while True:
            try:
                await run()
            except Exception:
                log.exception("%s ended by a bug, beginning again in %g s; please report it", part, AGAIN)
                self.ledger.count("bugs", part)
                self.moved.set()
            await asyncio.sleep(AGAIN)

    def _hung_up(self) -> None:
        log.info("SIGHUP: scanning and loading the configuration anew")
        self.reloading.request()
        self.hardware.rescan()

    def _save(self) -> asyncio.Future[bool]:
        """Has what is known when the thread comes to it kept; of several requests in a row the first writes it all."""
        return asyncio.get_running_loop().run_in_executor(
            self._saver, lambda: self._sicknesses.save(self.world.remembered)
        )
