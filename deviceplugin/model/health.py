"""Sickness by hardware UUID. The health of a share is derived, so no share can be forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Sickness:
    """Why one piece of hardware (GPU or MIG instance) is not fit."""

    uuid: str
    reason: str
    """A slug for metrics and logs: `xid-79`, `lost`, `remap-failure`, `cordoned`, `injected`, ..."""
    kind: str
    """Class of recovery: `recoverable`, `reset-required`, `lost`, `state`, `cordoned`, `injected`."""
    since: float
    """Unix time in seconds."""
    detail: str = ""
    """A sentence for people: what was seen, and what brings the device back."""
    pci: str = ""
    rule: str = ""
    """The configuration entry that decided, such as `health.fatal`."""
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class Health:
    """Verdicts over a whole node. A UUID in neither mapping is fit or unknown, which is served alike."""

    sick: Mapping[str, tuple[Sickness, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Unhealthy hardware; the first sickness is the one to show."""
    last: Mapping[str, tuple[Sickness, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Healthy, but taken last by preferred allocation (policy rankLast)."""
    checked: bool = True
    """False while no source of health can be read (H8)."""

    def reasons(self, device: str, gpu: str) -> tuple[Sickness, ...]:
        """Sicknesses that hold for a share of `device` on the card `gpu`; empty when it is healthy."""
        own = self.sick.get(device, ())
        return own if device == gpu else own + self.sick.get(gpu, ())
