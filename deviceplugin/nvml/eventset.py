"""One event set of the driver: which cards it hears, which refused, and what an event means."""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress
from dataclasses import dataclass, field

import pynvml
from msgspec import Struct

from deviceplugin.model.errors import NvmlError
from deviceplugin.model.vitals import Event, EventKind
from deviceplugin.nvml.api import CStruct, Handle, NvmlApi
from deviceplugin.nvml.codes import ABSENT, Code, failure, name

KINDS = {
    pynvml.nvmlEventTypeXidCriticalError: EventKind.XID,
    pynvml.nvmlEventTypeSingleBitEccError: EventKind.SINGLE_BIT_ECC,
    pynvml.nvmlEventTypeDoubleBitEccError: EventKind.DOUBLE_BIT_ECC,
    pynvml.nvmlEventTypeSingleBitEccErrorStorm: EventKind.SINGLE_BIT_ECC_STORM,
    pynvml.nvmlEventTypeDramRetirementEvent: EventKind.DRAM_RETIREMENT,
    pynvml.nvmlEventTypeDramRetirementFailure: EventKind.DRAM_RETIREMENT_FAILURE,
    pynvml.nvmlEventTypeNonFatalPoisonError: EventKind.CONTAINED_POISON,
    pynvml.nvmlEventTypeFatalPoisonError: EventKind.FATAL_POISON,
    pynvml.nvmlEventTypeGpuUnavailableError: EventKind.UNAVAILABLE,
    pynvml.nvmlEventTypeGpuRecoveryAction: EventKind.RECOVERY_ACTION,
}
WANTED = sum(KINDS)
_WHOLE = 0xFFFFFFFF
_MOST_LEFT = 1000


class Refusal(Struct, frozen=True):
    """Why a card is not heard."""

    call: str
    code: int

    @property
    def lasting(self) -> bool:
        """The card or the driver has no events: asking again would not help."""
        return self.code in ABSENT

    def __str__(self) -> str:
        return f"{self.call} answered {name(self.code)}"


@dataclass
class EventSet:
    """An event set under construction and in use.

    Attributes:
        registered: Mask of event types by UUID of the card.
        refused: Why the other cards are not heard.
    """

    api: NvmlApi
    handle: CStruct
    registered: dict[str, int] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    _cards: dict[int, str] = field(default_factory=dict)

    @classmethod
    def create(cls, api: NvmlApi) -> EventSet:
        """An empty set.

        Raises:
            NvmlError: The driver gives none.
        """
        try:
            return cls(api, api.nvmlEventSetCreate())
        except pynvml.NVMLError as error:
            raise failure("nvmlEventSetCreate", int(error.value)) from error

    def register(self, uuid: str, *, check: bool = False) -> None:
        """Lets the set hear a card, or writes down why it cannot; `check` has the card show first that it is there."""
        call = "nvmlDeviceGetHandleByUUID"
        try:
            card = self.api.nvmlDeviceGetHandleByUUID(uuid)
            if check:
                call = "nvmlDeviceGetMemoryInfo"
                self._show(card)
            call = "nvmlDeviceGetSupportedEventTypes"
            types = self.api.nvmlDeviceGetSupportedEventTypes(card) & WANTED
            call = "nvmlDeviceRegisterEvents"
            self.api.nvmlDeviceRegisterEvents(card, types, self.handle)
        except pynvml.NVMLError as error:
            self.refused[uuid] = Refusal(call, int(error.value))
            return
        self.refused.pop(uuid, None)
        self.registered[uuid] = types
        self._cards[_address(card)] = uuid

    def _show(self, card: Handle) -> None:
        try:
            self.api.nvmlDeviceGetMemoryInfo(card)
        except pynvml.NVMLError as error:
            if error.value == Code.GPU_IS_LOST:
                raise

    def retry(self) -> bool:
        """Asks again the cards that refused for a passing reason; whether any is heard now that was not."""
        again = [uuid for uuid, refusal in self.refused.items() if not refusal.lasting]
        for uuid in again:
            self.register(uuid)
        return any(uuid in self.registered for uuid in again)

    def wait(self, timeout_ms: int) -> Event | None:
        """The next event; None if none came in time.

        Raises:
            NvmlError: The set can no longer be waited for.
        """
        try:
            data = self.api.nvmlEventSetWait_v2(self.handle, timeout_ms)
        except pynvml.NVMLError as error:
            if error.value == Code.TIMEOUT:
                return None
            raise failure("nvmlEventSetWait_v2", int(error.value)) from error
        return self._event(data)

    def close(self) -> list[Event]:
        """Gives the set back to the driver, which may have forgotten it already; returns what had come meanwhile."""
        events: list[Event] = []
        with suppress(NvmlError):
            while (event := self.wait(0)) is not None and len(events) < _MOST_LEFT:
                events.append(event)
        with suppress(pynvml.NVMLError):
            self.api.nvmlEventSetFree(self.handle)
        return events

    def first_refusal(self) -> NvmlError:
        """The error to raise where no card at all is heard."""
        refusal = next(iter(self.refused.values()))
        return failure(refusal.call, refusal.code)

    def _event(self, data: CStruct) -> Event:
        kind = KINDS.get(data.eventType, EventKind.OTHER)
        return Event(
            uuid=self._cards.get(_address(data.device)) or self._name(data.device),
            kind=kind,
            xid=int(data.eventData) if kind is EventKind.XID else None,
            gi=None if data.gpuInstanceId == _WHOLE else int(data.gpuInstanceId),
            ci=None if data.computeInstanceId == _WHOLE else int(data.computeInstanceId),
            at=time.time(),
        )

    def _name(self, card: Handle) -> str | None:
        try:
            return self.api.nvmlDeviceGetUUID(card) or None
        except (pynvml.NVMLError, UnicodeDecodeError):
            return None


def _address(handle: Handle) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
