"""What one physical card is."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from msgspec.structs import replace

from deviceplugin.model.node import Gpu
from deviceplugin.nvml import host
from deviceplugin.nvml.api import Handle, NvmlApi
from deviceplugin.nvml.codes import ABSENT, Code
from deviceplugin.nvml.inquiry import Inquiry
from deviceplugin.nvml.links import KnownLinks, bus_id, read_counts, read_fabric, read_links
from deviceplugin.nvml.mig import SLOTS, Capabilities, MigReader

_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MINORS = range(1 << 20)
_LARGEST = 1 << 50
_ARCHITECTURE_UNKNOWN = 0xFFFFFFFF


class Surroundings(NamedTuple):
    """What reading a card needs beside the driver: the roots of the host's files and what an earlier scan knew."""

    host_root: str
    capabilities: Capabilities
    earlier: dict[str, Gpu]


def read_uuid(inquiry: Inquiry, api: NvmlApi, handle: Handle, subject: str) -> str | None:
    """UUID of a card; None, and a problem, where there is none to be had or it is no UUID."""
    return inquiry.ask(subject, api.nvmlDeviceGetUUID, handle, sane=lambda text: bool(_UUID.fullmatch(text)))


def read_pci(inquiry: Inquiry, api: NvmlApi, handle: Handle, subject: str) -> str:
    """PCI id as NVML prints it; empty where it cannot be read."""
    info = inquiry.ask(subject, api.nvmlDeviceGetPciInfo, handle)
    if info is None:
        return ""
    text = bus_id(info)
    if host.sysfs_name(text) is None:
        inquiry.garbage(subject, "nvmlDeviceGetPciInfo", repr(text))
        return ""
    return text


class CardReader:
    """Reads the facts of cards; what an earlier scan knew and cannot have changed is not asked again."""

    def __init__(self, inquiry: Inquiry, api: NvmlApi, surroundings: Surroundings) -> None:
        self._inquiry = inquiry
        self._api = api
        self._around = surroundings

    def read(self, handle: Handle, index: int, uuid: str) -> Gpu:
        """One card with its instances, links and fabric state.

        A question that fails for a passing reason keeps the earlier answer: not knowing changes nothing.
        """
        earlier = self._around.earlier.get(uuid)
        pci = read_pci(self._inquiry, self._api, handle, uuid) or (earlier.pci if earlier else "")
        if earlier is not None and earlier.pci != pci:
            earlier = None
        gpu = self._identity(handle, Gpu(index=index, uuid=uuid, pci=pci, name=""), earlier)
        gpu = self._memory_and_mode(handle, gpu, earlier)
        if uuid not in self._inquiry.lost:
            gpu = self._connections(handle, gpu, earlier)
        if uuid not in self._inquiry.lost:
            return gpu
        return replace(earlier or gpu, index=index, lost=True)

    def _identity(self, handle: Handle, gpu: Gpu, earlier: Gpu | None) -> Gpu:
        known = earlier or gpu
        facts: dict[str, Any] = {
            "name": known.name or self._ask(gpu, self._api.nvmlDeviceGetName, handle) or "",
            "minor": known.minor,
            "compute_capability": known.compute_capability,
            "architecture": known.architecture,
            "brand": known.brand,
            "numa": host.numa_node(self._around.host_root, gpu.pci),
        }
        if known.minor is None:
            facts["minor"] = self._ask(gpu, self._api.nvmlDeviceGetMinorNumber, handle, sane=_MINORS.__contains__)
        if known.compute_capability is None:
            answer = self._ask(gpu, self._api.nvmlDeviceGetCudaComputeCapability, handle, sane=lambda c: min(c) >= 0)
            facts["compute_capability"] = None if answer is None else (int(answer[0]), int(answer[1]))
        if known.architecture is None:
            answer = self._ask(gpu, self._api.nvmlDeviceGetArchitecture, handle)
            facts["architecture"] = None if answer == _ARCHITECTURE_UNKNOWN else answer
        if known.brand is None:
            facts["brand"] = self._ask(gpu, self._api.nvmlDeviceGetBrand, handle)
        return replace(gpu, **facts)

    def _memory_and_mode(self, handle: Handle, gpu: Gpu, earlier: Gpu | None) -> Gpu:
        memory = self._ask(gpu, self._api.nvmlDeviceGetMemoryInfo, handle, sane=lambda m: 0 < m.total < _LARGEST)
        total = memory.total if memory is not None else self._kept(earlier, "memory")
        mode = self._inquiry.ask(gpu.uuid, self._api.nvmlDeviceGetMigMode, handle, expected=ABSENT)
        if mode is not None:
            return replace(gpu, memory=total, mig_enabled=bool(mode[0]), mig_pending=bool(mode[1]))
        unread = self._inquiry.code not in ABSENT
        kept = {name: self._kept(earlier, name) for name in ("mig_enabled", "mig_pending")}
        if unread and kept["mig_enabled"] is None and self._cut(handle, gpu):
            kept["mig_enabled"] = True
        return replace(gpu, memory=total, **kept)

    def _cut(self, handle: Handle, gpu: Gpu) -> bool:
        """Whether the card has a MIG instance. Where its mode cannot be read, it must not be taken for a whole one."""
        find = self._api.nvmlDeviceGetMigDeviceHandleByIndex
        expected = {Code.NOT_FOUND, Code.INVALID_ARGUMENT, *ABSENT}
        return any(self._ask(gpu, find, handle, slot, expected=expected) is not None for slot in range(SLOTS))

    def _connections(self, handle: Handle, gpu: Gpu, earlier: Gpu | None) -> Gpu:
        if gpu.mig_enabled:
            reader = MigReader(self._inquiry, self._api, self._around.capabilities)
            return replace(gpu, instances=reader.read(handle, gpu))
        count, switches = read_counts(self._inquiry, self._api, handle, gpu.uuid)
        before = KnownLinks(count, earlier.links if earlier else ())
        links = read_links(self._inquiry, self._api, handle, gpu.uuid, before)
        fabric = read_fabric(self._inquiry, self._api, handle, gpu)
        return replace(gpu, switch_links=switches, links=links, fabric=fabric)

    def _ask(self, gpu: Gpu, call: Any, *arguments: Any, **terms: Any) -> Any:
        return self._inquiry.ask(gpu.uuid, call, *arguments, **terms)

    def _kept(self, earlier: Gpu | None, fact: str) -> Any:
        return getattr(earlier, fact) if earlier is not None and self._inquiry.code not in ABSENT else None
