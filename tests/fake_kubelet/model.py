"""The nouns of the pretend kubelet: what it was told, what it gave, and what it holds against a plugin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import grpc

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire

API_VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
UNKNOWN = "Unknown"
SOCKET_NAME = "kubelet.sock"
CHECKPOINT_NAME = "kubelet_internal_checkpoint"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """In what kubelets of different ages differ."""

    cleans_only_sockets: bool = False
    keeps_register_options: bool = False
    answers_get: bool = True
    authority_is_path: bool = False


VERSIONS: Mapping[str, Behaviour] = {
    "1.24": Behaviour(keeps_register_options=True, answers_get=False, authority_is_path=True),
    "1.32": Behaviour(),
    "1.36": Behaviour(cleans_only_sockets=True),
}


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a list. Equal ones are one object, so that thousands of lists can be kept."""

    id: str
    health: str
    nodes: tuple[int, ...]

    @property
    def numa(self) -> int | None:
        """The first NUMA node named in its topology, or None."""
        return self.nodes[0] if self.nodes else None

    @property
    def healthy(self) -> bool:
        """A kubelet takes every word but "Healthy" for unhealthy."""
        return self.health == HEALTHY


@lru_cache(maxsize=200_000)
def device(id_: str, health: str, nodes: tuple[int, ...]) -> Device:
    """The one object for these values."""
    return Device(id_, health, nodes)


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole list, as a stream sent it; `time` is monotonic seconds, `endpoint` the socket it came by."""

    time: float
    endpoint: str
    devices: tuple[Device, ...]

    @property
    def healthy(self) -> frozenset[str]:
        """Ids that the list calls healthy."""
        return frozenset(item.id for item in self.devices if item.healthy)

    @property
    def unhealthy(self) -> frozenset[str]:
        """Ids that the list does not call healthy."""
        return frozenset(item.id for item in self.devices if not item.healthy)


@dataclass(frozen=True, slots=True)
class Options:
    """DevicePluginOptions as a value."""

    pre_start_required: bool = False
    preferred_allocation: bool = False

    @classmethod
    def of(cls, message: wire.DevicePluginOptions) -> "Options":
        """Reads the message."""
        return cls(message.pre_start_required, message.get_preferred_allocation_available)


@dataclass(frozen=True, slots=True)
class Registration:
    """One registration that the kubelet answered with success. `time` is monotonic seconds."""

    resource: str
    endpoint: str
    options: Options
    time: float


@dataclass(frozen=True, slots=True)
class Stream:
    """One ListAndWatch that is open."""

    resource: str
    endpoint: str
    opened: float
    frames: int


@dataclass(frozen=True, slots=True)
class ResourceView:
    """What the kubelet believes of one resource right now."""

    devices: Mapping[str, Device]
    frames: tuple[Frame, ...]
    stream_open: bool
    endpoint: str

    @property
    def healthy(self) -> frozenset[str]:
        """Ids that can be given."""
        return frozenset(id_ for id_, item in self.devices.items() if item.healthy)

    @property
    def unhealthy(self) -> frozenset[str]:
        """Ids that count in the capacity and cannot be given."""
        return frozenset(id_ for id_, item in self.devices.items() if not item.healthy)

    @property
    def capacity(self) -> int:
        """What the node says it has."""
        return len(self.devices)

    @property
    def allocatable(self) -> int:
        """What the scheduler may count on."""
        return len(self.healthy)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod to admit; containers are name -> resource -> count, in the order of the pod's specification."""

    name: str
    namespace: str = "default"
    containers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    init_containers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container gets: its ids by resource, and the merged answers to Allocate."""

    ids: Mapping[str, tuple[str, ...]]
    envs: Mapping[str, str]
    mounts: tuple[wire.Mount, ...]
    devices: tuple[wire.DeviceSpec, ...]
    annotations: Mapping[str, str]
    cdi: tuple[str, ...]
    conflicts: tuple[str, ...]

    @property
    def all_ids(self) -> tuple[str, ...]:
        """Ids of all resources."""
        return tuple(id_ for ids in self.ids.values() for id_ in ids)


@dataclass(frozen=True, slots=True)
class Admitted:
    """A pod that runs: grants by container name, init containers first."""

    pod: Pod
    containers: Mapping[str, Grant]

    def __getitem__(self, container: str) -> Grant:
        return self.containers[container]


class AdmissionFailed(Exception):  # noqa: N818 - the kubelet's own word for what happened
    """A pod was not admitted; `code` is the gRPC status of the plugin's answer, if that was why."""

    def __init__(self, reason: str, message: str, code: grpc.StatusCode | None = None) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.code = code


class RegistrationRefused(Exception):  # noqa: N818 - see AdmissionFailed
    """Why the kubelet does not take a registration."""


@dataclass(slots=True)
class Faults:
    """Ways in which a kubelet can misbehave; set and reset them at any time.

    Attributes:
        refuse_version: Register is refused as if the plugin's API version were unknown.
        silent: Register is accepted and never answered.
        never_watch: Register succeeds and ListAndWatch is never opened.
        no_socket: The next `start` makes no socket.
        restarts_after_register: Seconds of pause before each of a row of restarts that the next successful
            Register sets off, e.g. (0.0, 0.02, 0.05); used once.
    """

    refuse_version: bool = False
    silent: bool = False
    never_watch: bool = False
    no_socket: bool = False
    restarts_after_register: tuple[float, ...] = ()
