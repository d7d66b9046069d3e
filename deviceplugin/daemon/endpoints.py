"""One endpoint per offered resource: new ones start, vanished ones send an empty list and close, others stay."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from deviceplugin.board import Board
from deviceplugin.kubelet.endpoint import Endpoint, Wiring
from deviceplugin.kubelet.settings import EndpointSettings
from deviceplugin.ledger import Phase
from deviceplugin.model.errors import KubeletError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    endpoint: Endpoint
    task: asyncio.Task[None]


class Endpoints:
    """Reconciles the running endpoints with the resources of the newest snapshot."""

    def __init__(self, board: Board, settings: EndpointSettings, wiring: Wiring) -> None:
        self._board = board
        self._settings = settings
        self._wiring = wiring
        self._running: dict[str, _Running] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the board closes; then all endpoints have sent their last list and their sockets are gone."""
        async with asyncio.TaskGroup() as group:
            async for snapshot in self._board.follow():
                self._reconcile(frozenset(snapshot.inventory.resources), group)
            self._reconcile(frozenset(), group)

    def configure(self, settings: EndpointSettings) -> bool:
        """Takes over other settings; True when they differ, and then every endpoint has to be made anew."""
        if settings == self._settings:
            return False
        self._settings = settings
        for name in list(self._running):
            self._stop(name)
        return True

    def troubles(self) -> dict[str, str]:
        """By resource: why it is not streaming; empty when all of them are."""
        return {
            name: running.endpoint.trouble or f"{running.endpoint.phase}, not yet streaming"
            for name, running in self._running.items()
            if running.endpoint.phase is not Phase.STREAMING
        }

    async def ping(self) -> dict[str, str]:
        """Calls every own socket; by resource, what is wrong with those that do not answer."""
        wrong = {}
        for name, running in list(self._running.items()):
            try:
                await running.endpoint.ping()
            except KubeletError as error:
                wrong[name] = str(error)
        return wrong

    def _reconcile(self, wanted: frozenset[str], group: asyncio.TaskGroup) -> None:
        for name in sorted(self._running.keys() - wanted):
            self._stop(name)
        for name in sorted(wanted - self._running.keys()):
            endpoint = Endpoint(name, self._board, self._settings, self._wiring)
            self._running[name] = _Running(endpoint, group.create_task(endpoint.run(), name=f"endpoint {name}"))

    def _stop(self, name: str) -> None:
        running = self._running.pop(name)
        running.endpoint.stop()
        self._closing.add(running.task)
        running.task.add_done_callback(self._closing.discard)
