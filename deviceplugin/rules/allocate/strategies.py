"""One pure function per way to hand devices over; each gives its part of the answer.

The forms are those that the NVIDIA container toolkit and CDI runtimes read (labels-and-CDI facts, CDI 0.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from deviceplugin.model.grant import DeviceNode, Mount
from deviceplugin.model.inventory import Sharing
from deviceplugin.rules.allocate.nodes import device_nodes
from deviceplugin.rules.allocate.order import Order

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
IMEX_CHANNELS = "NVIDIA_IMEX_CHANNELS"
MOUNTED_DEVICES = "/var/run/nvidia-container-devices"
NOTHING = "/dev/null"
MPS_ROOT = "/mps"
SHM = "/dev/shm"  # noqa: S108 - the container's, as CUDA expects it


@dataclass(slots=True)
class Part:
    """A piece of an answer; later pieces win where they set the same variable."""

    envs: dict[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()


def envvar(order: Order) -> Part:
    """The list in variables that the toolkit's runtime reads."""
    envs = {VISIBLE_DEVICES: ",".join(order.ids)}
    if order.channels:
        envs[IMEX_CHANNELS] = ",".join(map(str, order.channels))
    return Part(envs)


def volume_mounts(order: Order) -> Part:
    """The list as names of mounts, which an image cannot forge; the variable says where they are."""
    names = (*order.ids, *(f"imex/{channel}" for channel in order.channels))
    mounts = tuple(Mount(f"{MOUNTED_DEVICES}/{name}", NOTHING) for name in names)
    return Part({VISIBLE_DEVICES: MOUNTED_DEVICES}, mounts)


def cdi_annotations(order: Order) -> Part:
    """Qualified names in an annotation, for runtimes that read CDI requests there."""
    key = f"{order.handover.annotation_prefix}nvidia-device-plugin_{order.unique()}"
    return Part(annotations={key: ",".join(cdi_names(order))})


def cdi_cri(order: Order) -> Part:
    """Qualified names in the answer's own field, which the kubelet passes on over CRI."""
    return Part(cdi=tuple(cdi_names(order)))


def cdi_names(order: Order) -> Iterator[str]:
    """Qualified names of everything granted: GPUs, IMEX channels, and what is switched on beside them."""
    handover = order.handover
    vendor = handover.cdi_kind.partition("/")[0]
    for name in order.ids:
        yield f"{handover.cdi_kind}={name}"
    for channel in order.channels:
        yield f"{vendor}/imex-channel={channel}"
    for switched_on, kind in ((handover.gdrcopy, "gdrcopy"), (handover.gds, "gds"), (handover.mofed, "mofed")):
        if switched_on:
            yield f"{vendor}/{kind}=all"


def specs(order: Order) -> Part:
    """Device nodes for the kubelet to pass, where passDeviceSpecs asks for them."""
    return Part(devices=device_nodes(order)) if order.handover.pass_device_specs else Part()


def switches(order: Order) -> Part:
    """Variables for what is switched on beside GPUs."""
    handover = order.handover
    on = {"NVIDIA_GDRCOPY": handover.gdrcopy, "NVIDIA_GDS": handover.gds, "NVIDIA_MOFED": handover.mofed}
    return Part({name: "enabled" for name, value in on.items() if value})


def mps(order: Order) -> Part:
    """The way to the resource's MPS control daemon, where a granted device is shared by it."""
    resource = order.resource
    if resource.sharing is not Sharing.MPS or all(share.replica is None for share in order.shares):
        return Part()
    pipe, root = f"{resource.name}/pipe", order.handover.mps_root.rstrip("/")
    return Part(
        {"CUDA_MPS_PIPE_DIRECTORY": f"{MPS_ROOT}/{pipe}"},
        (Mount(f"{MPS_ROOT}/{pipe}", f"{root}/{pipe}"), Mount(SHM, f"{root}/shm")),
    )


STRATEGIES: Mapping[str, Callable[[Order], Part]] = MappingProxyType(
    {
        "envvar": envvar,
        "volume-mounts": volume_mounts,
        "cdi-annotations": cdi_annotations,
        "cdi-cri": cdi_cri,
    }
)
"""In the order in which they are applied: with both, the path of volume-mounts replaces the list of envvar."""

OUTSIDE_CDI = frozenset({"envvar", "volume-mounts"})


def parts(order: Order) -> Iterator[Part]:
    """All pieces of the answer that the configuration asks for."""
    chosen = order.handover.strategies
    yield from (strategy(order) for name, strategy in STRATEGIES.items() if name in chosen)
    if not OUTSIDE_CDI.isdisjoint(chosen):
        yield specs(order)
    yield mps(order)
    yield switches(order)
