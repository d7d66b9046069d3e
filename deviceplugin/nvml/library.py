"""Finding and loading libnvidia-ml.so.1, the driver's own library, whose path depends on how the driver got here."""

from __future__ import annotations

import ctypes
import os
from functools import partial
from typing import cast

from deviceplugin.model.errors import NvmlError
from deviceplugin.nvml import host
from deviceplugin.nvml.api import NvmlApi
from deviceplugin.nvml.codes import Code
from deviceplugin.nvml.driver import Driver

__all__ = ["Driver", "load_library", "open_driver"]

SONAME = "libnvidia-ml.so.1"
FOLDERS = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib",
    "usr/lib64/nvidia",
    "usr/lib/nvidia",
    "usr/local/nvidia/lib64",
    "home/kubernetes/bin/nvidia/lib64",
    "run/opengl-driver/lib",
    "usr/lib/wsl/lib",
)
"""Where distributions, driver containers and hosted nodes keep it, below the driver root."""
_LOADER = "the loader's own path"
_MISSING = "missing"


def load_library(library: str = "", driver_root_seen: str = "/") -> NvmlApi:
    """Loads NVML and gives the binding that speaks through it.

    The binding opens the library by its bare name and keeps it for the life of the process: the file wanted is loaded
    first, so that the name leads to it, and a fresh driver needs a fresh process.

    Args:
        library: The file to use; empty to look for it.
        driver_root_seen: Where this process sees the root of the driver's files; they are looked for below it, then
            where the loader looks by itself.

    Raises:
        NvmlError: LIBRARY_NOT_FOUND; the message names every place tried and why it would not do.
    """
    if library:
        _preload([library], "name another file by --nvml-library, or leave it empty to have it looked for")
    else:
        places = [str(host.seen(driver_root_seen, f"{folder}/{SONAME}")) for folder in FOLDERS]
        _preload([*places, ""], "mount the driver's root and name it by --container-driver-root, or use --nvml-library")
    import pynvml

    return cast("NvmlApi", pynvml)


def open_driver(library: str = "", driver_root_seen: str = "/", host_root: str = "/") -> Driver:
    """A driver whose library is looked for when it is first needed, and again until it is found."""
    return Driver(partial(load_library, library, driver_root_seen), host_root)


def _preload(places: list[str], remedy: str) -> None:
    missing, unfit = [], []
    for place in places:
        reason = _refusal(place)
        if not reason:
            return
        if reason == _MISSING:
            missing.append(place or _LOADER)
        else:
            unfit.append(f"{place or _LOADER} ({reason})")
    tried = "; ".join([*unfit, *([f"tried and not there: {', '.join(missing)}"] if missing else [])])
    message = f"{SONAME} cannot be loaded; {tried}; {remedy}"
    raise NvmlError(message, code=Code.LIBRARY_NOT_FOUND, call="dlopen")


def _refusal(place: str) -> str:
    """Loads a file so that its name leads to it from now on; empty if that worked, else why it did not."""
    if place and not host.exists("/", place):
        return _MISSING
    try:
        loaded = ctypes.CDLL(place or SONAME, mode=ctypes.RTLD_GLOBAL)
        named = ctypes.CDLL(SONAME, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOLOAD)
    except OSError as error:
        text = str(error).removeprefix(f"{place or SONAME}: ")
        return text if place or "cannot open shared object" not in text else _MISSING
    same = loaded._handle == named._handle  # noqa: SLF001 - the one way to tell whether two names are one library
    return "" if same else f"another {SONAME} is loaded already"
