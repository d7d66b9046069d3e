"""One resource's life with the kubelet: a socket that is served, registered and watched until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

from msgspec import Struct, field

from deviceplugin.board import Board
from deviceplugin.config.document import Registration
from deviceplugin.kubelet import sockets
from deviceplugin.kubelet.announce import Announcement
from deviceplugin.kubelet.decisions import Rules
from deviceplugin.kubelet.observe import Observer
from deviceplugin.kubelet.registrar import Registrar
from deviceplugin.kubelet.server import Server, transport
from deviceplugin.kubelet.service import Service
from deviceplugin.kubelet.settings import EndpointSettings
from deviceplugin.kubelet.watchdog import Identity, Step, View, decide, phase
from deviceplugin.ledger import Phase
from deviceplugin.model.errors import KubeletError

log = logging.getLogger(__name__)

Watch = Callable[[Path, Callable[[], None]], Callable[[], None]]
"""Has a callable called on the event loop when the file at a path appears, vanishes or is another; returns the end."""


def unwatched(_path: Path, _changed: Callable[[], None]) -> Callable[[], None]:
    """A `Watch` that sees nothing: changes are noticed at the next periodic check."""
    return lambda: None


class Wiring(Struct, frozen=True):
    """What the daemon plugs into every endpoint."""

    rules: Rules
    observer: Observer = field(default_factory=Observer)
    watch: Watch = unwatched


class Endpoint:
    """Serves one resource. `run` until `stop`; everything is answered from the board's newest snapshot."""

    def __init__(self, resource_name: str, board: Board, settings: EndpointSettings, wiring: Wiring) -> None:
        self.resource_name = resource_name
        self.phase = Phase.STARTING
        """How far it has come; ready is STREAMING."""
        self._settings = settings
        self._wiring = wiring
        self._service = Service(resource_name, board, wiring.rules, wiring.observer)
        self._service.on_watched = self._watched
        self._registrar = Registrar(resource_name, settings, wiring.observer)
        self._wake = asyncio.Event()
        self._stopping = False
        self._server: Server | None = None
        self._unwatch: Callable[[], None] = lambda: None
        self._check_at = 0.0

    @property
    def socket_path(self) -> Path | None:
        """The endpoint's own socket while it is served."""
        return self._server.path if self._server else None

    @property
    def trouble(self) -> str:
        """What was last complained about, for the status page; empty when all is well."""
        return self._registrar.trouble

    def stop(self) -> None:
        """Ends the endpoint: streams send their last list and end, then the socket goes. `run` returns then."""
        self._stopping = True
        self._wake.set()

    async def ping(self) -> None:
        """Calls the own socket as the kubelet would: the liveness of this endpoint.

        Where the kubelet's folder is not there, or not to be written in, nothing can be served, and no new process of
        ours would change that.

        Raises:
            KubeletError: It is not served, or does not answer in time.
        """
        if self._server is None:
            if not os.access(self._settings.folder, os.W_OK | os.X_OK):
                return
            raise KubeletError(f"{self.resource_name}: not served: {self.trouble or 'starting'}")
        await self._server.ping(self._settings.check_timeout)

    async def run(self) -> None:
        """Serves, registers and watches until `stop` is called or the board closes."""
        watched = [self._settings.folder]
        if self._settings.kubelet_path is not None:
            watched.append(self._settings.kubelet_path)
        ends = [self._wiring.watch(path, self._wake.set) for path in watched]
        with transport():
            try:
                await self._run()
            finally:
                for end in ends:
                    end()
                await self._close_server()
                self._enter(Phase.CLOSED)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            aside = [group.create_task(self._follow()), group.create_task(self._sweep())]
            await self._live()
            for task in aside:
                task.cancel()

    async def _live(self) -> None:
        while True:
            self._wake.clear()
            view = self._view()
            decision = decide(view)
            if decision.step is Step.STOP:
                return
            self._enter(phase(view))
            if decision.step is Step.WAIT or (decision.at or 0.0) > time.monotonic():
                await self._wait(decision.at)
            elif decision.step is Step.SERVE:
                await self._serve(decision.why)
            elif view.kubelet is not None:
                await self._register(view.kubelet, decision.why)

    def _view(self) -> View:
        calls_kubelet = self._settings.kubelet_path is not None
        self._registrar.look_around(self.socket_path)
        return View(
            calls_kubelet=calls_kubelet,
            needs_stream=calls_kubelet or self._settings.registration is Registration.WATCHER,
            stopping=self._stopping,
            serving=self._server is not None and self._server.intact(),
            kubelet=self._registrar.look(),
            registered_with=self._registrar.registered_with,
            registered_at=self._registrar.registered_at,
            watched=self._service.watched,
            streamed=self._service.opened,
            left_alone_at=self._registrar.left_alone_at,
            not_before=self._registrar.not_before,
            stream_deadline=self._settings.stream_deadline,
            cut_grace=self._settings.cut_grace,
        )

    async def _wait(self, until: float | None) -> None:
        """Until something happens, or that moment, or the own socket is due for a check."""
        due = self._check_at if until is None else min(until, self._check_at)
        if self._registrar.contested:
            due = min(due, time.monotonic() + self._settings.rival_interval)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, due - time.monotonic())):
                await self._wake.wait()
        if time.monotonic() >= self._check_at:
            self._check_at = time.monotonic() + self._settings.check_interval
            self._registrar.remind()
            # Twice, since a process that was held up fails the first call when it goes on.
            if self._server is not None and not await self._answers() and not await self._answers():
                await self._close_server()

    async def _serve(self, why: str) -> None:
        """Makes a server on a fresh socket in place of the one there was."""
        if self._server is not None:
            log.info("%s: %s; serving on a new one", self.resource_name, why)
        await self._close_server()
        handlers = [self._service.handler()]
        if self._settings.registration is Registration.WATCHER:
            handlers.append(Announcement(self.resource_name, self._told).handler())
        self._check_at = time.monotonic() + self._settings.check_interval
        try:
            self._server = await Server.start(self._settings.folder, self.resource_name, handlers)
        except KubeletError as error:
            self._registrar.failed(error)
            return
        self._unwatch = self._wiring.watch(self._server.path, self._wake.set)
        if not await self._answers():
            await self._close_server()

    async def _answers(self) -> bool:
        try:
            await self.ping()
        except KubeletError as error:
            self._registrar.failed(error)
            return False
        return True

    async def _register(self, kubelet: Identity, why: str) -> None:
        log.debug("%s: registering: %s", self.resource_name, why)
        self._registrar.about_to_register(kubelet, streamed=self._service.opened)
        self._registrar.forget()
        had_streams = self._service.streams > 0
        # The end of an old stream makes the kubelet cut its newest one off, so the old one goes first.
        if not await self._service.end_streams(self._settings.close_timeout):
            await self._close_server()
            return
        if had_streams:
            await asyncio.sleep(self._settings.settle)
        if self._server is not None:
            await self._unless_overtaken(self._registrar.register(self._server.name, kubelet), kubelet)

    async def _unless_overtaken(self, registering: Coroutine[None, None, None], kubelet: Identity) -> None:
        """Awaits the call, or drops it when the kubelet's or the own socket changed or the end came meanwhile."""
        call = asyncio.create_task(registering)
        call.add_done_callback(lambda _: self._wake.set())
        try:
            while not call.done() and not self._overtaken(kubelet):
                self._wake.clear()
                await self._wake.wait()
        finally:
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call

    def _overtaken(self, kubelet: Identity) -> bool:
        lost = self._server is None or not self._server.intact()
        return self._stopping or lost or self._registrar.look() != kubelet

    async def _close_server(self) -> None:
        server, self._server = self._server, None
        self._registrar.forget()
        self._unwatch()
        self._unwatch = lambda: None
        if server is not None:
            server.withdraw()
            await self._service.end_streams(self._settings.close_timeout)
            await server.close(self._settings.close_timeout)

    async def _follow(self) -> None:
        await self._service.follow()
        self.stop()

    async def _sweep(self) -> None:
        for path in await sockets.sweep(self._settings.folder, self._settings.sweep_grace):
            log.info("%s: removed the socket of a dead plugin: %s", self.resource_name, path)

    def _told(self, error: str | None) -> None:
        """The plugin watcher's word on our socket."""
        if self._server is not None:
            self._registrar.told(self._server.name, error)
            self._wake.set()

    def _watched(self) -> None:
        if self._service.watched:
            self._registrar.stream_opened()
        elif self._service.opened:
            self._registrar.stream_lost()
        self._wake.set()

    def _enter(self, phase_now: Phase) -> None:
        if phase_now is not self.phase:
            self.phase = phase_now
            self._wiring.observer.phase_changed(self.resource_name, phase_now)
