"""Taking devices out of an inventory after the fact, with their reasons."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from msgspec.structs import replace

from deviceplugin.model.inventory import Inventory, LeftOut, NodeState, Resource


def withhold(inventory: Inventory, flaws: Iterable[LeftOut]) -> Inventory:
    """The inventory without the devices that `flaws` name; a flaw of a card says nothing of its MIG instances.

    Flaws of devices that are not offered anyway are dropped. A resource that loses its last share is no longer there.
    """
    offered = {share.device for resource in inventory.resources.values() for share in resource.shares}
    relevant = tuple(flaw for flaw in flaws if flaw.device in offered)
    if not relevant:
        return inventory
    out = {flaw.device for flaw in relevant}
    thinner = (_without(resource, out) for resource in inventory.resources.values())
    resources = {resource.name: resource for resource in thinner if resource.shares}
    return replace(
        inventory,
        resources=MappingProxyType(resources),
        left_out=(*inventory.left_out, *relevant),
        state=NodeState.SERVING if resources else NodeState.NOTHING,
    )


def _without(resource: Resource, out: set[str]) -> Resource:
    kept = tuple(share for share in resource.shares if share.device not in out)
    return resource if len(kept) == len(resource.shares) else replace(resource, shares=kept)
