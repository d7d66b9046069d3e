"""What is heard of the health of the hardware: the alphabet that `rules.judge` reads.

Every answer of a source is True, False, or None for "cannot tell", which changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from deviceplugin.model.health import Verdict
from deviceplugin.model.node import Node

WHOLE = 0xFFFFFFFF
"""gpuInstanceId or computeInstanceId of an event that names no instance."""


@dataclass(frozen=True, slots=True)
class XidSeen:
    """An Xid event (nvmlEventTypeXidCriticalError)."""

    gpu: str
    """UUID of the physical card; empty where the driver could not tell."""
    xid: int
    at: float
    """Unix time in seconds."""
    gi: int | None = None
    """GPU instance; None or `WHOLE`: not given."""
    ci: int | None = None
    """Compute instance; None or `WHOLE`: not given."""


@dataclass(frozen=True, slots=True)
class EccSeen:
    """An ECC event (nvmlEventTypeSingleBitEccError, nvmlEventTypeDoubleBitEccError)."""

    gpu: str
    at: float
    double: bool
    """Uncorrected. Corrected errors never count."""


@dataclass(frozen=True, slots=True)
class RecoveryActionChanged:
    """nvmlEventTypeGpuRecoveryAction: the action changed, either way. Only a reading tells which way."""

    gpu: str


@dataclass(frozen=True, slots=True)
class StateReading:
    """The health states of one card, read at one moment. A state is True where it is bad."""

    gpu: str
    lost: bool | None = None
    """The driver answered GPU_IS_LOST."""
    unanswering: bool | None = None
    """No query was answered in time, or all with an error that is no word on the query itself."""
    recovery_action: int | None = None
    """Field 230: 0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, 5 recover IMEX domain, ..."""
    remap_pending: bool | None = None
    """A row remap waits for a reset."""
    remap_failure: bool | None = None
    retired_pages_pending: bool | None = None
    """Pages to be retired wait for a reset (cards without row remapping)."""
    volatile_uncorrectable: bool | None = None
    """Uncorrected ECC errors since the driver was loaded; counts only where rows cannot be remapped."""
    fabric_incomplete: bool | None = None
    """The fabric exists and its state is other than completed with success, or its health mask shows a fault."""
    nvlink_down: bool | None = None
    """A link that this card had is down."""
    absent: frozenset[str] = frozenset()
    """Names of the fields above that this card or driver does not have (NOT_SUPPORTED, FUNCTION_NOT_FOUND): unlike a
    query that failed, their silence does not hold up a recovery."""
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By field name: what was seen, for people (`links 3 and 4`)."""


@dataclass(frozen=True, slots=True)
class ScanSeen:
    """A scan ended. Only a node in state READY, NO_DRIVER or NO_HARDWARE tells which devices are there."""

    node: Node


@dataclass(frozen=True, slots=True)
class DriverReloaded:
    """The kernel driver was loaded anew: every card (or those named) was reset."""

    gpus: frozenset[str] = frozenset()
    """Empty: all."""


@dataclass(frozen=True, slots=True)
class TakenUp:
    """NVML was let go on request and taken up again: nobody watched, so a reset may have gone unseen.

    It counts as a reset for the cards named here (those the release was for), and for those whose recovery action
    asked for one before; their next reading must still be clean.
    """

    gpus: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Injection:
    """One rehearsed fault."""

    device: str
    """UUID, index, `gpu:mig` index or PCI id."""
    verdict: Verdict = Verdict.UNHEALTHY
    xid: int | None = None
    """The Xid it pretends to be, shown in log and metrics."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Injected:
    """All rehearsed faults that stand now; one that is no longer here is over."""

    injections: tuple[Injection, ...] = ()


@dataclass(frozen=True, slots=True)
class ChecksFailed:
    """A source of health could not be read this round."""

    source: str
    """`events`, `states`, ..."""
    detail: str = ""
    """The call and the code."""
    codes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """NVML return codes by UUID of the cards it failed on; empty where it failed before any card was asked."""
    openable: bool | None = None
    """Whether this process can open the device nodes of those cards; None where that was not tried."""


@dataclass(frozen=True, slots=True)
class ChecksWorked:
    """A source of health could be read."""

    source: str


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A vanished device is no longer listed (its grace time is over)."""

    uuid: str


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """Another health section is in force."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


Evidence = (
    XidSeen
    | EccSeen
    | RecoveryActionChanged
    | StateReading
    | ScanSeen
    | DriverReloaded
    | TakenUp
    | Injected
    | ChecksFailed
    | ChecksWorked
    | Forgotten
    | PolicyChanged
    | Tick
)
