"""What is seen from outside: samples, whose pod holds what, and the web door that shows both.

All of it starts after the first lists are on their way, and nothing of it runs on the loop for longer than it takes to
hand over a view: rendering happens on a thread, requests are answered by the web door's own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from deviceplugin import __version__
from deviceplugin.config.document import PodLabels
from deviceplugin.daemon.outlets import HEAD_START
from deviceplugin.model.errors import ConfigError, KubeletError

if TYPE_CHECKING:
    from deviceplugin.config.document import Metrics
    from deviceplugin.daemon.answers import Answers
    from deviceplugin.daemon.supervisor import Daemon
    from deviceplugin.rules.attribute import Attribution
    from deviceplugin.web.exhibition import Exhibition
    from deviceplugin.web.server import Server

log = logging.getLogger(__name__)

Result = TypeVar("Result")

LULL = 0.2
"""Seconds in which several changes become one rendering."""
PATIENCE = 3.0
"""Seconds that a question for the status waits at most while the plugin starts."""
SETTLED = 1.0
"""Seconds from an Allocate to the moment at which the kubelet has stored it."""


class Showing:
    """Samples, attributes and renders for ever."""

    def __init__(self, daemon: Daemon, answers: Answers) -> None:
        self._daemon = daemon
        self._answers = answers
        self._started = time.time()
        self._changed = daemon.moved
        self._thread = ThreadPoolExecutor(1, "showing")
        self._exhibition: Exhibition | None = None
        self._opened = asyncio.Event()
        self._server: Server | None = None
        self._settings: Metrics | None = None
        self._attribution: Attribution | None = None
        self._pods_seen: bool | None = None

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.sleep(HEAD_START)
        self._exhibition = await self._on_thread(partial(_open, self._daemon))
        self._opened.set()
        self._daemon.hardware.sampled = self._changed.set
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow(), name="follow")
                group.create_task(self._sample(), name="sample")
                group.create_task(self._attribute(), name="attribute")
                await self._render()
        finally:
            self._close()

    async def status(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The status document, rendered for this moment. Who asks right after the start waits for what shows it."""
        del request
        with suppress(TimeoutError):
            await asyncio.wait_for(self._opened.wait(), PATIENCE)
        if self._exhibition is None:
            return {"error": self._starting()}
        await self._show(self._exhibition)
        return await self._on_thread(self._exhibition.status_document)

    def _starting(self) -> str:
        call, age = max(self._daemon.hardware.ages.items(), key=lambda item: item[1])
        if age < PATIENCE:
            return "the plugin is starting; ask again in a second"
        return (
            f"the plugin is starting, and its call of the driver ({call}) has had no answer for {age:.0f} s; "
            "see whether `nvidia-smi` answers on this node, and the kernel log"
        )

    async def _on_thread(self, call: Callable[[], Result]) -> Result:
        """Always on the same thread: its memory is used again, and two renderings never run at once."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _follow(self) -> None:
        async for _ in self._daemon.board.follow():
            self._changed.set()

    async def _sample(self) -> None:
        while True:
            settings = self._daemon.config.metrics
            await self._daemon.hardware.sample(per_link=settings.per_link)
            await asyncio.sleep(settings.interval)

    async def _attribute(self) -> None:
        """Asks the kubelet whose pods hold what: on an interval, and soon after an Allocate."""
        from deviceplugin.kubelet.podresources import PodResources
        from deviceplugin.rules.attribute import Attribution, attribute

        while True:
            config = self._daemon.config
            path = config.kubelet.pod_resources
            if config.metrics.pods is PodLabels.OFF or not path:
                self._attribution, self._pods_seen = Attribution(), None
            else:
                async with PodResources(Path(path)) as client:
                    try:
                        self._attribution = attribute(self._daemon.world.node, await client.holdings())
                        self._pods_seen = True
                    except KubeletError as error:
                        if self._pods_seen is not False:
                            log.info("whose pods hold what is unknown for now: %s", error)
                        self._attribution, self._pods_seen = Attribution(), False
            self._changed.set()
            await self._until_granted(config.metrics.interval)

    async def _until_granted(self, interval: float) -> None:
        """An interval, or less when an Allocate was granted; the kubelet stores a pod's devices after the answer."""
        granted = self._daemon.granted
        try:
            async with asyncio.timeout(interval):
                await granted.wait()
        except TimeoutError:
            return
        await asyncio.sleep(SETTLED)
        granted.clear()

    async def _render(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(LULL)
            self._changed.clear()
            if self._exhibition is not None:
                await self._show(self._exhibition)
                await self._serve(self._exhibition)

    async def _show(self, exhibition: Exhibition) -> None:
        from deviceplugin.rules.attribute import Attribution
        from deviceplugin.rules.judge import classes
        from deviceplugin.web.view import Finding, Plugin, gather

        daemon, config = self._daemon, self._daemon.config
        troubles = self._answers.not_ready()
        plugin = Plugin(
            version=__version__,
            started=self._started,
            hostname=socket.gethostname(),
            settings=config.metrics,
            kubelet_socket=config.kubelet.socket,
            troubles=daemon.endpoints.troubles(),
            pods_seen=self._pods_seen,
            warnings=daemon.world.loaded.warnings,
            config_refused=daemon.reloading.refused,
            xids=classes(config.health),
            ready=Finding(not troubles, tuple(troubles)),
            tasks=len(asyncio.all_tasks()),
        )
        attribution = self._attribution or Attribution()
        view = gather(daemon.board.current, daemon.hardware.load, daemon.ledger, attribution, plugin)
        await self._on_thread(partial(exhibition.update, view))

    async def _serve(self, exhibition: Exhibition) -> None:
        """Opens the port, and another one when the configuration names another."""
        settings = self._daemon.config.metrics
        if settings == self._settings:
            return
        self._close()
        self._settings = settings
        if not settings.address:
            return
        await self._on_thread(_load_door)
        from deviceplugin.web.server import Server
        from deviceplugin.web.site import Site, across

        loop = asyncio.get_running_loop()
        site = Site(
            exhibition,
            live=across(loop, lambda: self._answers.live({})),
            ready=across(loop, lambda: self._answers.ready({})),
        )
        try:
            self._server = Server(settings, site)
        except ConfigError as error:
            log.error("no metrics and no status page: %s", error)  # noqa: TRY400 - a user's mistake is no traceback
            return
        self._server.start()

    def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()


def _open(daemon: Daemon) -> Exhibition:
    """On a thread: what the web door imports is much, and the first lists do not wait for it."""
    from deviceplugin.web.exhibition import Exhibition

    return Exhibition(lambda: daemon.hardware.ages)


def _load_door() -> None:
    """On a thread, for the same reason."""
    from deviceplugin.web import server, site

    del server, site
