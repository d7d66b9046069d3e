"""What the PCI tree in sysfs says of cards: class, and the capability by which a vGPU tells of its hypervisor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType

from deviceplugin.model.hostfacts import HostDriver, HostFacts

_BUS_ID = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")

_STATUS, _HAS_CAPABILITIES = 0x06, 0x10
_FIRST_CAPABILITY = 0x34
_VENDOR_SPECIFIC = 0x09
_SIZE = 256
_MOST_CAPABILITIES = 48
_SIGNATURE = slice(3, 5)
_RECORDS = 5
_HEADER = 2
_TEXT = 10


def read_facts(host_root: str, bus_ids: Iterable[str]) -> HostFacts:
    """Facts of these cards (bus ids as NVML prints them); what cannot be read is left out."""
    classes: dict[str, int] = {}
    hypervisor: HostDriver | None = None
    for bus_id in sorted(bus_ids):
        folder = _folder(host_root, bus_id)
        number = None if folder is None else _class(folder)
        if number is not None:
            classes[bus_id] = number
        if folder is not None and hypervisor is None:
            hypervisor = host_driver(_read(folder / "config"))
    return HostFacts(MappingProxyType(classes), hypervisor)


def host_driver(config: bytes) -> HostDriver | None:
    """The hypervisor's driver in the configuration space of a vGPU; None where the card is none.

    A vGPU has a vendor-specific capability (id 9) that is signed `VF`. Records follow, each with an id, its length with
    this header, and content; record 0 holds version and branch of the host's driver in ten bytes each.
    """
    if len(config) <= _FIRST_CAPABILITY or not config[_STATUS] & _HAS_CAPABILITIES:
        return None
    offset = config[_FIRST_CAPABILITY]
    for _ in range(_MOST_CAPABILITIES):
        if not offset or offset + _HEADER >= min(len(config), _SIZE):
            return None
        if config[offset] == _VENDOR_SPECIFIC:
            capability = config[offset : offset + config[offset + 2]]
            if capability[_SIGNATURE] == b"VF":
                return _record(capability)
        offset = config[offset + 1]
    return None


def _record(capability: bytes) -> HostDriver:
    place = _RECORDS
    while place + _HEADER <= len(capability):
        kind, length = capability[place], capability[place + 1]
        if kind == 0:
            texts = (capability[place + _HEADER + n * _TEXT :][:_TEXT] for n in range(2))
            return HostDriver(*(text.split(b"\0")[0].decode("ascii", "replace").strip() for text in texts))
        if length < _HEADER:
            break
        place += length
    return HostDriver()


def _folder(host_root: str, bus_id: str) -> Path | None:
    match = _BUS_ID.fullmatch(bus_id)
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return Path(host_root or "/") / f"sys/bus/pci/devices/{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def _class(folder: Path) -> int | None:
    try:
        return int(_read(folder / "class"), 16) >> 8
    except ValueError:
        return None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_SIZE)
    except OSError:
        return b""
