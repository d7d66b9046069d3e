"""What sampling learns about cards and need not ask again: their handles, and what they do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from deviceplugin.model.node import Gpu, MigInstance
from deviceplugin.nvml.api import CStruct, Handle, NvmlApi
from deviceplugin.nvml.codes import ABSENT, Code
from deviceplugin.nvml.inquiry import Inquiry, call_name

Answer = TypeVar("Answer")
Field = int | tuple[int, int]
"""A field id, or the id and its scope."""

ALL_LINKS = 0xFFFFFFFF
_UNKNOWN_FIELD = ABSENT | {Code.INVALID_ARGUMENT}
_STALE = frozenset({Code.INVALID_ARGUMENT, Code.GPU_IS_LOST, Code.NOT_FOUND})
_EMPTY = frozenset({Code.NOT_FOUND, Code.INVALID_ARGUMENT})
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class Recall:
    """Memory of one sampler; forgotten when the driver is initialised anew, or a card changes its MIG mode."""

    def __init__(self) -> None:
        self._generation = -1
        self._handles: dict[str, Handle] = {}
        self._modes: dict[str, bool | None] = {}
        self._absent: set[tuple[str, Any]] = set()

    def at(self, generation: int) -> None:
        """Forgets everything learnt before this initialisation of the driver."""
        if generation != self._generation:
            self._generation = generation
            self._handles.clear()
            self._absent.clear()

    def card(self, inquiry: Inquiry, api: NvmlApi, gpu: Gpu) -> Handle | None:
        """Handle of a card; None where the driver gives none."""
        if self._modes.get(gpu.uuid, gpu.mig_enabled) != gpu.mig_enabled:
            self._absent = {(uuid, what) for uuid, what in self._absent if uuid != gpu.uuid}
        self._modes[gpu.uuid] = gpu.mig_enabled
        if gpu.uuid not in self._handles:
            handle = inquiry.ask(gpu.uuid, api.nvmlDeviceGetHandleByUUID, gpu.uuid)
            if handle is None:
                return None
            self._handles[gpu.uuid] = handle
        return self._handles[gpu.uuid]

    def instance(self, inquiry: Inquiry, api: NvmlApi, card: Handle, mig: MigInstance) -> Handle | None:
        """Handle of a MIG instance by its slot, since some drivers find none by UUID; None if another is there now."""
        if mig.uuid not in self._handles:
            call = api.nvmlDeviceGetMigDeviceHandleByIndex
            handle = inquiry.ask(mig.gpu, call, card, mig.slot, expected=_EMPTY)
            if handle is None or inquiry.ask(mig.uuid, api.nvmlDeviceGetUUID, handle) != mig.uuid:
                return None
            self._handles[mig.uuid] = handle
        return self._handles[mig.uuid]

    def ask(
        self, inquiry: Inquiry, uuid: str, call: Callable[..., Answer], handle: Handle, *arguments: Any
    ) -> Answer | None:
        """An answer about a device; what it does not have is asked once."""
        what = (call_name(call), *arguments)
        if self.lacks(uuid, what):
            return None
        answer = inquiry.ask(uuid, call, handle, *arguments, expected=ABSENT)
        self._learn(inquiry.code, uuid, what)
        return answer

    def lacks(self, uuid: str, what: Any) -> bool:
        """Whether a device is known not to have something."""
        return (uuid, what) in self._absent

    def fields(
        self, inquiry: Inquiry, api: NvmlApi, handle: Handle, uuid: str, wanted: Sequence[Field]
    ) -> Mapping[Field, float]:
        """Values of fields, in one call; those that are missing or make no sense are left out."""
        known = [field for field in wanted if not self.lacks(uuid, field)]
        if not known:
            return {}
        values = inquiry.ask(uuid, api.nvmlDeviceGetFieldValues, handle, known, expected=ABSENT)
        for field in known if values is None else ():
            self._learn(inquiry.code, uuid, field)
        found: dict[Field, float] = {}
        for field, value in zip(known, values or (), strict=False):
            if value.nvmlReturn in _UNKNOWN_FIELD:
                self._absent.add((uuid, field))
            elif value.nvmlReturn != Code.SUCCESS:
                inquiry.failed(uuid, "nvmlDeviceGetFieldValues", value.nvmlReturn)
            elif (number := _number(value)) is not None:
                found[field] = number
            else:
                inquiry.garbage(
                    uuid, "nvmlDeviceGetFieldValues", f"a value of type {value.valueType} for field {field}"
                )
        return found

    def _learn(self, code: int, uuid: str, what: Any) -> None:
        if code in ABSENT:
            self._absent.add((uuid, what))
        elif code in _STALE:
            self._handles.pop(uuid, None)


def _number(value: CStruct) -> float | None:
    if not 0 <= value.valueType < len(_VALUES):
        return None
    number: float = getattr(value.value, _VALUES[value.valueType])
    return number if number >= 0 else None
