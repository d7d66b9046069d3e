"""Allocate as the daemon offers it: a device node that is gone has the cards scanned at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deviceplugin.model.errors import NodeGoneError
from deviceplugin.model.grant import Grant
from deviceplugin.model.inventory import Resource
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.allocate import allocate

Allocate = Callable[[Snapshot, Resource, Sequence[str], Callable[[str], bool], Callable[[], str]], Grant]


def looking_again(rescan: Callable[[], None]) -> Allocate:
    """`rules.allocate` that asks for a scan when it meets a node that is gone; the request is refused all the same."""

    def grant(
        snapshot: Snapshot,
        resource: Resource,
        ids: Sequence[str],
        exists: Callable[[str], bool],
        unique: Callable[[], str],
    ) -> Grant:
        try:
            return allocate(snapshot, resource, ids, exists, unique)
        except NodeGoneError:
            rescan()
            raise

    return grant
