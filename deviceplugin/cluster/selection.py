"""Which configuration this node is to use, by its label."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from deviceplugin.cluster.api import Api, NodeView
from deviceplugin.cluster.pauses import Pauses
from deviceplugin.config.names import CONFIG_LABEL
from deviceplugin.ledger import Ledger
from deviceplugin.model.errors import ClusterError

ONCE = 5.0
"""Seconds that a single reading may take: a start waits for it."""


async def read(node: str) -> str:
    """The label's value now, empty where there is none; for who needs it before there is a configuration.

    Raises:
        ClusterError: The node cannot be read.
    """
    api = await asyncio.to_thread(Api, node, Ledger(), ONCE)
    async with api:
        return (await api.read_node()).labels.get(CONFIG_LABEL, "")


class LabelWatch:
    """Watches the label in process.

    Args:
        api: The door.
        chosen: Told the label's value whenever it is another; empty where there is none.
        pauses: Between attempts.
    """

    def __init__(self, api: Api, chosen: Callable[[str], None], pauses: Pauses) -> None:
        self._api = api
        self._chosen = chosen
        self._pauses = pauses
        self._value: str | None = None

    async def run(self) -> None:
        """Until cancelled: reads the node, watches it from there, and begins again when the watch ends or breaks."""
        while True:
            try:
                await self._follow()
            except ClusterError as error:
                await asyncio.sleep(self._pauses.failed(error))

    async def _follow(self) -> None:
        first = await self._api.read_node()
        self._tell(first)
        async for view in self._api.watch_node(first.version):
            self._tell(view)
            self._pauses.worked()

    def _tell(self, view: NodeView) -> None:
        value = view.labels.get(CONFIG_LABEL, "")
        if value != self._value:
            self._value = value
            self._chosen(value)
