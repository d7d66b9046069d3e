"""Performance monitoring of Hopper and newer: the only utilisation there is for MIG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pynvml

from fake_nvml import figures
from fake_nvml.api.calls import Calls, address, call, pointer_to
from fake_nvml.card import ARCHITECTURES
from fake_nvml.state import GpuState

if TYPE_CHECKING:
    from fake_nvml.world import World

_Sample = tuple[int, float, float]  # GPU number, seconds at full load so far, time


class Gpm(Calls):
    """Samples, and what happened between two of them."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._samples: dict[int, _Sample | None] = {}
        self.at_shutdown.append(self._samples.clear)

    @call()
    def nvmlGpmQueryDeviceSupport(self, device: GpuState) -> Any:
        """Whether a GPU can be sampled."""
        support = pynvml.c_nvmlGpmSupport_t()
        support.version = pynvml.NVML_GPM_SUPPORT_VERSION
        support.isSupportedDevice = int(_supported(device))
        return support

    @call()
    def nvmlGpmSampleAlloc(self) -> Any:
        """Room for a sample."""
        place = self.new_address()
        self._samples[place] = None
        return pointer_to(place, pynvml.c_nvmlGpmSample_t)

    @call()
    def nvmlGpmSampleFree(self, gpmSample: Any) -> None:
        """Give the room back."""
        del self._samples[self._sample(gpmSample)]

    @call()
    def nvmlGpmSampleGet(self, device: GpuState, gpmSample: Any) -> Any:
        """Sample a GPU; not one in MIG mode."""
        if device.mig_mode:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self._take(device, gpmSample)

    @call()
    def nvmlGpmMigSampleGet(self, device: GpuState, gpuInstanceId: int, gpmSample: Any) -> Any:
        """Sample a GPU instance."""
        if not device.mig_mode:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if gpuInstanceId not in device.instances:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self._take(device, gpmSample)

    @call()
    def nvmlGpmMetricsGet(self, metricsGet: Any) -> Any:
        """Fill in the metrics asked for, from two samples of one GPU."""
        if metricsGet.version != pynvml.NVML_GPM_METRICS_GET_VERSION:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        first = self._samples[self._sample(metricsGet.sample1)]
        second = self._samples[self._sample(metricsGet.sample2)]
        if first is None or second is None or first[0] != second[0]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        one = self.world.state.gpus[first[0]]
        seconds = second[2] - first[2]
        busy = (second[1] - first[1]) / seconds if seconds > 0 else one.meter.load
        for metric in metricsGet.metrics[: metricsGet.numMetrics]:
            known = _METRICS.get(metric.metricId)
            metric.nvmlReturn = pynvml.NVML_SUCCESS if known else pynvml.NVML_ERROR_NOT_SUPPORTED
            metric.value = known * busy if known else 0.0
        return metricsGet

    def _take(self, device: GpuState, handle: Any) -> Any:
        if not _supported(device):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        now = self.world.clock()
        self._samples[self._sample(handle)] = (device.number, device.meter.busy_seconds(now), now)
        return handle

    def _sample(self, handle: Any) -> int:
        place = address(handle, pynvml.c_nvmlGpmSample_t)
        if place not in self._samples:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return place


# percent at full load
_METRICS = {
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: 100.0,
    pynvml.NVML_GPM_METRIC_SM_UTIL: 96.0,
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: 42.0,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 55.0,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: figures.MEMORY_SHARE,
}


def _supported(one: GpuState) -> bool:
    return one.gpu.card.mig_capable and one.gpu.card.architecture >= ARCHITECTURES["hopper"]
