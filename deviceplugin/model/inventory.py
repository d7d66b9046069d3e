"""What is offered to the kubelet: resources, their shares, and everything left out with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import force_setattr

from deviceplugin.model.mps import MpsPlan


class Sharing(StrEnum):
    """How one device serves several containers; the values are those of the `gpu.sharing-strategy` label."""

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


class Policy(StrEnum):
    """`sharedDevicesAllocationPolicy`: how shares are chosen by preferred allocation."""

    DISTRIBUTED = "distributed"
    PACKED = "packed"
    SPREAD = "spread"
    STRICT = "strict"


class NodeState(StrEnum):
    """Named states of what can be offered (node_state metric, status page, log)."""

    SERVING = "serving"
    MIG_UNEQUAL = "mig-single-unequal-profiles"
    MIG_PARTIAL = "mig-single-partly-enabled"
    MIG_EMPTY = "mig-without-instances"
    NOTHING = "nothing-to-offer"


class Closeness(Struct, frozen=True):
    """Distances between the GPUs of a scan; every tuple is in the order of `uuids` (node order)."""

    uuids: tuple[str, ...] = ()
    index: tuple[int, ...] = ()
    numa: tuple[int | None, ...] = ()
    nvlink: tuple[tuple[int, ...], ...] = ()
    """Width in links; the diagonal is 0."""
    pcie: tuple[tuple[int, ...], ...] = ()
    """6 same board, 5 PIX, 4 PXB, 3 PHB, 2 NODE, 1 SYS, 0 unknown; the diagonal is 0."""
    domain: tuple[int, ...] = ()
    """NVLink domain number, counted from 0 by lowest index; a GPU without links is a domain by itself."""
    warnings: tuple[str, ...] = ()
    """What could not be read or did not agree, one sentence each."""


class Share(Struct, frozen=True):
    """One device as the kubelet counts it: a card, a MIG instance, or a replica of one."""

    id: str
    """`<uuid>`, or `<uuid>::<n>` for a replica."""
    device: str
    """UUID of the card or MIG instance it stands for."""
    gpu: str
    """UUID of the physical card."""
    gpu_index: int
    visible_index: str
    """`<gpu>` or `<gpu>:<mig>`: what NVIDIA_VISIBLE_DEVICES takes under the index strategy."""
    replica: int | None = None
    numa: int | None = None
    minor: int | None = None
    capabilities: tuple[str, ...] = ()
    """Capability nodes of a MIG instance, `/dev/nvidia-caps/nvidia-cap<n>`."""


class Resource(Struct, frozen=True):
    """An extended resource and its shares, ordered by (GPU index, MIG slot, replica)."""

    name: str
    shares: tuple[Share, ...]
    sharing: Sharing = Sharing.NONE
    policy: Policy = Policy.DISTRIBUTED
    fail_above_one: bool = False
    """failRequestsGreaterThanOne of the sharing block that made the shares."""
    mig_profile: str | None = None
    mps: MpsPlan | None = None
    """Given where the shares are made by MPS."""
    by_id: Mapping[str, Share] = field(default_factory=lambda: MappingProxyType({}))
    positions: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Where in `shares` an id is."""

    def __post_init__(self) -> None:
        force_setattr(self, "by_id", MappingProxyType({s.id: s for s in self.shares}))
        force_setattr(self, "positions", MappingProxyType({s.id: n for n, s in enumerate(self.shares)}))


class LeftOut(Struct, frozen=True):
    """A device that is not offered, and why, with what to do about it."""

    device: str
    gpu_index: int
    reason: str
    """A slug for metrics: `excluded`, `mig-mode-empty`, `no-capability-node`, `partial-compute-instance`, ..."""
    detail: str
    """A sentence that names the place and the remedy."""


class Handover(Struct, frozen=True):
    """How devices reach containers: the configuration of Allocate, compiled when the inventory is made."""

    strategies: tuple[str, ...] = ("envvar",)
    by_index: bool = False
    pass_device_specs: bool = False
    driver_root: str = "/"
    dev_root: str = "/"
    dev_root_seen: str = "/"
    """The dev root as this process sees it: where optional nodes are looked up at Allocate time."""
    annotation_prefix: str = "cdi.k8s.io/"
    cdi_kind: str = "k8s.device-plugin.nvidia.com/gpu"
    gdrcopy: bool = False
    gds: bool = False
    mofed: bool = False
    imex_channels: tuple[int, ...] = ()
    imex_required: bool = False
    mps_root: str = ""


class Inventory(Struct, frozen=True):
    """Everything offered by one node under one configuration."""

    resources: Mapping[str, Resource] = field(default_factory=lambda: MappingProxyType({}))
    left_out: tuple[LeftOut, ...] = ()
    state: NodeState = NodeState.NOTHING
    closeness: Closeness = Closeness()
    handover: Handover = Handover()
    warnings: tuple[str, ...] = ()
    """Of this configuration on this node: cards in MIG mode under `none`, an include that matches nothing, ..."""
    conflicts: tuple[str, ...] = ()
    """What is wrong with the configuration on this node (a GPU named twice, MPS on a card in MIG mode, a
    list over 4 MiB): an error when the configuration is loaded, a warning when only the hardware changed since."""
