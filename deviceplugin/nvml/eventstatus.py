"""What the event thread says of itself, and how patient it is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct, field

from deviceplugin.model.evidence import ChecksFailed, ChecksWorked
from deviceplugin.nvml.eventset import Refusal

SOURCE = "events"


class WatchState(StrEnum):
    """What the thread is doing."""

    IDLE = "idle"
    """There is no card to watch, or the driver is released."""
    WATCHING = "watching"
    RETRYING = "retrying"
    """Waiting failed; a new event set is being tried."""
    FAILED = "failed"
    """Waiting failed many times in a row. It is still being tried."""
    HANGING = "hanging"
    """A call of the driver has not come back for long; nothing is heard until it does."""
    UNSUPPORTED = "unsupported"
    """No card here has events."""
    STOPPED = "stopped"


class EventStatus(Struct, frozen=True):
    """The thread's account of itself; replaced whole at each change."""

    state: WatchState = WatchState.IDLE
    detail: str = ""
    """The call and code that failed."""
    failures: int = 0
    """In a row."""
    registered: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Mask of nvmlEventType by UUID of the cards that are heard."""
    refused: Mapping[str, Refusal] = field(default_factory=lambda: MappingProxyType({}))
    """Cards that are not heard, and why."""
    openable: bool | None = None
    """Whether this process can open the device nodes; looked at when waiting has failed."""

    def evidence(self) -> ChecksFailed | ChecksWorked | None:
        """What this says of the source `events`; None where it says nothing yet."""
        if self.state is WatchState.HANGING:
            return ChecksFailed(SOURCE, self.detail, failures=self.failures, remedy=_REMEDY)
        if self.state is WatchState.FAILED:
            codes = {uuid: refusal.code for uuid, refusal in self.refused.items()}
            return ChecksFailed(SOURCE, self.detail, MappingProxyType(codes), self.openable, self.failures)
        return ChecksWorked(SOURCE) if self.state is WatchState.WATCHING else None


_REMEDY = (
    "Xids are not heard, the wait for them hangs in the driver. Look in the kernel log for NVRM and Xid, and cordon "
    "the GPUs that have one there; if the call does not come back, drain and reboot the node"
)


class EventTiming(Struct, frozen=True):
    """Periods in seconds, and numbers of failures in a row."""

    wait: float = 0.5
    """One wait in the driver: how soon a stop, or another set of cards, is noticed. Events come at once."""
    first_delay: float = 0.1
    longest_delay: float = 30.0
    retry_refused: float = 60.0
    hung_after: float = 10.0
    """In one call: many waits, and more than initialising a driver takes as a rule."""
    renew_after: int = 3
    decide_after: int = 5
