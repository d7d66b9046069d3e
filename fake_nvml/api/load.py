"""How busy a GPU is, and with what."""

from __future__ import annotations

from typing import Any, NoReturn

import pynvml

from fake_nvml import figures
from fake_nvml.api import since
from fake_nvml.api.calls import Calls, Device, Mig, call
from fake_nvml.state import ANY, GpuState, Process

_SAMPLING_US = 167_000


class Load(Calls):
    """Calls about use: utilisation, memory, PCIe, processes."""

    @call(parent=False)
    def nvmlDeviceGetUtilizationRates(self, handle: GpuState) -> Any:
        """Percent busy of multiprocessors and memory; not told in MIG mode."""
        rates = pynvml.c_nvmlUtilization_t()
        rates.gpu, rates.memory = figures.utilization(handle), figures.memory_utilization(handle)
        return rates

    @call(parent=False)
    def nvmlDeviceGetEncoderUtilization(self, handle: GpuState) -> list[int]:
        """Percent busy and the sampling period in microseconds."""
        return [figures.codec_utilization(handle), _SAMPLING_US]

    @call(parent=False)
    def nvmlDeviceGetDecoderUtilization(self, handle: GpuState) -> list[int]:
        """Percent busy and the sampling period in microseconds."""
        return [figures.codec_utilization(handle), _SAMPLING_US]

    @call(mig=True)
    def nvmlDeviceGetMemoryInfo(self, handle: Device, version: int | None = None) -> Any:
        """Bytes total, used and free; version 2 tells what the driver reserves apart from what is used."""
        if version and self.driver_major < since.MEMORY_V2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        if version and version != pynvml.nvmlMemory_v2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        total, kept, used = _memory(handle)
        info = pynvml.c_nvmlMemory_v2_t() if version else pynvml.c_nvmlMemory_t()
        info.total, info.free = total, total - kept - used
        info.used = used if version else used + kept
        if version:
            info.version, info.reserved = version, kept
        return info

    @call(mig=True)
    def nvmlDeviceGetBAR1MemoryInfo(self, handle: Device) -> Any:
        """The window through which the CPU sees the memory."""
        total = _memory(handle)[0]
        info = pynvml.c_nvmlBAR1Memory_t()
        info.bar1Total = 1 << max(total - 1, 1).bit_length()
        info.bar1Used = 4 << 20
        info.bar1Free = info.bar1Total - info.bar1Used
        return info

    @call()
    def nvmlDeviceGetPcieThroughput(self, device: GpuState, counter: int) -> int:
        """KiB/s sent or received over PCIe."""
        if counter not in (pynvml.NVML_PCIE_UTIL_TX_BYTES, pynvml.NVML_PCIE_UTIL_RX_BYTES):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if device.mig_mode:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return figures.pcie_rate(device)

    @call()
    def nvmlDeviceGetPcieReplayCounter(self, handle: GpuState) -> int:
        """PCIe packets sent again."""
        return handle.replays

    @call()
    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: GpuState) -> int:
        """PCIe generation in use."""
        return handle.gpu.card.pcie_generation

    @call()
    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: GpuState) -> int:
        """PCIe generation the slot and card can do."""
        return handle.gpu.card.pcie_generation

    @call()
    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: GpuState) -> int:
        """PCIe lanes in use."""
        return handle.gpu.card.pcie_width

    @call()
    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: GpuState) -> int:
        """PCIe lanes the slot and card can do."""
        return handle.gpu.card.pcie_width

    @call(mig=True)
    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Device) -> list[Any]:
        """Processes with a compute context."""
        return _processes(handle)

    @call(mig=True)
    def nvmlDeviceGetComputeRunningProcesses_v2(self, handle: Device) -> list[Any]:
        """Processes with a compute context."""
        return _processes(handle)

    @call(mig=True)
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Device) -> list[Any]:
        """Processes with a compute context; the newest form, which an old driver lacks."""
        if not since.has_call("nvmlDeviceGetComputeRunningProcesses_v3", self.driver_major):
            _mismatch("nvmlDeviceGetComputeRunningProcesses")
        return _processes(handle)

    @call(mig=True)
    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Device) -> list[Any]:
        """Processes with a graphics context; there are none."""
        if not since.has_call("nvmlDeviceGetGraphicsRunningProcesses_v3", self.driver_major):
            _mismatch("nvmlDeviceGetGraphicsRunningProcesses")
        return []

    @call(mig=True)
    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: Device) -> list[Any]:
        """Processes that use the GPU through MPS; there are none."""
        return []


def _mismatch(name: str) -> NoReturn:
    raise pynvml.NVMLLibraryMismatchError(f"unversioned {name} called and the driver has no {name}_v3")


def _memory(device: Device) -> tuple[int, int, int]:
    """Bytes in total, kept by the driver, in use."""
    one = device.parent if isinstance(device, Mig) else device
    if one.gpu.card.memory_mib is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    if isinstance(device, Mig):
        total = device.device.gi.profile.memory_mib << 20
        kept = total // 128
        listed = sum(process.memory_mib for process in _of(device)) << 20
        return total, kept, min(total - kept, int((total - kept) * one.meter.memory) + listed)
    return one.gpu.card.memory_bytes, figures.reserved(one), figures.memory_used(one)


def _of(device: Mig) -> list[Process]:
    place = (device.device.gi.id, device.device.ci)
    return [process for process in device.parent.processes.values() if (process.gi, process.ci) == place]


def _processes(device: Device) -> list[Any]:
    listed = _of(device) if isinstance(device, Mig) else list(device.processes.values())
    if not isinstance(device, Mig) and not device.mig_mode and device.meter.load:
        listed.append(Process(40_000 + device.number, (figures.memory_used(device) >> 20), ANY, ANY))
    return [
        pynvml.nvmlFriendlyObject(
            {
                "pid": process.pid,
                "usedGpuMemory": process.memory_mib << 20,
                "gpuInstanceId": process.gi,
                "computeInstanceId": process.ci,
            }
        )
        for process in listed
    ]
