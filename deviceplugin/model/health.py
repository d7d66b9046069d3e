"""Sickness by hardware UUID. The health of a share is derived, so no share can be forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct, field


class Verdict(StrEnum):
    """What health says of a device; `health_transitions_total` has these as `to`."""

    HEALTHY = "healthy"
    RANK_LAST = "rank-last"
    """Healthy, but preferred allocation takes it last."""
    UNHEALTHY = "unhealthy"


class Kind(StrEnum):
    """Class of recovery: what evidence brings a device back."""

    LOST = "lost"
    RESET_REQUIRED = "reset-required"
    STATE = "state"
    RECOVERABLE = "recoverable"
    UNCHECKED = "unchecked"
    INJECTED = "injected"
    CORDONED = "cordoned"


class Sickness(Struct, frozen=True):
    """Why one piece of hardware (GPU or MIG instance) is not fit."""

    uuid: str
    reason: str
    """A slug for metrics and logs: `xid-79`, `lost`, `remap-failure`, `cordoned`, `injected`, ..."""
    kind: str
    """Class of recovery: `recoverable`, `reset-required`, `lost`, `state`, `cordoned`, `injected`, `unchecked`."""
    since: float
    """Unix time in seconds."""
    detail: str = ""
    """A sentence for people: what was seen, and what brings the device back."""
    pci: str = ""
    rule: str = ""
    """The configuration entry that decided, such as `health.fatal`."""
    boot_id: str = ""
    gpu_index: int = -1
    xid: int | None = None


class Health(Struct, frozen=True):
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


class Transition(Struct, frozen=True):
    """One cause that began or ended to count for one device: a log line, a metric and a line of the status page."""

    at: float
    """Unix time in seconds."""
    uuid: str
    pci: str
    gpu_index: int
    before: Verdict
    to: Verdict
    """The same as `before` where a second cause came, or one of several went."""
    reason: str
    rule: str
    detail: str
    """A sentence: what was seen and what brings the device back, or why it is back."""
    kind: str = ""
    xid: int | None = None
    over: bool = False
    """The cause counts no more, and nothing is left to do about it."""
