"""What the driver showed in one scan: a whole node, never a difference."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from msgspec import Struct


class DriverState(StrEnum):
    """How far the driver could be reached; each state is a value of the `node_state` metric."""

    STARTING = "starting"
    """No scan has ended yet."""
    READY = "ready"
    NO_HARDWARE = "no-hardware"
    """No PCI device of vendor 10de in sysfs and no NVML: a node without GPUs."""
    NO_DRIVER = "no-driver"
    """The hardware is there, libnvidia-ml.so.1 is not."""
    FAILING = "failing"
    """NVML loads and answers an error."""
    MISMATCH = "mismatch"
    """The driver was upgraded underneath (LIB_RM_VERSION_MISMATCH): a fresh process is needed."""
    RELEASED = "released"
    """NVML was shut down on request, so that a GPU can be reset or its MIG mode changed."""


class RemoteKind(IntEnum):
    """nvmlDeviceGetNvLinkRemoteDeviceType; UNREAD where the call is missing or failed."""

    GPU = 0
    NPU = 1
    SWITCH = 2
    UNKNOWN = 255
    UNREAD = -1


class Link(Struct, frozen=True):
    """One NVLink of one GPU. `active` is None where its state cannot be read."""

    number: int
    active: bool | None
    remote: RemoteKind = RemoteKind.UNREAD
    remote_pci: str | None = None


class FabricState(IntEnum):
    """nvmlGpuFabricState_t."""

    NOT_SUPPORTED = 0
    NOT_STARTED = 1
    IN_PROGRESS = 2
    COMPLETED = 3


class Fabric(Struct, frozen=True):
    """nvmlDeviceGetGpuFabricInfoV. `status` (an NVML return code) is valid only when completed."""

    state: FabricState
    status: int = 0
    cluster: str = ""
    """Cluster UUID, lower case with dashes; empty for the all-zero UUID, which is no information."""
    clique: int = 0
    health_mask: int = 0

    @property
    def completed(self) -> bool:
        """Completed with success; completed with any other status counts as not completed."""
        return self.state is FabricState.COMPLETED and self.status == 0


class Engines(Struct, frozen=True):
    """Engines of a MIG instance (nvmlDeviceGetAttributes_v2)."""

    copy: int = 0
    decoder: int = 0
    encoder: int = 0
    jpeg: int = 0
    ofa: int = 0


class MigInstance(Struct, frozen=True):
    """A MIG device: one compute instance in one GPU instance."""

    uuid: str
    gpu: str
    """UUID of the parent GPU."""
    slot: int
    """Index under the parent: the second number of `<gpu>:<mig>`."""
    gi: int
    ci: int
    profile: str | None
    """As the driver names it, `1g.10gb+me`; None where it cannot be told."""
    complete: bool = True
    """False where the compute instance is smaller than its GPU instance: such instances are not offered."""
    memory_mib: int | None = None
    gi_slices: int | None = None
    ci_slices: int | None = None
    multiprocessors: int | None = None
    engines: Engines = Engines()
    gi_capability: str | None = None
    """`/dev/nvidia-caps/nvidia-cap<n>` of the GPU instance, as seen from the dev root; None where it is missing."""
    ci_capability: str | None = None


class Gpu(Struct, frozen=True):
    """A physical GPU. A fact that could not be read is None, and `Node.problems` says why."""

    index: int
    """nvmlDeviceGetHandleByIndex order of this scan."""
    uuid: str
    pci: str
    """As NVML prints it: `00000000:83:00.0`, eight-digit domain, upper case."""
    name: str
    minor: int | None = None
    memory: int | None = None
    """Total framebuffer in bytes."""
    compute_capability: tuple[int, int] | None = None
    architecture: int | None = None
    """nvmlDeviceArchitecture_t: 2 kepler .. 10 blackwell."""
    brand: int | None = None
    numa: int | None = None
    mig_enabled: bool | None = None
    """Current MIG mode; None where the GPU knows no MIG."""
    mig_pending: bool | None = None
    instances: tuple[MigInstance, ...] = ()
    links: tuple[Link, ...] = ()
    switch_links: int | None = None
    """Field 147, NVSWITCH_CONNECTED_LINK_COUNT; None where the driver does not know it."""
    fabric: Fabric | None = None
    lost: bool = False
    """The driver answered GPU_IS_LOST: what else is here was read in an earlier scan."""

    @property
    def mig_capable(self) -> bool:
        """Whether the driver knows a MIG mode for this GPU."""
        return self.mig_enabled is not None


class Pair(Struct, frozen=True):
    """What NVML says of two GPUs; `a` and `b` are UUIDs in node order."""

    a: str
    b: str
    ancestor: int | None = None
    """nvmlDeviceGetTopologyCommonAncestor: 0 same board, 10 PIX, 20 PXB, 30 PHB, 40 NODE, 50 SYS."""
    p2p_nvlink: bool | None = None
    """nvmlDeviceGetP2PStatus(NVLINK) is OK, in both directions; None where it cannot be read."""


LEFT_OUT = "left-out"
"""Query of the problem of a card that a scan did not ask, since a call about it hangs."""


class Problem(Struct, frozen=True):
    """One query that failed: it costs the fact it would have given, not the GPU."""

    subject: str
    """UUID or PCI id of the device, empty for the node."""
    query: str
    code: int
    detail: str = ""


class Node(Struct, frozen=True):
    """A whole scan."""

    state: DriverState = DriverState.STARTING
    detail: str = ""
    """For people: the paths tried, the call and code that failed."""
    gpus: tuple[Gpu, ...] = ()
    pairs: tuple[Pair, ...] = ()
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None
    problems: tuple[Problem, ...] = ()
    machine: str | None = None
    """Content of the machine type file (DMI product name)."""

    def gpu(self, uuid: str) -> Gpu | None:
        """The GPU with this UUID, or the parent of the MIG instance with this UUID."""
        for gpu in self.gpus:
            if gpu.uuid == uuid or any(m.uuid == uuid for m in gpu.instances):
                return gpu
        return None
