"""The kubelet reads a device list of at most 4 MiB: the size of a list on the wire, and how much fits.

Sizes follow the protobuf encoding of v1beta1 ListAndWatchResponse (length-delimited fields, one-byte tags), with every
device counted as Unhealthy, the longer word: a list that fits once fits in every state of health.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate

from msgspec.structs import replace

from deviceplugin.model.inventory import Resource, Share

LIMIT = 4 * 1024 * 1024
"""gRPC's default limit of a received message, which the kubelet keeps."""

_HEALTH = 2 + len("Unhealthy")


def _varint(value: int) -> int:
    """Bytes of a varint; a negative int64 takes ten."""
    return max(1, (value.bit_length() + 6) // 7) if value >= 0 else 10


def _field(size: int) -> int:
    """Bytes of a length-delimited field whose content has `size` bytes."""
    return 1 + _varint(size) + size


def _topology(numa: int | None) -> int:
    """Bytes of Device.topology with one node; proto3 leaves a node id of 0 away."""
    if numa is None:
        return 0
    return _field(_field(0 if numa == 0 else 1 + _varint(numa)))


def share_size(share: Share) -> int:
    """Bytes that one share adds to the list."""
    identifier = len(share.id) if share.id.isascii() else len(share.id.encode())
    return _field(_field(identifier) + _HEALTH + _topology(share.numa))


def list_size(shares: Iterable[Share]) -> int:
    """Bytes of a whole ListAndWatchResponse."""
    return sum(map(share_size, shares))


def fit(resource: Resource, limit: int = LIMIT) -> tuple[Resource, str | None]:
    """The resource with as many replicas per device as the limit allows, and what was wrong, None if all of it fits."""
    if list_size(resource.shares) <= limit:
        return resource, None
    by_replica: defaultdict[int, int] = defaultdict(int)
    for share in resource.shares:
        by_replica[share.replica or 0] += share_size(share)
    sizes = accumulate(by_replica[number] for number in range(max(by_replica) + 1))
    replicas = sum(size <= limit for size in sizes)
    kept = tuple(share for share in resource.shares if (share.replica or 0) < replicas)
    return replace(resource, shares=kept), (
        f"{resource.name}: {len(resource.shares)} shares make a list of {list_size(resource.shares)} bytes, "
        f"the kubelet reads {limit}; set replicas to {replicas} or fewer"
    )
