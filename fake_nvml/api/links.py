"""Links between GPUs: every answer comes from `fabric`."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import pynvml

from fake_nvml import fabric
from fake_nvml.api.calls import Calls, call
from fake_nvml.api.identity import pci_info
from fake_nvml.machine import FABRIC_STATES
from fake_nvml.state import GpuState

if TYPE_CHECKING:
    from fake_nvml.machine import Link

_SWITCH_ID = 0x22A3_10DE
_P2P_INDICES = range(5)


class Links(Calls):
    """NVLink, peer to peer, PCIe distance, fabric."""

    @call()
    def nvmlDeviceGetNvLinkState(self, device: GpuState, link: int) -> int:
        """1 for an active link."""
        _check(device, link)
        return int(fabric.active(self.world.state, device.number, link) is not None)

    @call()
    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: GpuState, link: int) -> int:
        """NVML_NVLINK_DEVICE_TYPE_* of the other end."""
        wire = self._active(handle, link)
        if wire.remote_type is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return wire.remote_type

    @call()
    def nvmlDeviceGetNvLinkRemotePciInfo(self, device: GpuState, link: int) -> Any:
        """The PCI address the driver shows for the other end."""
        wire = self._active(device, link)
        if wire.remote.startswith("FFFFFFFF"):
            return pci_info(wire.remote, 0, 0)
        for one in self.world.state.gpus:
            if one.gpu.bus_id == wire.remote:
                return pci_info(wire.remote, one.gpu.card.device_id, one.gpu.card.subsystem_id)
        return pci_info(wire.remote, _SWITCH_ID, 0)

    @call()
    def nvmlDeviceGetNvLinkVersion(self, device: GpuState, link: int) -> int:
        """NVML_NVLINK_VERSION_*."""
        _check(device, link)
        return device.gpu.card.nvlink_version

    @call()
    def nvmlDeviceGetNvLinkCapability(self, device: GpuState, link: int, capability: int) -> int:
        """1 where an active link can do peer to peer and the like."""
        wire = self._active(device, link)
        return int(capability in (0, 2, 5) or (capability == 4 and wire.peer is not None))  # noqa: PLR2004

    @call()
    def nvmlDeviceGetNvLinkErrorCounter(self, device: GpuState, link: int, counter: int) -> int:
        """Errors of a link by NVML_NVLINK_ERROR_*."""
        _check(device, link)
        if not 0 <= counter < pynvml.NVML_NVLINK_ERROR_COUNT:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return int(counter == pynvml.NVML_NVLINK_ERROR_DL_RECOVERY and link in device.down)

    @call()
    def nvmlDeviceGetP2PStatus(self, device1: GpuState, device2: Any, p2pIndex: int) -> int:
        """NVML_P2P_STATUS_* between two GPUs."""
        other, index = self.gpu(device2), ctypes.c_int(p2pIndex).value
        if index not in _P2P_INDICES or other is device1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return fabric.p2p(self.world.state, device1.number, other.number, index)

    @call()
    def nvmlDeviceGetTopologyCommonAncestor(self, device1: GpuState, device2: Any) -> int:
        """NVML_TOPOLOGY_*: PCIe only."""
        level = self.world.machine.levels[device1.number][self.gpu(device2).number]
        if level is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return level

    @call()
    def nvmlDeviceGetTopologyNearestGpus(self, device: GpuState, level: int) -> list[Any]:
        """Handles of the other GPUs whose common ancestor is of that level."""
        levels = self.world.machine.levels[device.number]
        return [self.handle(n) for n in self.order() if n != device.number and levels[n] == level]

    @call()
    def nvmlDeviceOnSameBoard(self, handle1: GpuState, handle2: Any) -> bool:
        """Whether two GPUs sit on one board."""
        return self.world.machine.levels[handle1.number][self.gpu(handle2).number] == 0

    @call()
    def nvmlDeviceGetGpuFabricInfo(self, device: GpuState, gpuFabricInfo: Any) -> int:
        """Fill a c_nvmlGpuFabricInfo_t, given by reference."""
        _fill(device, _target(gpuFabricInfo, pynvml.c_nvmlGpuFabricInfo_t))
        return int(pynvml.NVML_SUCCESS)

    @call()
    def nvmlDeviceGetGpuFabricInfoV(self, device: GpuState, gpuFabricInfo: Any) -> int:
        """Fill a c_nvmlGpuFabricInfo_v2_t or _v3_t, given by reference, its version set."""
        known = {
            pynvml.nvmlGpuFabricInfo_v2: pynvml.c_nvmlGpuFabricInfo_v2_t,
            pynvml.nvmlGpuFabricInfo_v3: pynvml.c_nvmlGpuFabricInfo_v3_t,
        }
        info = _target(gpuFabricInfo, *known.values())
        if not isinstance(info, known.get(info.version, ())):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        _fill(device, info)
        info.healthMask = fabric.health_mask(device)
        if info.version == pynvml.nvmlGpuFabricInfo_v3:
            info.healthSummary = fabric.health_summary(device)
        return int(pynvml.NVML_SUCCESS)

    def _active(self, device: GpuState, link: int) -> Link:
        _check(device, link)
        wire = fabric.active(self.world.state, device.number, link)
        if wire is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return wire


def _check(device: GpuState, link: int) -> None:
    if not device.gpu.card.nvlinks:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    if not 0 <= link < device.gpu.card.nvlinks:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)


def _target(given: Any, *kinds: Any) -> Any:
    """The structure behind byref(x) or pointer(x); what is given by value is an invalid argument."""
    found = getattr(given, "_obj", None) or getattr(given, "contents", None)
    if not isinstance(found, kinds):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return found


def _fill(device: GpuState, info: Any) -> None:
    if not device.gpu.card.fabric:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    done = device.fabric_state == FABRIC_STATES["completed"]
    info.state = device.fabric_state
    info.status = device.fabric_status if done else 0
    info.cliqueId = device.fabric_clique if done else 0
    for place, byte in enumerate(bytes.fromhex(device.fabric_cluster)):
        info.clusterUuid[place] = byte if done else 0
