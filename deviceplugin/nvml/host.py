"""What the host's own files say: /sys for PCI and NUMA, /proc and /dev for MIG capabilities, DMI for the machine."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path

VENDOR = "0x10de"
MACHINE_TYPE = "/sys/class/dmi/id/product_name"
MIG_MINORS = "/proc/driver/nvidia-caps/mig-minors"
CAPABILITY = "/dev/nvidia-caps/nvidia-cap{}"
_PCI = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_MINOR = re.compile(r"gpu(\d+)/gi(\d+)/(?:ci(\d+)/)?access (\d+)")
# Display controllers (03) are cards; a switch is a bridge (06), sound and USB functions of a card are no cards.
_CARD_CLASS = "0x03"


def seen(root: str, path: str) -> Path:
    """Where `path` of the host is found by this process, whose view of the host begins at `root`."""
    return Path(root or "/") / path.lstrip("/")


def read(path: Path) -> str | None:
    """Text of a small file, stripped; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def exists(root: str, path: str) -> bool:
    """Whether a path of the host is there; what cannot be looked at counts as missing."""
    try:
        return seen(root, path).exists()
    except OSError:
        return False


def openable(root: str, path: str) -> bool:
    """Whether this process can open a device node; only a missing node or a missing right says no."""
    try:
        os.close(os.open(seen(root, path), os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return error.errno not in {errno.ENOENT, errno.ENXIO, errno.EACCES, errno.EPERM}
    return True


def sysfs_name(pci: str) -> str | None:
    """The name in sysfs of a PCI id as NVML prints it: lower case, the domain as %04x but never cut."""
    match = _PCI.fullmatch(pci)
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()


def numa_node(root: str, pci: str) -> int | None:
    """NUMA node of a PCI device; None for -1, a missing file, or anything that is no number."""
    name = sysfs_name(pci)
    text = None if name is None else read(seen(root, f"/sys/bus/pci/devices/{name}/numa_node"))
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def cards(root: str) -> tuple[str, ...]:
    """Names in sysfs of NVIDIA's display controllers, sorted; empty where there are none or sysfs is not there."""
    try:
        names = sorted(os.listdir(seen(root, "/sys/bus/pci/devices")))  # noqa: PTH208 - no Path per device
    except OSError:
        return ()
    return tuple(name for name in names if _is_card(seen(root, f"/sys/bus/pci/devices/{name}")))


def bound_elsewhere(root: str, name: str) -> bool:
    """Whether a card was given to another driver, such as vfio-pci: NVML is not meant to show it."""
    try:
        driver = os.readlink(seen(root, f"/sys/bus/pci/devices/{name}/driver"))  # noqa: PTH115 - its last part only
    except OSError:
        return False
    return driver.rpartition("/")[2] != "nvidia"


def _is_card(folder: Path) -> bool:
    if read(folder / "vendor") != VENDOR:
        return False
    kind = read(folder / "class")
    return kind is None or kind.startswith(_CARD_CLASS)


def mig_minors(root: str) -> Mapping[tuple[int, int, int | None], int]:
    """Minor numbers of capability nodes by (GPU minor, GPU instance, compute instance or None)."""
    text = read(seen(root, MIG_MINORS)) or ""
    return {
        (int(gpu), int(gi), int(ci) if ci else None): int(minor)
        for gpu, gi, ci, minor in (match.groups() for match in map(_MINOR.fullmatch, text.splitlines()) if match)
    }


def machine(root: str, path: str = MACHINE_TYPE) -> str | None:
    """Content of the machine type file; None where it is missing or empty."""
    return read(seen(root, path)) or None
