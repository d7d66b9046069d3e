"""Which GPUs there are, and what each of them is."""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml

from fake_nvml.api import since
from fake_nvml.api.calls import Calls, Device, Mig, call
from fake_nvml.state import GpuState


class Identity(Calls):
    """Counting, finding and describing devices."""

    @call()
    def nvmlDeviceGetCount(self) -> int:
        """GPUs found by nvmlInit; one lost since still counts."""
        return len(self.enumerated)

    @call()
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        """The handle of the GPU at an index (PCI order among the GPUs found by nvmlInit)."""
        wanted, found = ctypes.c_uint(index).value, self.order()
        if wanted >= len(found):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return self._answering(found[wanted])

    @call()
    def nvmlDeviceGetHandleByUUID(self, uuid: str | bytes) -> Any:
        """The handle of the GPU or MIG device of that uuid."""
        wanted = uuid.decode() if isinstance(uuid, bytes) else uuid
        for number in self.order():
            one = self.world.state.gpus[number]
            if one.gpu.uuid == wanted:
                return self._answering(number)
            for device in one.devices.values():
                if one.mig_uuid(device, opaque=self.opaque) == wanted:
                    return self.handle(number, device.serial)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    @call()
    def nvmlDeviceGetHandleByPciBusId(self, pciBusId: str | bytes) -> Any:
        """The handle of the GPU at a PCI address, the domain written with any number of digits."""
        text = pciBusId.decode() if isinstance(pciBusId, bytes) else pciBusId
        for number in self.order():
            if _bus(self.world.state.gpus[number].gpu.bus_id) == _bus(text):
                return self._answering(number)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    @call()
    def nvmlDeviceGetHandleBySerial(self, serial: str | bytes) -> Any:
        """The handle of the GPU with a board serial number."""
        wanted = serial.decode() if isinstance(serial, bytes) else serial
        for number in self.order():
            if self.world.state.gpus[number].gpu.serial == wanted:
                return self._answering(number)
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def _answering(self, number: int) -> Any:
        if not self.alive(number):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return self.handle(number)

    @property
    def opaque(self) -> bool:
        """Whether MIG uuids have today's opaque form."""
        return self.driver_major >= since.OPAQUE_MIG_UUID

    @call(mig=True)
    def nvmlDeviceGetUUID(self, handle: Device) -> str:
        """`GPU-...` or `MIG-...`."""
        if isinstance(handle, Mig):
            return handle.parent.mig_uuid(handle.device, opaque=self.opaque)
        return handle.gpu.uuid

    @call(mig=True)
    def nvmlDeviceGetName(self, handle: Device) -> str:
        """The product's name; that of a MIG device ends in `MIG <profile>`."""
        if isinstance(handle, Mig):
            return f"{handle.parent.gpu.card.name} MIG {handle.device.profile}"
        return handle.gpu.card.name

    @call()
    def nvmlDeviceGetIndex(self, handle: GpuState) -> int:
        """The index of a GPU."""
        return self.order().index(handle.number)

    @call()
    def nvmlDeviceGetMinorNumber(self, handle: GpuState) -> int:
        """<n> of /dev/nvidia<n>."""
        if not handle.gpu.card.minor:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return handle.gpu.minor

    @call()
    def nvmlDeviceGetPciInfo_v3(self, handle: GpuState) -> Any:
        """The PCI address and ids."""
        return pci_info(handle.gpu.bus_id, handle.gpu.card.device_id, handle.gpu.card.subsystem_id)

    @call()
    def nvmlDeviceGetPciInfo(self, handle: GpuState) -> Any:
        """The PCI address and ids."""
        return pci_info(handle.gpu.bus_id, handle.gpu.card.device_id, handle.gpu.card.subsystem_id)

    @call()
    def nvmlDeviceGetCudaComputeCapability(self, handle: GpuState) -> tuple[int, int]:
        """Major and minor compute capability."""
        return handle.gpu.card.capability

    @call()
    def nvmlDeviceGetArchitecture(self, device: GpuState) -> int:
        """NVML_DEVICE_ARCH_*."""
        return device.gpu.card.architecture

    @call()
    def nvmlDeviceGetBrand(self, handle: GpuState) -> int:
        """NVML_BRAND_*."""
        return handle.gpu.card.brand

    @call()
    def nvmlDeviceGetSerial(self, handle: GpuState) -> str:
        """The board's serial number; consumer cards have none."""
        if handle.gpu.card.brand == pynvml.NVML_BRAND_GEFORCE:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return handle.gpu.serial

    @call()
    def nvmlDeviceGetBoardId(self, handle: GpuState) -> int:
        """The same number for GPUs on one board."""
        return min(n for n, level in enumerate(self.world.machine.levels[handle.number]) if level == 0) + 0x100

    @call()
    def nvmlDeviceGetMultiGpuBoard(self, handle: GpuState) -> int:
        """1 where the board carries more than one GPU."""
        return int(sum(level == 0 for level in self.world.machine.levels[handle.number]) > 1)

    @call()
    def nvmlDeviceGetVbiosVersion(self, handle: GpuState) -> str:
        """The firmware's version."""
        return f"{handle.gpu.card.architecture + 87:02X}.00.{handle.gpu.card.device_id >> 24:02X}.00.01"

    @call()
    def nvmlDeviceGetNumGpuCores(self, device: GpuState) -> int:
        """CUDA cores of the GPU."""
        per = 64 if device.gpu.card.capability in ((7, 0), (7, 5), (8, 0)) else 128
        return device.gpu.card.multiprocessors * per

    @call()
    def nvmlDeviceGetPersistenceMode(self, handle: GpuState) -> int:
        """1: the driver stays loaded without clients."""
        return int(self.world.machine.device_nodes)

    @call()
    def nvmlDeviceGetComputeMode(self, handle: GpuState) -> int:
        """NVML_COMPUTEMODE_*."""
        return handle.compute_mode

    @call()
    def nvmlDeviceSetComputeMode(self, handle: GpuState, mode: int) -> None:
        """Lasts until the GPU is reset or the driver loaded anew."""
        if mode not in range(pynvml.NVML_COMPUTEMODE_COUNT):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        self.world.submit({"op": "compute-mode", "gpu": handle.number, "mode": mode})

    @call()
    def nvmlDeviceGetDisplayMode(self, handle: GpuState) -> int:
        """1 where a display is connected."""
        return 0

    @call()
    def nvmlDeviceGetDisplayActive(self, handle: GpuState) -> int:
        """1 where a display is initialised."""
        return 0

    @call()
    def nvmlDeviceGetVirtualizationMode(self, handle: GpuState) -> int:
        """NVML_GPU_VIRTUALIZATION_MODE_*; 0 is bare metal."""
        return 0

    @call()
    def nvmlDeviceGetNumaNodeId(self, handle: GpuState) -> int:
        """The NUMA node that the GPU's own memory is; not the node the GPU is near to."""
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


def pci_info(bus_id: str, device_id: int, subsystem_id: int) -> Any:
    """The PCI structure for a bus id with an 8-digit domain."""
    domain, bus, rest = bus_id.split(":")
    info = pynvml.nvmlPciInfo_t()
    info.busId = bus_id
    info.busIdLegacy = f"{domain[-4:]}:{bus}:{rest}"
    info.domain, info.bus, info.device = int(domain, 16), int(bus, 16), int(rest.partition(".")[0], 16)
    info.pciDeviceId, info.pciSubSystemId = device_id, subsystem_id
    return info


def _bus(text: str) -> tuple[int, ...]:
    try:
        domain, bus, rest = text.split(":") if text.count(":") > 1 else ["0", *text.split(":")]
        device, _, function = rest.partition(".")
        return int(domain, 16), int(bus, 16), int(device, 16), int(function or "0", 16)
    except ValueError:
        return ()
