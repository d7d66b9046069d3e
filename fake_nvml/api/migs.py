"""MIG: the mode, the devices, what they are made of."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import pynvml

from fake_nvml import mig
from fake_nvml.api import since
from fake_nvml.api.calls import Calls, Device, Mig, call
from fake_nvml.problem import Refused
from fake_nvml.state import GpuState

if TYPE_CHECKING:
    from fake_nvml.card import Profile


class Migs(Calls):
    """Calls about multi-instance GPUs."""

    @call()
    def nvmlDeviceGetMigMode(self, device: GpuState) -> list[int]:
        """Current and pending mode."""
        if not device.gpu.card.mig_capable:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(device.mig_mode), int(device.mig_pending)]

    @call()
    def nvmlDeviceSetMigMode(self, device: GpuState, mode: int) -> int:
        """Switch the mode; IN_USE as long as anyone, the caller included, holds the driver open."""
        if not device.gpu.card.mig_capable:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        try:
            self.world.submit({"op": "mig", "gpu": device.number, "layout": [] if mode else None})
        except Refused:
            return int(pynvml.NVML_ERROR_IN_USE)
        return 0

    @call()
    def nvmlDeviceGetMaxMigDeviceCount(self, device: GpuState) -> int:
        """Slots to ask by index; 0 where MIG is off or unknown to the card."""
        return device.gpu.card.mig_devices if device.mig_mode else 0

    @call()
    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: GpuState, index: int) -> Any:
        """The MIG device in a slot; NOT_FOUND for an empty one."""
        slot = ctypes.c_uint(index).value
        if not device.gpu.card.mig_capable:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if slot >= device.gpu.card.mig_devices:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if not device.mig_mode or slot not in device.devices:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self.handle(device.number, device.devices[slot].serial)

    @call(mig=True)
    def nvmlDeviceIsMigDeviceHandle(self, device: Device) -> Any:
        """A ctypes integer, as pynvml gives: 1 for a MIG device."""
        return ctypes.c_uint(isinstance(device, Mig))

    @call(mig=True)
    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, migDevice: Device) -> Any:
        """The GPU that a MIG device is part of."""
        return self.handle(_mig(migDevice).parent.number)

    @call(mig=True)
    def nvmlDeviceGetGpuInstanceId(self, device: Device) -> int:
        """The GPU instance of a MIG device."""
        return _mig(device).device.gi.id

    @call(mig=True)
    def nvmlDeviceGetComputeInstanceId(self, device: Device) -> int:
        """The compute instance of a MIG device."""
        return _mig(device).device.ci

    @call(mig=True)
    def nvmlDeviceGetAttributes_v2(self, device: Device) -> Any:
        """What a MIG device is made of."""
        return _attributes(_mig(device, pynvml.NVML_ERROR_NOT_SUPPORTED))

    @call(mig=True)
    def nvmlDeviceGetAttributes(self, device: Device) -> Any:
        """What a MIG device is made of."""
        return _attributes(_mig(device, pynvml.NVML_ERROR_NOT_SUPPORTED))

    @call()
    def nvmlDeviceGetGpuInstanceProfileInfo(self, device: GpuState, profile: int, version: int = 2) -> Any:
        """A profile of the card by its NVML_GPU_INSTANCE_PROFILE_*; version 2 has its name."""
        return self._profile_info(device, "profile", profile, version)

    @call()
    def nvmlDeviceGetGpuInstanceProfileInfoV(self, device: GpuState, profile: int, version: int = 2) -> Any:
        """As nvmlDeviceGetGpuInstanceProfileInfo."""
        return self._profile_info(device, "profile", profile, version)

    @call()
    def nvmlDeviceGetGpuInstanceProfileInfoById(self, device: GpuState, profileId: int) -> Any:
        """A profile of the card by the id `nvidia-smi mig -lgip` shows."""
        return self._profile_info(device, "id", profileId, 2)

    @call()
    def nvmlDeviceGetGpuInstanceRemainingCapacity(self, device: GpuState, profileId: int) -> int:
        """How many more instances of a profile fit."""
        if not device.mig_mode:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return len(mig.room_for(device, _find(device, "id", profileId)))

    @call()
    def nvmlDeviceGetGpuInstanceById(self, device: GpuState, gpuInstanceId: int) -> Any:
        """A handle on a GPU instance."""
        if not device.mig_mode:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        if gpuInstanceId not in device.instances:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return _instance_pointer(device.number, gpuInstanceId)

    @call()
    def nvmlGpuInstanceGetInfo(self, gpuInstance: Any) -> Any:
        """Which GPU, id, profile and place a GPU instance has."""
        number, gi = _instance_of(gpuInstance)
        one = self.world.state.gpus[number] if 0 <= number < len(self.world.state.gpus) else None
        if one is None or gi not in one.instances:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        found, info = one.instances[gi], pynvml.c_nvmlGpuInstanceInfo_t()
        info.device, info.id, info.profileId = self.handle(number), gi, found.profile.id
        info.placement.start, info.placement.size = found.start, found.profile.size
        return info

    def _profile_info(self, device: GpuState, key: str, wanted: int, version: int) -> Any:
        if version not in (1, 2) or (version == 2 and self.driver_major < since.PROFILE_NAMES):  # noqa: PLR2004
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return _info(_find(device, key, wanted), version)


def _mig(device: Device, otherwise: int = pynvml.NVML_ERROR_INVALID_ARGUMENT) -> Mig:
    if not isinstance(device, Mig):
        raise pynvml.NVMLError(otherwise)
    return device


def _find(device: GpuState, key: str, wanted: int) -> Profile:
    if not device.gpu.card.mig_capable:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    for profile in device.gpu.card.profiles:
        if getattr(profile, key) == wanted:
            return profile
    known = 0 <= wanted < pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED if known else pynvml.NVML_ERROR_INVALID_ARGUMENT)


def _info(profile: Profile, version: int) -> Any:
    info = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t() if version > 1 else pynvml.c_nvmlGpuInstanceProfileInfo_t()
    info.id, info.sliceCount, info.instanceCount = profile.id, profile.slices, len(profile.starts)
    if profile.exclusive:
        info.instanceCount = 1
    info.multiprocessorCount, info.copyEngineCount = profile.multiprocessors, profile.copy_engines
    info.decoderCount, info.encoderCount = profile.decoders, profile.encoders
    info.jpegCount, info.ofaCount = profile.jpegs, profile.ofas
    info.memorySizeMB = profile.memory_mib
    if version > 1:
        info.name = f"MIG {profile.name}"
    return info


def _attributes(found: Mig) -> Any:
    profile, slices = found.device.gi.profile, found.device.slices
    info = pynvml.c_nvmlDeviceAttributes()
    info.multiprocessorCount = profile.multiprocessors * slices // profile.slices
    info.sharedCopyEngineCount, info.sharedDecoderCount = profile.copy_engines, profile.decoders
    info.sharedEncoderCount, info.sharedJpegCount = profile.encoders, profile.jpegs
    info.sharedOfaCount = profile.ofas
    info.gpuInstanceSliceCount, info.computeInstanceSliceCount = profile.slices, slices
    info.memorySizeMB = profile.memory_mib
    return info


_INSTANCES_AT = 0x7E00_0000_0000


def _instance_pointer(number: int, gi: int) -> Any:
    place = ctypes.c_void_p(_INSTANCES_AT + (number << 8 | gi) * 16)
    return ctypes.cast(place, pynvml.c_nvmlGpuInstance_t)


def _instance_of(handle: Any) -> tuple[int, int]:
    if not isinstance(handle, pynvml.c_nvmlGpuInstance_t):
        return -1, -1
    place = ((ctypes.cast(handle, ctypes.c_void_p).value or 0) - _INSTANCES_AT) // 16
    return place >> 8, place & 0xFF
