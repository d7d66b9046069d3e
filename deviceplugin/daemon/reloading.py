"""The configuration while the plugin runs: watched, loaded anew on request, and taken in when it is right."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from deviceplugin.daemon import telling
from deviceplugin.daemon.choice import Choice
from deviceplugin.daemon.outlets import HEAD_START
from deviceplugin.daemon.replacing import Ending
from deviceplugin.kubelet.settings import EndpointSettings
from deviceplugin.model.errors import ConfigError, NvmlError

if TYPE_CHECKING:
    from deviceplugin.daemon.supervisor import Daemon

log = logging.getLogger("deviceplugin.daemon")


class Reloading:
    """Takes in configurations. One that is refused changes nothing but a counter, a log line and `refused`.

    Args:
        daemon: Whose configuration it is.
        choice: Loads the configuration anew; ConfigError leaves the present one in force.
    """

    def __init__(self, daemon: Daemon, choice: Choice) -> None:
        self._daemon = daemon
        self._choice = choice
        self._now = asyncio.Event()
        self.refused = ""
        """Why the newest configuration was not taken in; empty when it was."""

    def choose(self, name: str) -> None:
        """Takes the configuration of that name from now on; of none: what flags and fallbacks say."""
        if name != self._choice.wanted:
            log.info("the node label chooses the configuration %r", name)
            self._choice.wanted = name
            self.request()

    def request(self) -> None:
        """Asks for the configuration to be loaded anew; several requests become one."""
        self._now.set()

    async def run(self) -> None:
        """Loads on request; and once more what is newly watched, since before that a change was seen by nobody."""
        ends: dict[Path, Callable[[], None]] = {}
        try:
            while True:
                wanted = self._watched()
                for path in ends.keys() - wanted:
                    ends.pop(path)()
                fresh = wanted - ends.keys()
                ends |= {path: self._daemon.watcher.watch(path, self.request) for path in fresh}
                # The first lists do not wait for it.
                await self._wanted(HEAD_START if fresh else None)
                await self._load_anew()
                if self._daemon.replacement.due:
                    await self._make_way()
        finally:
            for end in ends.values():
                end()

    async def _wanted(self, longest: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._now.wait()
        self._now.clear()

    def _watched(self) -> set[Path]:
        """The configuration file, and the folder it is chosen from: a ConfigMap's file changes through a link."""
        loaded = self._daemon.world.loaded
        chosen = loaded.stamp.source if loaded.process.config_dir else ""
        return {Path(path) for path in (loaded.process.config_file, loaded.process.config_dir, chosen) if path}

    async def _load_anew(self) -> None:
        try:
            loaded = await asyncio.to_thread(self._choice.load)
            if loaded == self._daemon.world.loaded:
                await asyncio.to_thread(self._choice.took, self._daemon.config.daemon.state_dir)
                return
            self._daemon.world.compiled(loaded)
            flaws = await self._daemon.hardware.provisions.provide(self._daemon.world.node, lambda: loaded.config)
            news = self._daemon.world.configured(loaded, time.time(), flaws)
        except ConfigError as error:
            self.refused = "\n".join(error.problems)
            self._daemon.ledger.count("config_reload", "refused")
            for problem in error.problems:
                log.error(  # noqa: TRY400 - a user's mistake is no traceback
                    "configuration refused, the present one stays in force: %s", problem
                )
            return
        self.refused = ""
        self._daemon.ledger.count("config_reload", "success")
        self._daemon.ledger.stamp("config")
        telling.configuration(loaded)
        self._daemon.take_in(news)
        await asyncio.to_thread(self._choice.took, self._daemon.config.daemon.state_dir)
        self._daemon.endpoints.configure(EndpointSettings.of(loaded.config.kubelet))
        self._daemon.rehearsals.look()
        await self._follow_release()
        self._daemon.hardware.rescan()

    async def _make_way(self) -> None:
        """Ends this process for a fresh one, unless the configuration would end that: then when it is mended."""
        try:
            await asyncio.to_thread(self._choice.check_start)
        except ConfigError as error:
            log.error(  # noqa: TRY400 - a user's mistake is no traceback
                "a fresh process must load the new driver, and waits for the configuration to be mended: %s",
                "; ".join(error.problems),
            )
            return
        self._daemon.stop(Ending.REPLACE)

    async def _follow_release(self) -> None:
        """A cordon with `release: true` lets go of the driver, and its end takes it up again."""
        wanted = bool(self._daemon.world.released_for)
        try:
            if wanted and not self._daemon.hardware.released:
                log.info("%s", await self._daemon.hardware.release(self._daemon.config.daemon.release_timeout))
            elif not wanted and self._daemon.hardware.released:
                log.info("%s", await self._daemon.hardware.take_up())
        except NvmlError as error:
            log.warning("the driver cannot be released: %s", error)
