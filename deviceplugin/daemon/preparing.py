"""Preferred allocation, loaded and made ready behind the first lists: no pod can ask before the kubelet has those."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deviceplugin.board import Board
from deviceplugin.daemon.outlets import HEAD_START
from deviceplugin.model.inventory import Inventory, Resource
from deviceplugin.model.snapshot import Snapshot

if TYPE_CHECKING:
    from deviceplugin.rules.prefer.preference import Preference


def prefer(
    snapshot: Snapshot, resource: Resource, available: Sequence[str], must_include: Sequence[str], size: int
) -> Preference:
    """`rules.prefer.prefer`, whose modules are loaded with the first call or before it."""
    from deviceplugin.rules.prefer import prefer as rule

    return rule.prefer(snapshot, resource, available, must_include, size)


async def prepare(board: Board) -> None:
    """Works out, off the loop and until cancelled, what preferred allocation needs of each new inventory."""
    await asyncio.sleep(HEAD_START)
    ready: Inventory | None = None
    async for snapshot in board.follow():
        if snapshot.inventory is not ready:
            ready = snapshot.inventory
            await asyncio.to_thread(_prepare, ready)


def _prepare(inventory: Inventory) -> None:
    from deviceplugin.rules.prefer import prefer as rule

    rule.prepare(inventory)
