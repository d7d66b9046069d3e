"""Devices that vanish stay listed for a grace time: Unhealthy first, so that nobody's pod hangs on an unknown id."""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType

from msgspec.structs import replace

from deviceplugin.model.inventory import Inventory
from deviceplugin.model.node import Node


def devices(node: Node) -> frozenset[str]:
    """UUIDs of all hardware of a scan: GPUs and MIG instances."""
    return frozenset(uuid for gpu in node.gpus for uuid in (gpu.uuid, *(instance.uuid for instance in gpu.instances)))


def retain(previous: Inventory, current: Inventory, gone: Collection[str]) -> Inventory:
    """`current`, with the shares of `previous` whose device is in `gone` appended to their resources."""
    if not gone:
        return current
    resources = dict(current.resources)
    for name, old in previous.resources.items():
        kept = resources.get(name)
        listed = kept.by_id if kept else {}
        missing = tuple(s for s in old.shares if s.device in gone and s.id not in listed)
        if missing:
            resources[name] = replace(kept or old, shares=(kept.shares if kept else ()) + missing)
    return replace(current, resources=MappingProxyType(resources))
