"""Preferred allocation: which of the free devices a container should get.

Answers come from the snapshot alone. What depends on the hardware only is worked out once for a scan and kept while
snapshots share it.
"""

from __future__ import annotations

from collections.abc import Sequence

from deviceplugin.model.inventory import Inventory, Resource
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.prefer.ground import ground_of, keep_only
from deviceplugin.rules.prefer.preference import Preference, preference
from deviceplugin.rules.prefer.request import check
from deviceplugin.rules.prefer.shares import shares
from deviceplugin.rules.prefer.whole import whole

__all__ = ["Preference", "prefer", "prepare"]


def prefer(
    snapshot: Snapshot, resource: Resource, available: Sequence[str], must_include: Sequence[str], size: int
) -> Preference:
    """The devices that a container should get.

    Args:
        snapshot: What is offered, how close the cards are, and their health.
        resource: One of the snapshot's.
        available: Free ids in any order; ids that the resource does not have are skipped, duplicates count once.
        must_include: Ids that must be among the answer; they count as available.
        size: How many devices, must-includes counted.

    Returns:
        Exactly `size` ids, the best by the objective of whole cards or of shares; the order of ids never matters.

    Raises:
        RequestError: INVALID_ARGUMENT for sizes and must-includes that cannot be met, FAILED_PRECONDITION where
            policy `strict` cannot give each share a holder of its own.
    """
    ground = ground_of(snapshot.inventory.closeness, resource)
    request = check(resource, snapshot.health, available, must_include, size)
    chooser, stock = ground.chooser, ground.stock
    verdict = whole(chooser, stock.bits, snapshot.health, request) if stock.whole else shares(chooser, stock, request)
    return preference(chooser.cards, verdict, request.unknown)


def prepare(inventory: Inventory) -> None:
    """Works out beforehand what `prefer` needs, so that the first call is as quick as the others.

    What was worked out for earlier inventories is forgotten, save what this one shares with them.
    """
    grounds = [ground_of(inventory.closeness, resource) for resource in inventory.resources.values()]
    keep_only(grounds)
    for ground in grounds:
        ground.chooser.prepare()
        if ground.stock.mig:
            ground.chooser.unlinked.prepare()
