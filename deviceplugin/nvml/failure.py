"""A scan that could not be made is a picture too: how far the driver could be reached, and what to do about it."""

from __future__ import annotations

from msgspec.structs import replace

from deviceplugin.model.errors import NvmlError
from deviceplugin.model.node import DriverState, Node, Problem
from deviceplugin.nvml import host
from deviceplugin.nvml.codes import Code


def without_driver(error: NvmlError, host_root: str, previous: Node | None = None) -> Node:
    """The node while the driver cannot be asked.

    Args:
        error: Why it cannot.
        host_root: Where the host's /sys is seen.
        previous: The last good scan; its cards stay in the picture, since not knowing changes nothing.
    """
    found = host.cards(host_root)
    if error.code == Code.LIB_RM_VERSION_MISMATCH:
        state = DriverState.MISMATCH
        detail = f"{error}: the driver was upgraded underneath; a fresh process is needed to load the new library"
    elif error.code == Code.LIBRARY_NOT_FOUND:
        state = DriverState.NO_DRIVER if found else DriverState.NO_HARDWARE
        detail = f"{_hardware(found)}; {error}"
    elif error.code in {Code.DRIVER_NOT_LOADED, Code.GPU_NOT_FOUND} and not found:
        state = DriverState.NO_HARDWARE
        detail = f"{_hardware(found)}; {error}"
    else:
        state = DriverState.FAILING
        detail = f"{_hardware(found)}; {error}"
    problem = Problem("", error.call or "nvmlInit", error.code or 0)
    return replace(previous or Node(), state=state, detail=detail, problems=(problem,))


def _hardware(found: tuple[str, ...]) -> str:
    if not found:
        return "no PCI device of vendor 10de in sysfs"
    return f"{len(found)} NVIDIA PCI device{'s' if len(found) > 1 else ''} in sysfs ({', '.join(found)})"
