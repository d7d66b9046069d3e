"""Whether a GPU's memory is sound."""

from __future__ import annotations

from typing import Any

import pynvml

from fake_nvml.api.calls import Calls, Device, Mig, call
from fake_nvml.state import GpuState

_BANKS_PER_MIB = 640 / 81920


class Health(Calls):
    """Calls about ECC, row remapping and page retirement."""

    @call()
    def nvmlDeviceGetEccMode(self, handle: GpuState) -> list[int]:
        """Current and pending mode."""
        if not handle.gpu.card.ecc:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [1, 1]

    @call()
    def nvmlDeviceGetCurrentEccMode(self, handle: GpuState) -> int:
        """1 where ECC is on."""
        if not handle.gpu.card.ecc:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return 1

    @call(mig=True)
    def nvmlDeviceGetTotalEccErrors(self, handle: Device, errorType: int, counterType: int) -> int:
        """Errors of a type (corrected 0, uncorrected 1), volatile (0) or since ever (1)."""
        one = handle.parent if isinstance(handle, Mig) else handle
        return errors(one, errorType, counterType)

    @call(mig=True)
    def nvmlDeviceGetMemoryErrorCounter(
        self, handle: Device, errorType: int, counterType: int, locationType: int
    ) -> int:
        """Errors by place; the fake has them all in device memory."""
        one = handle.parent if isinstance(handle, Mig) else handle
        found = errors(one, errorType, counterType)
        return found if locationType == pynvml.NVML_MEMORY_LOCATION_DEVICE_MEMORY else 0

    @call()
    def nvmlDeviceGetRemappedRows(self, device: GpuState) -> tuple[int, int, int, int]:
        """Rows remapped for correctable and uncorrectable errors; pending; failed."""
        if not device.gpu.card.row_remap:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        rows = device.rows
        return (
            rows.get("correctable", 0),
            rows.get("uncorrectable", 0),
            rows.get("pending", 0),
            rows.get("failure", 0),
        )

    @call()
    def nvmlDeviceGetRowRemapperHistogram(self, device: GpuState) -> Any:
        """How many memory banks have how many spare rows left."""
        if not device.gpu.card.row_remap:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        histogram = pynvml.c_nvmlRowRemapperHistogramValues()
        used = device.rows.get("correctable", 0) + device.rows.get("uncorrectable", 0)
        histogram.max = max(0, round((device.gpu.card.memory_mib or 0) * _BANKS_PER_MIB) - used)
        histogram.high = used
        return histogram

    @call()
    def nvmlDeviceGetRetiredPagesPendingStatus(self, device: GpuState) -> int:
        """1 where pages wait for a reboot to be retired."""
        if not device.gpu.card.page_retirement:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return device.pages.get("pending", 0)

    @call()
    def nvmlDeviceGetRetiredPages(self, device: GpuState, sourceFilter: int) -> list[int]:
        """Addresses of the pages retired for a cause."""
        if not device.gpu.card.page_retirement:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        cause = {0: "single", 1: "double"}.get(sourceFilter)
        if cause is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return [0x1000 * (page + 1) for page in range(device.pages.get(cause, 0))]


def errors(one: GpuState, error: int, counter: int) -> int:
    """ECC errors of a GPU; fails as the driver does where it has no ECC."""
    if not one.gpu.card.ecc:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    if error not in (0, 1) or counter not in (0, 1):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return one.ecc.get((error, counter), 0)
