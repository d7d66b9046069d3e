"""Event sets: registering for what happens to GPUs, and waiting for it."""

from __future__ import annotations

import ctypes
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pynvml

from fake_nvml.api import since
from fake_nvml.api.calls import Calls, address, call, pointer_to
from fake_nvml.card import EVENTS
from fake_nvml.state import Event, GpuState

if TYPE_CHECKING:
    from fake_nvml.world import World

_FOREVER = 0xFFFFFFFF


@dataclass(slots=True, eq=False, repr=False)
class EventSet:
    """What one set waits for, and what has come and was not fetched yet."""

    kinds: dict[int, int] = field(default_factory=dict)  # GPU number -> mask
    queue: deque[Event] = field(default_factory=deque)


class Events(Calls):
    """Calls about events."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._sets: dict[int, EventSet] = {}
        world.listeners.append(self._happened)
        self.at_shutdown.append(self._sets.clear)

    def _happened(self, event: Event) -> None:
        for one in self._sets.values():
            if one.kinds.get(event.gpu, 0) & event.kind:
                one.queue.append(event)

    def _event_mask(self, one: GpuState) -> int:
        mask = one.gpu.card.events
        if mask is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return mask if self.driver_major >= since.RECOVERY_ACTION else mask & ~EVENTS["recovery-action"]

    @call()
    def nvmlDeviceGetSupportedEventTypes(self, handle: GpuState) -> int:
        """Mask of nvmlEventType* a GPU can send."""
        return self._event_mask(handle)

    @call()
    def nvmlEventSetCreate(self) -> Any:
        """A new, empty set."""
        place = self.new_address()
        self._sets[place] = EventSet()
        return pointer_to(place, pynvml.c_nvmlEventSet_t)

    @call()
    def nvmlDeviceRegisterEvents(self, handle: GpuState, eventTypes: int, eventSet: Any) -> None:
        """Have a set told of a GPU's events; NOT_SUPPORTED if any of the types is not."""
        found = self._set(eventSet)
        kinds = ctypes.c_ulonglong(eventTypes).value
        if kinds & ~self._event_mask(handle):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        found.kinds[handle.number] = found.kinds.get(handle.number, 0) | kinds

    @call()
    def nvmlEventSetWait_v2(self, eventSet: Any, timeoutms: int) -> Any:
        """The next event; TIMEOUT after that many milliseconds, GPU_IS_LOST if a registered GPU is."""
        return self._wait(eventSet, timeoutms)

    @call()
    def nvmlEventSetWait(self, eventSet: Any, timeoutms: int) -> Any:
        """As nvmlEventSetWait_v2."""
        return self._wait(eventSet, timeoutms)

    @call()
    def nvmlEventSetFree(self, eventSet: Any) -> None:
        """Give a set back; whoever still waits on it is told so."""
        self._set(eventSet)
        del self._sets[address(eventSet, pynvml.c_nvmlEventSet_t)]
        self.world.changed.notify_all()

    def _set(self, handle: Any) -> EventSet:
        found = self._sets.get(address(handle, pynvml.c_nvmlEventSet_t))
        if found is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return found

    def _wait(self, handle: Any, timeout_ms: int) -> Any:
        limit = ctypes.c_uint(timeout_ms).value
        until = None if limit == _FOREVER else time.monotonic() + limit / 1000
        while True:
            if not self.users or self.closed:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
            self.check_driver()
            found = self._set(handle)
            if found.queue:
                return self._data(found.queue.popleft())
            if not all(self.alive(number) for number in found.kinds):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
            self.world.wait(left)

    def _data(self, event: Event) -> Any:
        data = pynvml.c_nvmlEventData_t()
        data.device = self.handle(event.gpu)
        data.eventType, data.eventData = event.kind, event.data
        data.gpuInstanceId, data.computeInstanceId = event.gi, event.ci
        return data
