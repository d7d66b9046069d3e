"""What every call goes through: counting, catching up, faults, the checks a driver makes first."""

from __future__ import annotations

import ctypes
import functools
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import pynvml

from fake_nvml.api import since
from fake_nvml.faults import Fault, Tally
from fake_nvml.state import GpuState, MigDevice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fake_nvml.world import World

P = ParamSpec("P")
T = TypeVar("T")
_GENERATION_BITS = 20
_HANDLES_AT = 0x7F00_0000_0000
DEVICE_PARAMETERS = ("handle", "device", "device1", "handle1", "migDevice")


@dataclass(frozen=True, slots=True)
class Mig:
    """A MIG device as a handle names it."""

    parent: GpuState
    device: MigDevice


Device = GpuState | Mig


def call(*, mig: bool = False, always: bool = False, parent: bool = True) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a method one of the driver's calls.

    Args:
        mig: it also takes a MIG device; others answer NOT_SUPPORTED for one.
        always: it needs no initialised library.
        parent: it works on a GPU that is in MIG mode.
    """

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        name = function.__name__
        takes = function.__code__.co_varnames[1:2]
        takes_device = bool(takes) and takes[0] in DEVICE_PARAMETERS

        @functools.wraps(function)
        def entry(*args: P.args, **kwargs: P.kwargs) -> T:
            self = cast("Calls", args[0])
            rest = list(args[1:])
            if takes_device and not rest and takes[0] in kwargs:
                rest = [kwargs.pop(takes[0])]
            with self.world.changed:
                self.begin(name, always=always)
                if takes_device and rest:
                    rest[0] = self.admit(name, rest[0], mig=mig, parent=parent)
                fault = self.endure(name, self.subject(name, rest))
                if fault is not None and not isinstance(fault.value, dict):
                    return cast("T", fault.value)
                answer = function(self, *rest, **kwargs)  # type: ignore[arg-type]
                for name_of, value in fault.value.items() if fault is not None else ():
                    setattr(answer, name_of, value)
                return answer

        entry.__fake_call__ = True  # type: ignore[attr-defined]
        return entry

    return wrap


class Calls:
    """The library as one process has it: initialised or not, its handles, the faults it met."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls: Counter[str] = Counter()
        self.users = 0  # nvmlInit less nvmlShutdown
        self.generation = 0
        self.closed = False
        self.at_shutdown: list[Callable[[], None]] = []
        self.enumerated: dict[int, int] = {}  # GPU number -> incarnation, as found by nvmlInit
        self.loaded = world.state.loads if world.state.library else None
        self._handles: dict[int, tuple[int, int | None]] = {}  # address -> GPU number, MIG serial
        self._addresses: dict[tuple[int, int | None], int] = {}
        self._tally = Tally()

    # the order of checks below is the real library's: symbol, initialisation, handle, device
    def begin(self, name: str, *, always: bool) -> None:
        """Count the call and refuse it where the library or the driver cannot take any."""
        self.calls[name] += 1
        self.world.sync()
        if always:
            return
        if not self.users:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        if not since.has_call(name, self.driver_major):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        self.check_driver()

    def check_driver(self) -> None:
        """Refuse where the driver under the library is another one than it was, or gone."""
        if self.loaded != self.world.state.loads:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
        if not self.world.state.loaded:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)

    def admit(self, name: str, handle: Any, *, mig: bool, parent: bool) -> Device:
        """The device behind a handle, if the call may be made on it."""
        found = self.device(handle)
        one = found.parent if isinstance(found, Mig) else found
        if name in one.gpu.card.unsupported or name.partition("_v")[0] in one.gpu.card.unsupported:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if isinstance(found, Mig) and not mig:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if not parent and one.mig_mode:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return found

    def endure(self, name: str, gpu: int | None) -> Fault | None:
        """Let the faults laid on this call take effect; one that replaces the answer is handed back."""
        state = self.world.state
        if not state.faults:
            return None
        hit = [f for f in list(state.faults.values()) if f.matches(name, gpu) and self._tally.due(f)]
        for fault in hit:
            self._delay(fault)
        for fault in hit:
            if fault.code:
                raise pynvml.NVMLError(fault.code)
        return next((fault for fault in hit if fault.answers), None)

    def _delay(self, fault: Fault) -> None:
        world = self.world
        until = time.monotonic() + fault.delay
        while fault.id in world.state.faults and not self.closed:
            left = None if fault.hang else until - time.monotonic()
            if left is not None and left <= 0:
                return
            world.wait(left)

    def subject(self, name: str, args: Iterable[Any]) -> int | None:
        """The number of the GPU a call is about, None where it is about none."""
        first = next(iter(args), None)
        if isinstance(first, Mig):
            return first.parent.number
        if isinstance(first, GpuState):
            return first.number
        if name == "nvmlDeviceGetHandleByIndex" and isinstance(first, int):
            found = self.order()
            return found[first] if 0 <= first < len(found) else None
        return None

    @property
    def driver_major(self) -> int:
        """The major version of the driver that runs."""
        return since.major(self.world.state.driver)

    def order(self) -> list[int]:
        """Numbers of the GPUs in NVML's index order, as found when the library was initialised."""
        return [number for number in self.world.state.order if number in self.enumerated]

    def device(self, handle: Any) -> Device:
        """What a handle names.

        Raises:
            NVMLError: INVALID_ARGUMENT for what is no live handle of this generation, GPU_IS_LOST.
        """
        key = self._handles.get(address(handle, pynvml.c_nvmlDevice_t))
        if key is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        number, serial = key
        one = self.world.state.gpus[number]
        if not self.alive(number):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        if serial is None:
            return one
        for device in one.devices.values():
            if device.serial == serial:
                return Mig(one, device)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)

    def gpu(self, handle: Any) -> GpuState:
        """The GPU a handle names; a MIG device is an invalid argument here."""
        found = self.device(handle)
        if isinstance(found, Mig):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return found

    def alive(self, number: int) -> bool:
        """Whether a GPU answers, and is the one that was there when the library was initialised."""
        one = self.world.state.gpus[number]
        return one.usable and one.incarnation == self.enumerated.get(number)

    def handle(self, number: int, serial: int | None = None) -> Any:
        """The handle of a GPU, or of a MIG device of it."""
        key = (number, serial)
        if key not in self._addresses:
            self._addresses[key] = place = self.new_address()
            self._handles[place] = key
        return pointer_to(self._addresses[key], pynvml.c_nvmlDevice_t)

    def new_address(self) -> int:
        """An address no handle of this library ever had."""
        self._last = getattr(self, "_last", 0) + 16
        return _HANDLES_AT + (self.generation << _GENERATION_BITS) + self._last

    def forget(self) -> None:
        """Make every handle stale."""
        self._handles.clear()
        self._addresses.clear()
        self.enumerated = {}
        self.generation += 1


def pointer_to(place: int, kind: Any) -> Any:
    """A pointer of one of pynvml's opaque handle types."""
    return ctypes.cast(ctypes.c_void_p(place), kind)


def address(handle: Any, kind: Any) -> int:
    """The address in a handle; 0 (which is none) for anything that is no handle of that type."""
    if not isinstance(handle, kind):
        return 0
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
