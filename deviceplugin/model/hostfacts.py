"""What the host's PCI tree says of the cards, beside what the driver says; read for the node labels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field


class HostDriver(Struct, frozen=True):
    """The vGPU manager of the hypervisor under this virtual machine; a text is empty where it is not told."""

    version: str = ""
    branch: str = ""


class HostFacts(Struct, frozen=True):
    """PCI classes and vGPU facts of the NVIDIA cards of one node."""

    classes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """PCI bus id as NVML prints it -> class and subclass, `0x0302` for a compute card; a card without is unknown."""
    hypervisor: HostDriver | None = None
    """None where no card shows the capability of a vGPU."""
