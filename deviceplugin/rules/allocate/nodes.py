"""Device nodes: where they are looked up, which must be there, which may be absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from deviceplugin.model.errors import NodeGoneError, Refusal, RequestError
from deviceplugin.model.grant import DeviceNode
from deviceplugin.model.inventory import Handover
from deviceplugin.rules.allocate.order import Order

CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
IMEX_CHANNEL = "/dev/nvidia-caps-imex-channels/channel{}"


def under(root: str, path: str) -> str:
    """The absolute `path` below `root`."""
    return root.rstrip("/") + path


def dev_root_here(handover: Handover, exists: Callable[[str], bool]) -> str:
    """The host's dev root as this process sees it.

    That is where the configuration says it is mounted; without such a mount the process has the host's own paths (a
    plain process) or the nodes in its /dev (a privileged container).
    """
    for root in (handover.dev_root_seen, handover.dev_root):
        if exists(under(root, "/dev")):
            return root
    return "/"


def imex_channels(handover: Handover, dev_root: str, exists: Callable[[str], bool]) -> tuple[int, ...]:
    """The configured IMEX channels that are there.

    Raises:
        RequestError: A channel is missing and `imex.required` is set.
    """
    missing = {n for n in handover.imex_channels if not exists(under(dev_root, IMEX_CHANNEL.format(n)))}
    if missing and handover.imex_required:
        path = under(handover.dev_root, IMEX_CHANNEL.format(min(missing)))
        raise RequestError(
            f"IMEX channel {min(missing)} is required and {path} is not there; create it "
            "(nvidia-modprobe -c, or NVreg_CreateImexChannel0=1), or set imex.required to false",
            Refusal.FAILED_PRECONDITION,
        )
    return tuple(n for n in handover.imex_channels if n not in missing)


def device_nodes(order: Order) -> tuple[DeviceNode, ...]:
    """Device specs of the container: control nodes that are there, cards, capabilities, IMEX channels.

    Raises:
        NodeGoneError: The node of a granted device is not there.
    """
    seen, host = order.dev_root.rstrip("/"), order.handover.dev_root.rstrip("/")
    paths = [path for path in CONTROL if order.exists(seen + path)]
    for path in dict.fromkeys(_needed(order)):
        if not order.exists(seen + path):
            raise NodeGoneError(
                f"{order.resource.name}: the device node {host}{path} is gone; "
                "reload the driver or make the node (nvidia-modprobe -c <minor>), a scan looks again now"
            )
        paths.append(path)
    paths += [IMEX_CHANNEL.format(channel) for channel in order.channels]
    return tuple(DeviceNode(path, host + path) for path in paths)


def _needed(order: Order) -> Iterator[str]:
    for share in order.shares:
        if share.minor is not None:
            yield f"/dev/nvidia{share.minor}"
        yield from share.capabilities
