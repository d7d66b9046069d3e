"""How warm, hungry and fast a GPU is."""

from __future__ import annotations

import pynvml

from fake_nvml import figures
from fake_nvml.api.calls import Calls, call
from fake_nvml.state import GpuState


class Power(Calls):
    """Calls about temperature, power and clocks."""

    @call()
    def nvmlDeviceGetTemperature(self, handle: GpuState, sensor: int) -> int:
        """Degrees Celsius of the one sensor there is."""
        if sensor != pynvml.NVML_TEMPERATURE_GPU:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return figures.temperature(handle)

    @call()
    def nvmlDeviceGetTemperatureV(self, handle: GpuState, sensor: int, version: int = pynvml.nvmlTemperature_v1) -> int:
        """Degrees Celsius of the one sensor there is."""
        if version != pynvml.nvmlTemperature_v1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        if sensor != pynvml.NVML_TEMPERATURE_GPU:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return figures.temperature(handle)

    @call()
    def nvmlDeviceGetTemperatureThreshold(self, handle: GpuState, threshold: int) -> int:
        """Degrees Celsius at which the GPU slows down or shuts off."""
        slowdown = handle.gpu.card.slowdown_celsius
        found = {0: slowdown + 5, 1: slowdown, 2: slowdown + 8, 3: slowdown - 2}.get(threshold)
        if found is None or (threshold == 2 and not handle.gpu.card.memory_temperature):  # noqa: PLR2004
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return found

    @call()
    def nvmlDeviceGetPowerUsage(self, handle: GpuState) -> int:
        """Milliwatts drawn."""
        return round(figures.power(handle) * 1000)

    @call()
    def nvmlDeviceGetPowerManagementLimit(self, handle: GpuState) -> int:
        """Milliwatts allowed."""
        return round(handle.gpu.card.limit_watts * 1000)

    @call()
    def nvmlDeviceGetEnforcedPowerLimit(self, handle: GpuState) -> int:
        """Milliwatts allowed by all limits together."""
        return round(handle.gpu.card.limit_watts * 1000)

    @call()
    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: GpuState) -> int:
        """Milliwatts allowed out of the box."""
        return round(handle.gpu.card.limit_watts * 1000)

    @call()
    def nvmlDeviceGetPowerManagementLimitConstraints(self, handle: GpuState) -> list[int]:
        """Lowest and highest limit that can be set, in milliwatts."""
        return [round(handle.gpu.card.min_watts * 1000), round(handle.gpu.card.limit_watts * 1000)]

    @call()
    def nvmlDeviceGetTotalEnergyConsumption(self, handle: GpuState) -> int:
        """Millijoules drawn since the driver was loaded."""
        return round(figures.energy(handle, self.world.clock()) * 1000)

    @call()
    def nvmlDeviceGetClockInfo(self, handle: GpuState, type: int) -> int:
        """MHz of a clock now."""
        return _clock(handle, type, figures.sm_clock(handle))

    @call()
    def nvmlDeviceGetMaxClockInfo(self, handle: GpuState, type: int) -> int:
        """MHz a clock can reach."""
        return _clock(handle, type, handle.gpu.card.sm_mhz)

    @call()
    def nvmlDeviceGetPerformanceState(self, handle: GpuState) -> int:
        """P-state, 0 the fastest."""
        return figures.performance_state(handle)

    @call()
    def nvmlDeviceGetPowerState(self, handle: GpuState) -> int:
        """P-state, 0 the fastest."""
        return figures.performance_state(handle)

    @call()
    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: GpuState) -> int:
        """Mask of nvmlClocksThrottleReason*."""
        return figures.throttle_reasons(handle)

    @call()
    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: GpuState) -> int:
        """Mask of nvmlClocksEventReason*."""
        return figures.throttle_reasons(handle)

    @call()
    def nvmlDeviceGetSupportedClocksThrottleReasons(self, handle: GpuState) -> int:
        """Mask of reasons this GPU can give."""
        return int(pynvml.nvmlClocksThrottleReasonAll)

    @call()
    def nvmlDeviceGetFanSpeed(self, handle: GpuState) -> int:
        """Percent of the fan's full speed; passive cards have none."""
        if not handle.gpu.card.fan:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return round(30 + 50 * handle.meter.load)


def _clock(one: GpuState, kind: int, sm_mhz: int) -> int:
    found = {
        pynvml.NVML_CLOCK_GRAPHICS: sm_mhz,
        pynvml.NVML_CLOCK_SM: sm_mhz,
        pynvml.NVML_CLOCK_MEM: one.gpu.card.memory_mhz,
        pynvml.NVML_CLOCK_VIDEO: round(sm_mhz * 0.85),
    }.get(kind)
    if found is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    if not found:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return found
