"""NVLinks and fabric of one card."""

from __future__ import annotations

from collections.abc import Collection
from ctypes import byref
from typing import NamedTuple

import pynvml

from deviceplugin.model.node import Fabric, FabricState, Gpu, Link, RemoteKind
from deviceplugin.nvml.api import CStruct, Handle, NvmlApi
from deviceplugin.nvml.codes import ABSENT, Code
from deviceplugin.nvml.inquiry import Inquiry

_HOPPER = 9
_NO_LINK = ABSENT | {Code.INVALID_ARGUMENT}
_LINK_COUNT = pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT
_SWITCH_LINKS = pynvml.NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT


def read_counts(inquiry: Inquiry, api: NvmlApi, handle: Handle, uuid: str) -> tuple[int | None, int | None]:
    """How many NVLinks a card has, and how many of them lead to switches (fields 91 and 147), in one call."""
    values = inquiry.ask(uuid, api.nvmlDeviceGetFieldValues, handle, [_LINK_COUNT, _SWITCH_LINKS], expected=ABSENT)
    counts: dict[int, int] = {}
    for value in values or ():
        if value.nvmlReturn == Code.SUCCESS and value.value.uiVal <= pynvml.NVML_NVLINK_MAX_LINKS:
            counts[value.fieldId] = value.value.uiVal
    return counts.get(_LINK_COUNT), counts.get(_SWITCH_LINKS)


class KnownLinks(NamedTuple):
    """What is known of a card's links before they are read: how many there are, and what an earlier scan saw."""

    total: int | None = None
    earlier: tuple[Link, ...] = ()


def read_links(inquiry: Inquiry, api: NvmlApi, handle: Handle, uuid: str, before: KnownLinks) -> tuple[Link, ...]:
    """All NVLinks of a card, active or not.

    What is at the other end does not change while a driver is loaded: it is asked once, and taken from the earlier
    scan after that. Where the first link is not supported the card has none.
    """
    known = {link.number: link for link in before.earlier}
    links: list[Link] = []
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if len(links) == before.total:
            break
        state = inquiry.ask(uuid, api.nvmlDeviceGetNvLinkState, handle, number, expected=_NO_LINK)
        if state is None and inquiry.code in _NO_LINK:
            # A link may be fused off amid others; past the last one the argument is invalid.
            if inquiry.code == Code.INVALID_ARGUMENT or not links:
                break
            continue
        if state is None:
            links.append(known.get(number, Link(number, None)))
        elif not state:
            links.append(Link(number, active=False))
        else:
            links.append(_far_end(inquiry, api, handle, uuid, known.get(number, Link(number, active=True))))
        if uuid in inquiry.lost:
            break
    return tuple(links)


def _far_end(inquiry: Inquiry, api: NvmlApi, handle: Handle, uuid: str, known: Link) -> Link:
    if known.active and known.remote_pci is not None and known.remote is not RemoteKind.UNREAD:
        return known
    kind = inquiry.ask(uuid, api.nvmlDeviceGetNvLinkRemoteDeviceType, handle, known.number)
    pci = inquiry.ask(uuid, api.nvmlDeviceGetNvLinkRemotePciInfo, handle, known.number)
    return Link(known.number, active=True, remote=_kind(kind), remote_pci=None if pci is None else bus_id(pci))


def _kind(number: int | None) -> RemoteKind:
    if number is None:
        return RemoteKind.UNREAD
    return RemoteKind(number) if number in list(RemoteKind) else RemoteKind.UNKNOWN


def bus_id(pci: CStruct) -> str:
    """`00000000:83:00.0` of an nvmlPciInfo_t, upper case; empty where the driver gave no text."""
    text = pci.busId
    return (text.decode(errors="replace") if isinstance(text, bytes) else str(text)).upper()


def reaches_beyond(gpu: Gpu, cards: Collection[str]) -> bool:
    """Whether a card has an active link to something that is not another card of this machine (a switch, mostly)."""
    peers = set(cards) - {gpu.pci}
    return any(link.active and (link.remote is RemoteKind.SWITCH or link.remote_pci not in peers) for link in gpu.links)


def read_fabric(inquiry: Inquiry, api: NvmlApi, handle: Handle, gpu: Gpu) -> Fabric | None:
    """State of a card in its NVLink fabric; None where card or driver know none (older than Hopper: not asked)."""
    if gpu.architecture is not None and gpu.architecture < _HOPPER:
        return None
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    if inquiry.ask(gpu.uuid, api.nvmlDeviceGetGpuFabricInfoV, handle, byref(info), expected=ABSENT) is None:
        if inquiry.code not in {Code.FUNCTION_NOT_FOUND, Code.ARGUMENT_VERSION_MISMATCH}:
            return None
        info = pynvml.c_nvmlGpuFabricInfo_t()
        if inquiry.ask(gpu.uuid, api.nvmlDeviceGetGpuFabricInfo, handle, byref(info), expected=ABSENT) is None:
            return None
    if info.state not in list(FabricState):
        inquiry.garbage(gpu.uuid, "nvmlDeviceGetGpuFabricInfoV", f"fabric state {info.state}")
        return None
    return Fabric(
        state=FabricState(info.state),
        status=info.status,
        cluster=_cluster(bytes(info.clusterUuid)),
        clique=info.cliqueId,
        health_mask=getattr(info, "healthMask", 0),
    )


def _cluster(raw: bytes) -> str:
    if not any(raw):
        return ""
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
