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
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Until the board closes; then all endpoints have sent their last list and their sockets are gone."""
        async with asyncio.TaskGroup() as self._group:
            async for snapshot in self._board.follow():
                self._reconcile(frozenset(snapshot.inventory.resources), self._group)
            self._reconcile(frozenset(), self._group)

    def configure(self, settings: EndpointSettings) -> bool:
        """Takes over other settings; True when they differ, and then every endpoint is made anew."""
        if settings == self._settings:
            return False
        self._settings = settings
        if self._group is not None:
            wanted = frozenset(self._running)
            self._reconcile(frozenset(), self._group)
            self._reconcile(wanted, self._group)
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
            running = self._running.pop(name)
            running.endpoint.stop()
            self._closing[name] = running.task
        for name in sorted(wanted - self._running.keys()):
            endpoint = Endpoint(name, self._board, self._settings, self._wiring)
            life = _live(endpoint, self._closing.pop(name, None))
            self._running[name] = _Running(endpoint, group.create_task(life, name=f"endpoint {name}"))


async def _live(endpoint: Endpoint, earlier: asyncio.Task[None] | None) -> None:
    """Runs an endpoint when an earlier one of the same resource is gone: its stream's end would cut this one off."""
    if earlier is not None:
        await asyncio.wait([earlier])
    await endpoint.run()
