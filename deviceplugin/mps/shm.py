"""Shared memory of MPS: a small tmpfs at `<mpsRoot>/shm`, made on the host by way of mount propagation."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from deviceplugin.model.errors import MpsError

SIZE = "65536k"
_NOSUID, _NODEV, _NOEXEC, _RELATIME = 2, 4, 8, 1 << 21
"""mount(2) flags of Linux."""


def mount(folder: Path) -> bool:
    """Mounts the tmpfs, unless something is mounted there already; whether it did.

    Raises:
        MpsError: The kernel refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MpsError(f"{folder}: {error.strerror}; mount mpsRoot into this container at /mps") from error
    if folder.is_mount():
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _NOSUID | _NODEV | _NOEXEC | _RELATIME
    if libc.mount(b"shm", os.fsencode(folder), b"tmpfs", flags, f"size={SIZE}".encode()):
        reason = os.strerror(ctypes.get_errno())
        raise MpsError(f"a tmpfs cannot be mounted at {folder}: {reason}; run this container privileged")
    return True
