"""The model in the kubelet's words (device plugin API v1beta1)."""

from __future__ import annotations

from msgspec import Struct

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.model.grant import Grant
from deviceplugin.model.health import Health
from deviceplugin.model.inventory import Share
from deviceplugin.model.snapshot import Snapshot

VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

OPTIONS = wire.DevicePluginOptions(get_preferred_allocation_available=True)
"""The same in the answer to GetDevicePluginOptions and in Register: kubelets before 1.25 keep those of Register."""


class Frame(Struct, frozen=True):
    """One whole list, serialised once for all streams."""

    data: bytes
    devices: int
    unhealthy: int


class Lister:
    """Makes the lists of one resource. Each share is serialised once, so that a change of health costs a join.

    A message is the concatenation of messages that hold its repeated fields' parts (Protocol Buffers, encoding).
    """

    def __init__(self, resource_name: str) -> None:
        self._name = resource_name
        self._shares: tuple[Share, ...] = ()
        self._parts: dict[tuple[str, str], bytes] = {}

    def frame(self, snapshot: Snapshot) -> Frame:
        """The list in this snapshot; an empty one when the snapshot does not offer the resource."""
        resource = snapshot.inventory.resources.get(self._name)
        shares = resource.shares if resource else ()
        if shares != self._shares:
            self._shares, self._parts = shares, {}
        words = [_word(share, snapshot.health) for share in shares]
        data = b"".join(map(self._part, shares, words))
        return Frame(data, len(shares), words.count(UNHEALTHY))

    def _part(self, share: Share, word: str) -> bytes:
        part = self._parts.get((share.id, word))
        if part is None:
            part = wire.ListAndWatchResponse(devices=[_device(share, word)]).SerializeToString()
            self._parts[share.id, word] = part
        return part


def add_grant(answer: wire.AllocateResponse, grant: Grant) -> None:
    """Adds one container's answer.

    A pod waits for this: it is filled in place, field by field, without what is empty, which is most of it. Keyword
    arguments take half as long again, and `update` is written in Python and asks what it was given.
    """
    container = answer.container_responses.add()
    if grant.envs:
        envs = container.envs
        for key, value in grant.envs.items():
            envs[key] = value
    for mount in grant.mounts:
        added = container.mounts.add()
        added.container_path, added.host_path = mount.container_path, mount.host_path
        if mount.read_only:
            added.read_only = True
    for node in grant.devices:
        spec = container.devices.add()
        spec.container_path, spec.host_path, spec.permissions = node.container_path, node.host_path, node.permissions
    if grant.annotations:
        annotations = container.annotations
        for key, value in grant.annotations.items():
            annotations[key] = value
    for name in grant.cdi:
        container.cdi_devices.add().name = name


def register_request(resource_name: str, endpoint: str) -> wire.RegisterRequest:
    """Register for `resource_name`, served on the socket with the file name `endpoint`."""
    return wire.RegisterRequest(version=VERSION, endpoint=endpoint, resource_name=resource_name, options=OPTIONS)


def _word(share: Share, health: Health) -> str:
    return UNHEALTHY if health.reasons(share.device, share.gpu) else HEALTHY


def _device(share: Share, word: str) -> wire.Device:
    if share.numa is None:
        return wire.Device(ID=share.id, health=word)
    return wire.Device(ID=share.id, health=word, topology=wire.TopologyInfo(nodes=[wire.NUMANode(ID=share.numa)]))
