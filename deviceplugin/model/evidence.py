"""What is heard of the health of the hardware: the alphabet that `rules.judge` reads.

`Event` and `Reading` of `model.vitals` are evidence as they are; the rest of the alphabet is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from deviceplugin.model.health import Verdict
from deviceplugin.model.node import Node
from deviceplugin.model.vitals import Event, Reading


class ScanSeen(Struct, frozen=True):
    """A scan ended. Only a node in state READY, NO_DRIVER or NO_HARDWARE tells which devices are there."""

    node: Node


class DriverReloaded(Struct, frozen=True):
    """The kernel driver was loaded anew: every card (or those named) was reset.

    With a `boot_id` that shows the same boot and load as before it changes nothing: it may be sent on suspicion.
    """

    gpus: frozenset[str] = frozenset()
    """Empty: all."""
    boot_id: str = ""
    """Identity of the boot and load from now on, for the state file; empty: as before."""


class TakenUp(Struct, frozen=True):
    """NVML was let go on request and taken up again: nobody watched, so a reset may have gone unseen.

    It counts as a reset for the cards named here (those the release was for), and for those whose recovery action
    asked for one before; their next reading must still be clean.
    """

    gpus: frozenset[str] = frozenset()


class Injection(Struct, frozen=True):
    """One rehearsed fault."""

    device: str
    """UUID, index, `gpu:mig` index or PCI id."""
    verdict: Verdict = Verdict.UNHEALTHY
    xid: int | None = None
    """The Xid it pretends to be, shown in log and metrics."""
    note: str = ""


class Injected(Struct, frozen=True):
    """All rehearsed faults that stand now; one that is no longer here is over."""

    injections: tuple[Injection, ...] = ()


class ChecksFailed(Struct, frozen=True):
    """A source of health cannot be read."""

    source: str
    """`events`, `states`, ..."""
    detail: str = ""
    """The call and the code."""
    codes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """NVML return codes by UUID of the cards it failed on; empty where it failed before any card was asked."""
    openable: bool | None = None
    """Whether this process can open the device nodes of those cards; None where that was not tried."""
    failures: int = 1
    """Failures in a row that this tells of; those told before it are added. Nothing is decided below 3."""
    remedy: str = ""
    """Who is at fault and what to do, two sentences without the last full stop, where the source knows it better."""


class Unanswered(Struct, frozen=True):
    """A question about a card hangs, while the driver answers those about others."""

    uuid: str
    query: str
    """The vendor's name of the function that does not come back."""


class ChecksWorked(Struct, frozen=True):
    """A source of health could be read."""

    source: str


class Forgotten(Struct, frozen=True):
    """A vanished device is no longer listed (its grace time is over)."""

    uuid: str


class PolicyChanged(Struct, frozen=True):
    """Another health section is in force."""


class Tick(Struct, frozen=True):
    """Time passed."""


Evidence = (
    Event
    | Reading
    | ScanSeen
    | DriverReloaded
    | TakenUp
    | Injected
    | ChecksFailed
    | Unanswered
    | ChecksWorked
    | Forgotten
    | PolicyChanged
    | Tick
)
