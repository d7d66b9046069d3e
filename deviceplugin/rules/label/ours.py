"""What of a node is ours to describe: the selected cards by model, the offered devices and how they are shared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Self

from msgspec import Struct

from deviceplugin.config.document import Config, MigStrategy
from deviceplugin.config.names import qualify
from deviceplugin.model.inventory import NodeState, Resource, Sharing
from deviceplugin.model.node import Gpu, MigInstance
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.label.spell import common, leading, spell
from deviceplugin.rules.offer.claim import block_of

_LEFT_TO_OTHERS = frozenset({"excluded", "not-included", "pattern"})
"""Reasons by which the configuration leaves a card to others, so that labels do not count it."""

_INVALID = frozenset({NodeState.MIG_UNEQUAL, NodeState.MIG_PARTIAL, NodeState.MIG_EMPTY})


class Usage(Struct, frozen=True):
    """How a group of like devices is shared."""

    replicas: int = 0
    """Shares of one device; 0 where none is offered. Where that differs, what most have, the greatest of equals."""
    sharing: Sharing = Sharing.NONE
    renamed: bool = False

    @property
    def suffix(self) -> str:
        """What a shared device's product ends with, unless its resource has a name of its own."""
        return "" if self.sharing is Sharing.NONE or self.renamed else "SHARED"


class Offered(Struct, frozen=True):
    """A device as it is offered."""

    resource: str
    shares: int
    sharing: Sharing


class Ours(Struct, frozen=True):
    """The selected cards of a snapshot and what is offered of them."""

    snapshot: Snapshot
    config: Config
    gpus: tuple[Gpu, ...]
    model: str
    """The model that `gpu.*` describes; empty where no card tells its name."""
    offered: Mapping[str, Offered]
    """By UUID of the device."""

    @classmethod
    def of(cls, snapshot: Snapshot, config: Config) -> Self:
        """Sorts out a snapshot."""
        theirs = {out.device for out in snapshot.inventory.left_out if out.reason in _LEFT_TO_OTHERS}
        gpus = tuple(gpu for gpu in snapshot.node.gpus if gpu.uuid not in theirs)
        offered = {
            uuid: one for resource in snapshot.inventory.resources.values() for uuid, one in _offered(resource).items()
        }
        return cls(snapshot, config, gpus, leading(spell(gpu.name) for gpu in gpus), offered)

    @property
    def strategy(self) -> MigStrategy:
        """flags.migStrategy."""
        return self.config.flags.mig_strategy

    @property
    def described(self) -> tuple[Gpu, ...]:
        """The cards of the model that `gpu.*` describes."""
        return tuple(gpu for gpu in self.gpus if spell(gpu.name) == self.model)

    @property
    def instances(self) -> tuple[MigInstance, ...]:
        """The MIG instances that are offered."""
        return tuple(one for gpu in self.gpus for one in gpu.instances if one.uuid in self.offered)

    @property
    def invalid(self) -> bool:
        """Whether the strategy `single` cannot be followed on this node."""
        return self.strategy is MigStrategy.SINGLE and self.snapshot.inventory.state in _INVALID

    @property
    def by_instance(self) -> bool:
        """Whether the strategy `single` makes the instances what `gpu.*` describes."""
        return self.strategy is MigStrategy.SINGLE and not self.invalid and bool(self.instances)

    def usage(self, uuids: Iterable[str]) -> Usage:
        """How these devices are shared."""
        here = [self.offered[uuid] for uuid in uuids if uuid in self.offered]
        replicas = common(one.shares for one in here)
        if replicas is None:
            return Usage()
        shared = [one for one in here if one.shares == replicas and one.sharing is not Sharing.NONE]
        if not shared:
            return Usage(replicas)
        renamed = not self._keeps_name(leading(one.resource for one in shared))
        return Usage(replicas, shared[0].sharing, renamed=renamed)

    def healthy(self, devices: Iterable[tuple[str, str]]) -> int:
        """How many of these devices (UUID of the device, UUID of its card) have no sickness."""
        return sum(not self.snapshot.health.reasons(device, gpu) for device, gpu in devices)

    def _keeps_name(self, resource: str) -> bool:
        block = block_of(self.config.sharing)
        entries = () if block is None else block.replicated.resources
        return block is not None and any(block.target(e) == resource == qualify(e.name) for e in entries)


def _offered(resource: Resource) -> dict[str, Offered]:
    counts = Counter(share.device for share in resource.shares)
    parted = {share.device for share in resource.shares if share.replica is not None}
    return {
        uuid: Offered(resource.name, count, resource.sharing if uuid in parted else Sharing.NONE)
        for uuid, count in counts.items()
    }
