"""Preferred allocation: which of the free devices a container should get.

Answers come from the snapshot alone. What depends on the hardware only is worked out once for a scan and kept while
snapshots share it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache

from deviceplugin.model.inventory import Closeness, Resource
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.prefer.cards import cards_of
from deviceplugin.rules.prefer.chooser import Chooser
from deviceplugin.rules.prefer.preference import Preference, preference
from deviceplugin.rules.prefer.request import check
from deviceplugin.rules.prefer.shares import check_strict, shares
from deviceplugin.rules.prefer.stock import stock_of
from deviceplugin.rules.prefer.whole import whole

__all__ = ["Preference", "check_strict", "prefer"]

KEPT = 32
"""Resources whose preparations are kept."""


class _Ground:
    """What is worked out once for a resource of a scan."""

    def __init__(self, closeness: Closeness, resource: Resource) -> None:
        self.closeness, self.resource = closeness, resource
        gpus = dict.fromkeys((s.gpu, s.gpu_index, s.numa) for s in resource.shares)
        self.chooser = _chooser(closeness, tuple(gpus))
        self.stock = stock_of(resource, self.chooser.cards)


_kept: OrderedDict[tuple[int, int], _Ground] = OrderedDict()


@lru_cache(maxsize=KEPT)
def _chooser(closeness: Closeness, gpus: tuple[tuple[str, int, int | None], ...]) -> Chooser:
    """Kept by value, so that a scan that shows nothing new costs nothing new."""
    return Chooser(cards_of(closeness, gpus))


def _ground(closeness: Closeness, resource: Resource) -> _Ground:
    """Kept by identity: a ground holds its closeness and resource, so their ids cannot be another's."""
    key = (id(closeness), id(resource))
    ground = _kept.get(key)
    if ground is None:
        ground = _kept[key] = _Ground(closeness, resource)
        if len(_kept) > KEPT:
            _kept.popitem(last=False)
    return ground


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
    ground = _ground(snapshot.inventory.closeness, resource)
    request = check(resource, snapshot.health, available, must_include, size)
    chooser, stock = ground.chooser, ground.stock
    verdict = whole(chooser, stock.bits, snapshot.health, request) if stock.whole else shares(chooser, stock, request)
    return preference(chooser.cards, verdict, request.unknown)
