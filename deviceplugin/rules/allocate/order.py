"""What one container was granted, before it is put into any form."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from deviceplugin.model.inventory import Handover, Resource, Share


class Order(Struct, frozen=True):
    """One container's devices, and how they are to reach it."""

    resource: Resource
    shares: tuple[Share, ...]
    """One share for each device, in the resource's order: (GPU index, MIG slot)."""
    handover: Handover
    channels: tuple[int, ...]
    """IMEX channels that are there."""
    dev_root: str
    """The host's dev root as this process sees it."""
    exists: Callable[[str], bool]
    unique: Callable[[], str]

    @property
    def ids(self) -> tuple[str, ...]:
        """Devices as the container runtime is to know them: UUIDs, or indices under the index strategy."""
        if self.handover.by_index:
            return tuple([share.visible_index for share in self.shares])
        return tuple([share.device for share in self.shares])
