"""Node labels: what GPU Feature Discovery publishes, and a few of ours, from one snapshot.

All of it is a function of what is offered and does not hang on the order of devices, so that a restart or another
enumeration changes no label. On a node of several models the `gpu.*` labels describe the model with the most cards, the
first by alphabet of equals; `gpu.mixed` says so, and each model has a count of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from deviceplugin.config.document import Config
from deviceplugin.model.hostfacts import HostFacts
from deviceplugin.model.node import DriverState, Node
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.label.devices import device_labels
from deviceplugin.rules.label.ours import Ours
from deviceplugin.rules.label.system import system_labels, vgpu_labels

__all__ = ["HEALTHY", "PREFIXES", "TIMESTAMP", "is_ours", "label", "stamped", "without_timestamp"]

TIMESTAMP = "nvidia.com/gfd.timestamp"
HEALTHY = "nvidia.com/gpu.healthy"

PREFIXES = (
    "nvidia.com/cuda.",
    "nvidia.com/gfd.",
    "nvidia.com/gpu.",
    "nvidia.com/mig-",
    "nvidia.com/mig.",
    "nvidia.com/mps.",
    "nvidia.com/vgpu.",
)
"""Beginnings of the keys that are written here."""

_FOREIGN = ("nvidia.com/gpu.present", "nvidia.com/gpu.deploy.", "nvidia.com/mig.config")
"""Under the same beginnings, but of the GPU Operator or the user: read by others, never written here."""


def label(snapshot: Snapshot, config: Config, facts: HostFacts) -> Mapping[str, str] | None:
    """The labels of a node, without the timestamp.

    Args:
        snapshot: The node, what is offered of it, and health.
        config: The configuration by which it is offered.
        facts: What the host's PCI tree says.

    Returns:
        Labels sorted by key; None where the driver has not shown yet what is there: labels then stay as they are.
    """
    if not _known(snapshot.node):
        return None
    ours = Ours.of(snapshot, config)
    labels = vgpu_labels(ours, facts)
    if ours.gpus:
        labels |= system_labels(ours, facts) | device_labels(ours)
    return MappingProxyType({name: labels[name] for name in sorted(labels) if labels[name]})


def _known(node: Node) -> bool:
    """Whether the scan tells what is there; a driver that counts no card while sysfs shows some is still starting."""
    if node.gpus or node.state is DriverState.NO_HARDWARE:
        return True
    return node.state is DriverState.READY and not any(p.query == "nvmlDeviceGetCount" for p in node.problems)


def stamped(labels: Mapping[str, str], config: Config, now: float) -> Mapping[str, str]:
    """The labels with the time of their making, unless flags.gfd.noTimestamp is set."""
    if config.flags.gfd.no_timestamp:
        return labels
    return MappingProxyType(dict(sorted({**labels, TIMESTAMP: str(int(now))}.items())))


def without_timestamp(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that count as a change."""
    return {name: value for name, value in labels.items() if name != TIMESTAMP}


def is_ours(name: str) -> bool:
    """Whether a label of this key is ours to write and to take away."""
    return name.startswith(PREFIXES) and not name.startswith(_FOREIGN)
