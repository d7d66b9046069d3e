"""One function per way to hand devices over; each writes its part of the answer into a draft.

The forms are those that the NVIDIA container toolkit and CDI runtimes read (labels-and-CDI facts, CDI 0.5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct, field

from deviceplugin.model.grant import DeviceNode, Grant, Mount
from deviceplugin.model.inventory import Sharing
from deviceplugin.rules.allocate.nodes import device_nodes
from deviceplugin.rules.allocate.order import Order

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
IMEX_CHANNELS = "NVIDIA_IMEX_CHANNELS"
MOUNTED_DEVICES = "/var/run/nvidia-container-devices"
NOTHING = "/dev/null"
MPS_ROOT = "/mps"
SHM = "/dev/shm"  # noqa: S108 - the container's, as CUDA expects it


class Draft(Struct):
    """An answer while it is written; where two set the same variable, the later one stays."""

    envs: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    cdi: tuple[str, ...] = ()


def envvar(order: Order, draft: Draft) -> None:
    """The list in variables that the toolkit's runtime reads."""
    draft.envs[VISIBLE_DEVICES] = ",".join(order.ids)
    if order.channels:
        draft.envs[IMEX_CHANNELS] = ",".join(map(str, order.channels))


def volume_mounts(order: Order, draft: Draft) -> None:
    """The list as names of mounts, which an image cannot forge; the variable says where they are."""
    names = (*order.ids, *(f"imex/{channel}" for channel in order.channels))
    draft.mounts += tuple([Mount(f"{MOUNTED_DEVICES}/{name}", NOTHING) for name in names])
    draft.envs[VISIBLE_DEVICES] = MOUNTED_DEVICES


def cdi_annotations(order: Order, draft: Draft) -> None:
    """Qualified names in an annotation, for runtimes that read CDI requests there."""
    key = f"{order.handover.annotation_prefix}nvidia-device-plugin_{order.unique()}"
    draft.annotations[key] = ",".join(cdi_names(order))


def cdi_cri(order: Order, draft: Draft) -> None:
    """Qualified names in the answer's own field, which the kubelet passes on over CRI."""
    draft.cdi += tuple(cdi_names(order))


def cdi_names(order: Order) -> list[str]:
    """Qualified names of everything granted: GPUs, IMEX channels, and what is switched on beside them."""
    handover = order.handover
    kind = handover.cdi_kind
    names = [f"{kind}={name}" for name in order.ids]
    if not (order.channels or handover.gdrcopy or handover.gds or handover.mofed):
        return names
    vendor = kind.partition("/")[0]
    names += [f"{vendor}/imex-channel={channel}" for channel in order.channels]
    for switched_on, what in ((handover.gdrcopy, "gdrcopy"), (handover.gds, "gds"), (handover.mofed, "mofed")):
        if switched_on:
            names.append(f"{vendor}/{what}=all")
    return names


def specs(order: Order, draft: Draft) -> None:
    """Device nodes for the kubelet to pass."""
    draft.devices += device_nodes(order)


def mps(order: Order, draft: Draft) -> None:
    """The way to the resource's MPS control daemon, where a granted device is shared by it."""
    if all(share.replica is None for share in order.shares):
        return
    pipe, root = f"{order.resource.name}/pipe", order.handover.mps_root.rstrip("/")
    draft.envs["CUDA_MPS_PIPE_DIRECTORY"] = f"{MPS_ROOT}/{pipe}"
    draft.mounts += (Mount(f"{MPS_ROOT}/{pipe}", f"{root}/{pipe}"), Mount(SHM, f"{root}/shm"))


def switches(order: Order, draft: Draft) -> None:
    """Variables for what is switched on beside GPUs."""
    handover = order.handover
    if handover.gdrcopy:
        draft.envs["NVIDIA_GDRCOPY"] = "enabled"
    if handover.gds:
        draft.envs["NVIDIA_GDS"] = "enabled"
    if handover.mofed:
        draft.envs["NVIDIA_MOFED"] = "enabled"


STRATEGIES: Mapping[str, Callable[[Order, Draft], None]] = MappingProxyType(
    {
        "envvar": envvar,
        "volume-mounts": volume_mounts,
        "cdi-annotations": cdi_annotations,
        "cdi-cri": cdi_cri,
    }
)
"""In the order in which they are applied: with both, the path of volume-mounts replaces the list of envvar."""

OUTSIDE_CDI = frozenset({"envvar", "volume-mounts"})


def grant(order: Order) -> Grant:
    """The answer in all forms that the configuration asks for."""
    draft, handover = Draft(), order.handover
    chosen = handover.strategies
    for name, strategy in STRATEGIES.items():
        if name in chosen:
            strategy(order, draft)
    if handover.pass_device_specs and not OUTSIDE_CDI.isdisjoint(chosen):
        specs(order, draft)
    if order.resource.sharing is Sharing.MPS:
        mps(order, draft)
    if handover.gdrcopy or handover.gds or handover.mofed:
        switches(order, draft)
    return Grant(draft.envs, draft.mounts, draft.devices, draft.annotations, draft.cdi)
