"""What the plugin tells others besides the kubelet: node labels, and the optional door to the cluster.

None of it is needed to serve. It begins when the first list is out, and its modules are loaded then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from deviceplugin.board import Board
from deviceplugin.config.document import Config
from deviceplugin.ledger import Ledger

HEAD_START = 0.2
"""Seconds that registration has for itself."""


class Outlets:
    """Runs the outlets that the configuration asks for.

    Args:
        board: The snapshots.
        config: The configuration in force.
        host_root: Where the host's /sys is seen.
        ledger: Counts what is published and what fails.
    """

    def __init__(self, board: Board, config: Callable[[], Config], host_root: str, ledger: Ledger) -> None:
        self._board = board
        self._config = config
        self._host_root = host_root
        self._ledger = ledger

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.sleep(HEAD_START)
        from deviceplugin.daemon.labelling import FileLabels

        await FileLabels(self._board, self._config, self._host_root, self._ledger).run()
