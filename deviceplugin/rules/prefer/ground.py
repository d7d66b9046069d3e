"""What is worked out once for a resource of a scan, and kept while snapshots share it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from deviceplugin.model.inventory import Closeness, Resource
from deviceplugin.rules.prefer.cards import cards_of
from deviceplugin.rules.prefer.chooser import Chooser
from deviceplugin.rules.prefer.stock import stock_of

KEPT = 32
"""Resources that are kept."""

Gpus = tuple[tuple[str, int, int | None], ...]
"""UUID, index and NUMA node of each."""


class Ground:
    """A resource with its cards and shares."""

    def __init__(self, closeness: Closeness, resource: Resource) -> None:
        self.closeness, self.resource = closeness, resource
        gpus = dict.fromkeys((s.gpu, s.gpu_index, s.numa) for s in resource.shares)
        self.chooser = _chooser(closeness, tuple(gpus))
        self.stock = stock_of(resource, self.chooser.cards)


_grounds: OrderedDict[Hashable, Ground] = OrderedDict()
_choosers: OrderedDict[Hashable, Chooser] = OrderedDict()


def _chooser(closeness: Closeness, gpus: Gpus) -> Chooser:
    """Kept by value, so that a scan that shows nothing new costs nothing new."""
    key = (closeness, gpus)
    chooser = _choosers.get(key)
    if chooser is None:
        chooser = _choosers[key] = Chooser(cards_of(closeness, gpus))
        if len(_choosers) > KEPT:
            _choosers.popitem(last=False)
    return chooser


def ground_of(closeness: Closeness, resource: Resource) -> Ground:
    """Kept by identity: a ground holds its closeness and resource, so their ids cannot become another's."""
    key = (id(closeness), id(resource))
    ground = _grounds.get(key)
    if ground is None:
        ground = _grounds[key] = Ground(closeness, resource)
        if len(_grounds) > KEPT:
            _grounds.popitem(last=False)
    return ground


def keep_only(grounds: Sequence[Ground]) -> None:
    """Forgets what belongs to earlier scans: tables of 16 GPUs take megabytes."""
    choosers = [ground.chooser for ground in grounds]
    for key in [key for key, ground in list(_grounds.items()) if ground not in grounds]:
        _grounds.pop(key, None)
    for key in [key for key, chooser in list(_choosers.items()) if chooser not in choosers]:
        _choosers.pop(key, None)
