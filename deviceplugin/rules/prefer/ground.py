"""What is worked out once for a resource of a scan, and kept while snapshots share it."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache

from deviceplugin.model.inventory import Closeness, Resource
from deviceplugin.rules.prefer.cards import cards_of
from deviceplugin.rules.prefer.chooser import Chooser
from deviceplugin.rules.prefer.stock import stock_of

KEPT = 32
"""Resources that are kept."""


class Ground:
    """A resource with its cards and shares."""

    def __init__(self, closeness: Closeness, resource: Resource) -> None:
        self.closeness, self.resource = closeness, resource
        gpus = dict.fromkeys((s.gpu, s.gpu_index, s.numa) for s in resource.shares)
        self.chooser = _chooser(closeness, tuple(gpus))
        self.stock = stock_of(resource, self.chooser.cards)


_kept: OrderedDict[tuple[int, int], Ground] = OrderedDict()


@lru_cache(maxsize=KEPT)
def _chooser(closeness: Closeness, gpus: tuple[tuple[str, int, int | None], ...]) -> Chooser:
    """Kept by value, so that a scan that shows nothing new costs nothing new."""
    return Chooser(cards_of(closeness, gpus))


def ground_of(closeness: Closeness, resource: Resource) -> Ground:
    """Kept by identity: a ground holds its closeness and resource, so their ids cannot become another's."""
    key = (id(closeness), id(resource))
    ground = _kept.get(key)
    if ground is None:
        ground = _kept[key] = Ground(closeness, resource)
        if len(_kept) > KEPT:
            _kept.popitem(last=False)
    return ground
