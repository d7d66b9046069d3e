"""What must be there before a device is offered: the CDI specification that names it to the container runtime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from deviceplugin.config.document import Config
from deviceplugin.model.inventory import LeftOut
from deviceplugin.model.node import DriverState, Node
from deviceplugin.rules.offer.reach import names_by_cdi

if TYPE_CHECKING:
    from deviceplugin.files.cdi import CdiFolder, Upkeep

log = logging.getLogger(__name__)


class Provisions:
    """Keeps the specifications in step with node and configuration; without a CDI strategy it loads and does nothing.

    Args:
        host_root: Where the host's files are seen.
    """

    def __init__(self, host_root: str) -> None:
        self._host_root = host_root
        self._turn = asyncio.Lock()
        self._folder: CdiFolder | None = None
        self._flaws: tuple[LeftOut, ...] = ()
        self._warned: frozenset[str] = frozenset()

    async def provide(self, node: Node, config: Callable[[], Config]) -> tuple[LeftOut, ...]:
        """Writes or checks the specifications off the loop.

        Args:
            node: The scan.
            config: Asked when it is this call's turn, so that the newest configuration has the last word.

        Returns:
            Devices that CDI cannot hand over, for `rules.offer.withhold`. A scan that could not be made changes
            nothing.
        """
        async with self._turn:
            wanted = config()
            if not names_by_cdi(wanted):
                self._flaws, self._warned = (), frozenset()
            elif node.state is DriverState.READY:
                self._take(await asyncio.to_thread(self._keep, node, wanted))
            return self._flaws

    def _keep(self, node: Node, config: Config) -> Upkeep:
        from deviceplugin.files.cdi import CdiFolder

        self._folder = self._folder or CdiFolder()
        return self._folder.keep(node, config, self._host_root)

    def _take(self, upkeep: Upkeep) -> None:
        for path in upkeep.written:
            log.info("CDI specification written", extra={"path": path})
        for warning in upkeep.warnings:
            if warning not in self._warned:
                log.warning("CDI: %s", warning)
        self._flaws, self._warned = upkeep.left_out, frozenset(upkeep.warnings)
