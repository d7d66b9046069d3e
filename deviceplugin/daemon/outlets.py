"""What the plugin tells others besides the kubelet: node labels, and the optional door to the cluster.

None of it is needed to serve. It begins when the first list is out, and its modules are loaded then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from deviceplugin.model.health import Transition

if TYPE_CHECKING:
    from deviceplugin.daemon.clusterdoor import ClusterDoor
    from deviceplugin.daemon.supervisor import Daemon

HEAD_START = 0.2
"""Seconds that registration has for itself."""


class Outlets:
    """Runs the outlets that the configuration asks for, and follows it when it changes."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._early: list[Transition] = []
        self._door: ClusterDoor | None = None

    def turned(self, transition: Transition) -> None:
        """Takes in a change of health; what stood at the start waits for the door to open."""
        if self._door is not None:
            self._door.turned(transition)
        elif self._daemon.config.cluster.events:
            self._early.append(transition)

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.sleep(HEAD_START)
        from deviceplugin.daemon.clusterdoor import ClusterDoor
        from deviceplugin.daemon.labelling import FileLabels

        daemon = self._daemon
        labels = FileLabels(daemon.board, lambda: daemon.config, daemon.world.host_root, daemon.ledger)
        self._door = ClusterDoor(daemon)
        for transition in self._early:
            self._door.turned(transition)
        self._early.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(labels.run(), name="labels")
            group.create_task(self._door.run(), name="cluster")
