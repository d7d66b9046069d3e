"""MIG instances of one card."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pynvml
from msgspec.structs import replace

from deviceplugin.model.node import Engines, Gpu, MigInstance, Problem
from deviceplugin.nvml import host
from deviceplugin.nvml.api import CStruct, Handle, NvmlApi
from deviceplugin.nvml.codes import ABSENT, Code
from deviceplugin.nvml.inquiry import Inquiry

_PROFILE = r"(?:\d+c\.)?\d+g\.\d+gb(?:[+-][a-z]+(?:\.[a-z]+)*)*"
_NAMED = rf"(?:^|.*\bMIG )({_PROFILE})"
_OLD_UUID = r"MIG-GPU-[0-9a-fA-F-]+/(\d+)/(\d+)"
SLOTS = 7
"""MIG devices of a card at most, as far as is known."""
_MOST = 64
_NO_ID = 0xFFFFFFFF
_MIB = 1 << 20
_EIGHTHS = 8


class Capabilities(NamedTuple):
    """Where the capability nodes of MIG instances are: their minor numbers, and the root of /dev."""

    minors: Mapping[tuple[int, int, int | None], int]
    dev_root: str

    def node(self, minor: int | None, gi: int, ci: int | None = None) -> str | None:
        """Path of a node on the host; None where the kernel lists none or the node is missing."""
        number = None if minor is None else self.minors.get((minor, gi, ci))
        if number is None:
            return None
        path = host.CAPABILITY.format(number)
        return path if host.exists(self.dev_root, path) else None


class MigReader:
    """Reads the instances of one card in MIG mode."""

    def __init__(self, inquiry: Inquiry, api: NvmlApi, capabilities: Capabilities) -> None:
        self._inquiry = inquiry
        self._api = api
        self._capabilities = capabilities

    def read(self, parent: Handle, gpu: Gpu) -> tuple[MigInstance, ...]:
        """All instances; an empty slot does not end the list."""
        ask = self._inquiry.ask
        slots = ask(gpu.uuid, self._api.nvmlDeviceGetMaxMigDeviceCount, parent, sane=lambda n: 0 <= n <= _MOST)
        found: list[MigInstance] = []
        for slot in range(SLOTS if slots is None else slots):
            expected = {Code.NOT_FOUND, Code.INVALID_ARGUMENT}
            handle = ask(gpu.uuid, self._api.nvmlDeviceGetMigDeviceHandleByIndex, parent, slot, expected=expected)
            if handle is not None:
                instance = self._instance(handle, parent, gpu, slot)
                found += [instance] if instance else []
            elif self._inquiry.code == Code.INVALID_ARGUMENT or gpu.uuid in self._inquiry.lost:
                break
        return tuple(found)

    def _instance(self, handle: Handle, parent: Handle, gpu: Gpu, slot: int) -> MigInstance | None:
        uuid = self._inquiry.ask(gpu.uuid, self._api.nvmlDeviceGetUUID, handle, sane=bool)
        if uuid is None:
            return None
        placement = self._placement(handle, uuid)
        if placement is None:
            detail = f"GPU and compute instance ids of slot {slot} of {gpu.uuid} are unknown: it cannot be offered"
            self._inquiry.note(Problem(uuid, "mig-placement", self._inquiry.code, detail))
            return None
        gi, ci = placement
        attributes = self._inquiry.ask(uuid, self._api.nvmlDeviceGetAttributes_v2, handle)
        profile = self._profile(handle, parent, gpu, (uuid, gi), attributes)
        instance = MigInstance(
            uuid=uuid,
            gpu=gpu.uuid,
            slot=slot,
            gi=gi,
            ci=ci,
            profile=profile,
            complete=_complete(profile, attributes),
            gi_capability=self._capabilities.node(gpu.minor, gi),
            ci_capability=self._capabilities.node(gpu.minor, gi, ci),
        )
        return instance if attributes is None else _with_amounts(instance, attributes)

    def _placement(self, handle: Handle, uuid: str) -> tuple[int, int] | None:
        gi = self._inquiry.ask(uuid, self._api.nvmlDeviceGetGpuInstanceId, handle, sane=_is_id)
        ci = self._inquiry.ask(uuid, self._api.nvmlDeviceGetComputeInstanceId, handle, sane=_is_id)
        if gi is not None and ci is not None:
            return gi, ci
        # Drivers before 470 write the placement into the UUID.
        old = re.fullmatch(_OLD_UUID, uuid)
        return (int(old[1]), int(old[2])) if old else None

    def _profile(
        self, handle: Handle, parent: Handle, gpu: Gpu, instance: tuple[str, int], attributes: CStruct | None
    ) -> str | None:
        uuid, gi = instance
        name = self._inquiry.ask(uuid, self._api.nvmlDeviceGetName, handle)
        return (
            named_profile(name)
            or _with_compute(self._driver_profile(parent, uuid, gi), attributes)
            or computed_profile(gpu.memory, attributes)
        )

    def _driver_profile(self, parent: Handle, uuid: str, gi: int) -> str | None:
        """Name of the GPU instance's profile, looked for among all profiles of the card."""
        ask: Callable[..., CStruct | None] = self._inquiry.ask
        instance = ask(uuid, self._api.nvmlDeviceGetGpuInstanceById, parent, gi)
        info = None if instance is None else ask(uuid, self._api.nvmlGpuInstanceGetInfo, instance)
        if info is None:
            return None
        for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            expected = ABSENT | {Code.INVALID_ARGUMENT}
            call = self._api.nvmlDeviceGetGpuInstanceProfileInfo
            profile = ask(uuid, call, parent, number, 2, expected=expected)
            if profile is not None and profile.id == info.profileId:
                text = profile.name
                return named_profile(text.decode(errors="replace") if isinstance(text, bytes) else str(text))
        return None


def named_profile(name: str | None) -> str | None:
    """The profile in a name of the driver: `NVIDIA A100-SXM4-40GB MIG 1g.5gb+me` or `MIG 1g.5gb`; None if none."""
    match = re.fullmatch(_NAMED, name.strip(), re.IGNORECASE) if name else None
    return match[1].lower() if match else None


def computed_profile(total: int | None, attributes: CStruct | None) -> str | None:
    """The profile that slices and memory amount to, where the driver names none.

    gb = round(ceil(8 * memory / total) / 8 * T), T being the card's memory in GiB rounded up; halves go up.
    """
    if attributes is None or not total or not attributes.gpuInstanceSliceCount:
        return None
    eighths = -(-_EIGHTHS * attributes.memorySizeMB * _MIB // total)
    gib = -(-total // (_MIB << 10))
    gigabytes = (2 * eighths * gib + _EIGHTHS) // (2 * _EIGHTHS)
    return _with_compute(f"{attributes.gpuInstanceSliceCount}g.{gigabytes}gb", attributes)


def _with_compute(profile: str | None, attributes: CStruct | None) -> str | None:
    if profile is None or attributes is None:
        return profile
    compute = attributes.computeInstanceSliceCount
    return f"{compute}c.{profile}" if 0 < compute < attributes.gpuInstanceSliceCount else profile


def _complete(profile: str | None, attributes: CStruct | None) -> bool:
    if profile is not None:
        return "c." not in profile
    return attributes is None or attributes.computeInstanceSliceCount >= attributes.gpuInstanceSliceCount


def _with_amounts(instance: MigInstance, attributes: CStruct) -> MigInstance:
    return replace(
        instance,
        memory_mib=attributes.memorySizeMB,
        gi_slices=attributes.gpuInstanceSliceCount,
        ci_slices=attributes.computeInstanceSliceCount,
        multiprocessors=attributes.multiprocessorCount,
        engines=Engines(
            copy=attributes.sharedCopyEngineCount,
            decoder=attributes.sharedDecoderCount,
            encoder=attributes.sharedEncoderCount,
            jpeg=attributes.sharedJpegCount,
            ofa=attributes.sharedOfaCount,
        ),
    )


def _is_id(number: int) -> bool:
    return 0 <= number < _NO_ID
