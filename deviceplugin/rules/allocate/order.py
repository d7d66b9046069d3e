"""What one container was granted, before it is put into any form."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from deviceplugin.model.inventory import Handover, Resource, Share


class Order(Struct, frozen=True):
    """One container's devices, and how they are to reach it."""

    resource: Resource
    shares: tuple[Share, ...]
    """One share for each device, by (GPU index, MIG slot)."""
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
            return tuple(share.visible_index for share in self.shares)
        return tuple(share.device for share in self.shares)


def place(share: Share) -> tuple[int, int]:
    """GPU index and MIG slot, the order of devices in every answer."""
    return share.gpu_index, int(share.visible_index.rpartition(":")[2])


def one_per_device(shares: Iterable[Share]) -> tuple[Share, ...]:
    """The lowest share of each device, in the order of devices."""
    ordered = sorted(shares, key=lambda share: (place(share), share.replica or 0), reverse=True)
    return tuple(reversed({share.device: share for share in ordered}.values()))
