"""Initialising the library, versions, error texts."""

from __future__ import annotations

from typing import Any

import pynvml

from fake_nvml.api.calls import Calls, call
from fake_nvml.machine import Machine


class Life(Calls):
    """nvmlInit, nvmlShutdown and what concerns the whole system."""

    @call(always=True)
    def nvmlInitWithFlags(self, flags: int) -> None:
        """Load the library and find the GPUs that answer now; later changes need another first nvmlInit."""
        self._load()
        state = self.world.state
        if not self.users:
            self.forget()
            self.enumerated = {one.number: one.incarnation for one in state.gpus if one.usable}
            self.world.hold()
        self.users += 1

    def _load(self) -> None:
        state = self.world.state
        if self.loaded is None:
            if not state.library:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
            self.loaded = state.loads
        if not state.loaded:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
        if self.loaded != state.loads:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)

    @call(always=True)
    def nvmlInit(self) -> None:
        """As nvmlInitWithFlags(0)."""
        self.nvmlInitWithFlags(0)

    @call(always=True)
    def nvmlShutdown(self) -> None:
        """Undo one nvmlInit; the last one makes every handle stale and lets go of the driver."""
        if not self.users:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        self.users -= 1
        if not self.users:
            self.forget()
            for forget in self.at_shutdown:
                forget()
            self.world.unhold()
            self.world.changed.notify_all()

    @call(always=True)
    def nvmlErrorString(self, result: int) -> str:
        """The text of a return code."""
        known: dict[int, str] = pynvml.NVMLError._errcode_to_string  # noqa: SLF001
        return known.get(result, f"Unknown Error {result}")

    @call()
    def nvmlSystemGetDriverVersion(self) -> str:
        """The version of the kernel driver."""
        return self.world.state.driver

    @call()
    def nvmlSystemGetNVMLVersion(self) -> str:
        """The version of the library: the CUDA major number and the driver's version."""
        return f"{_machine(self).cuda // 1000}.{self.world.state.driver}"

    @call()
    def nvmlSystemGetCudaDriverVersion(self) -> int:
        """The newest CUDA version the driver takes, as major * 1000 + minor * 10."""
        return _machine(self).cuda

    @call()
    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        """The newest CUDA version the driver takes, as major * 1000 + minor * 10."""
        return _machine(self).cuda

    @call()
    def nvmlSystemGetProcessName(self, pid: int) -> str:
        """The command of a process that uses a GPU."""
        if any(pid in one.processes for one in self.world.state.gpus):
            return f"/usr/bin/pretend-{pid}"
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    @call()
    def nvmlGetExcludedDeviceCount(self) -> int:
        """How many GPUs the driver was told to leave out."""
        return 0

    @call()
    def nvmlGetExcludedDeviceInfoByIndex(self, index: int) -> Any:
        """A GPU the driver was told to leave out; there is none."""
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)


def _machine(calls: Calls) -> Machine:
    return calls.world.machine
