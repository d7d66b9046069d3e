"""Whose a device is: what the kubelet says of pods, joined with the hardware that the scan showed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct, field

from deviceplugin.model.node import Node
from deviceplugin.rules.identify import split_id


class Claim(Protocol):
    """The devices of one resource that one container has, as the pod resources API lists them."""

    @property
    def namespace(self) -> str:
        """Of the pod."""

    @property
    def pod(self) -> str:
        """Its name."""

    @property
    def container(self) -> str:
        """Its container's name."""

    @property
    def resource(self) -> str:
        """Resource name."""

    @property
    def device_ids(self) -> Sequence[str]:
        """Ids as the plugin listed them."""


class Holder(Struct, frozen=True):
    """A pod that holds a device. Several containers or resources of one pod are one holder, joined by commas."""

    namespace: str
    pod: str
    container: str
    resource: str
    shares: int = 1
    """How many ids of the device the pod has."""


class Attribution(Struct, frozen=True):
    """Holders by hardware UUID; a UUID that nobody holds is in neither mapping."""

    cards: Mapping[str, tuple[Holder, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By card: who holds it, a share of it, or a MIG instance of it."""
    instances: Mapping[str, tuple[Holder, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By MIG instance."""
    ids: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """Device ids that are held, by resource."""


def attribute(node: Node, claims: Iterable[Claim]) -> Attribution:
    """Joins by device id: `::n` is stripped, a MIG instance counts for its card too.

    The join is with the hardware and not with what is offered, so that a pod keeps its series when a new configuration
    renames its resource or takes its replica away. Ids of no hardware here (other plugins' devices) are left out.
    """
    parents = {gpu.uuid: gpu.uuid for gpu in node.gpus}
    parents |= {instance.uuid: gpu.uuid for gpu in node.gpus for instance in gpu.instances}
    held: dict[str, list[tuple[Claim, str]]] = {}
    ids: dict[str, set[str]] = {}
    for claim in claims:
        for identifier in claim.device_ids:
            device = split_id(identifier)[0]
            if device not in parents:
                continue
            ids.setdefault(claim.resource, set()).add(identifier)
            for uuid in {device, parents[device]}:
                held.setdefault(uuid, []).append((claim, identifier))
    holders = {uuid: _holders(claims_here) for uuid, claims_here in held.items()}
    return Attribution(
        cards=MappingProxyType({uuid: who for uuid, who in holders.items() if parents[uuid] == uuid}),
        instances=MappingProxyType({uuid: who for uuid, who in holders.items() if parents[uuid] != uuid}),
        ids=MappingProxyType({resource: frozenset(known) for resource, known in ids.items()}),
    )


def _holders(claims: Iterable[tuple[Claim, str]]) -> tuple[Holder, ...]:
    pods: dict[tuple[str, str], list[tuple[Claim, str]]] = {}
    for claim, identifier in claims:
        pods.setdefault((claim.namespace, claim.pod), []).append((claim, identifier))
    return tuple(
        Holder(
            namespace,
            pod,
            container=",".join(sorted({claim.container for claim, _ in own})),
            resource=",".join(sorted({claim.resource for claim, _ in own})),
            shares=len({identifier for _, identifier in own}),
        )
        for (namespace, pod), own in sorted(pods.items())
    )
