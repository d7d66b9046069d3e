"""Words for distances and health, as people know them from `nvidia-smi`."""

from __future__ import annotations

from enum import StrEnum

from deviceplugin.model.health import Health
from deviceplugin.model.inventory import Closeness

PCIE_WORDS = {6: "BRD", 5: "PIX", 4: "PXB", 3: "PHB", 2: "NODE", 1: "SYS", 0: "?"}
"""PCIe closeness to the word of `nvidia-smi topo -m`; BRD is one board."""

LEGEND = {
    "X": "self",
    "NV#": "NVLink, # links wide, directly or through NVSwitch",
    "BRD": "on one board",
    "PIX": "at most one PCIe bridge between",
    "PXB": "several PCIe bridges, no host bridge",
    "PHB": "a PCIe host bridge (the CPU)",
    "NODE": "host bridges within one NUMA node",
    "SYS": "the interconnect between NUMA nodes",
    "?": "the driver does not say",
}


class HealthWord(StrEnum):
    """How a GPU is, for tables and pictures."""

    HEALTHY = "healthy"
    LAST = "ranked last"
    SICK = "unhealthy"
    UNCHECKED = "not checked"


def pair_word(close: Closeness, one: int, other: int) -> str:
    """The cell of a matrix for two positions."""
    if one == other:
        return "X"
    width = close.nvlink[one][other]
    return f"NV{width}" if width else PCIE_WORDS[close.pcie[one][other]]


def health_word(health: Health, uuid: str) -> tuple[HealthWord, str]:
    """How a card is, and the reason where it is not healthy."""
    if sick := health.sick.get(uuid):
        return HealthWord.SICK, sick[0].reason
    if last := health.last.get(uuid):
        return HealthWord.LAST, last[0].reason
    return (HealthWord.HEALTHY if health.checked else HealthWord.UNCHECKED), ""
