"""Who else listens in the kubelet's folder: the suspects when a resource is taken away again and again."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path

_UCRED = struct.Struct("3i")
_TIMEOUT = 0.05


def describe(folder: Path, kubelet_socket: str | None) -> str:
    """Live sockets of other processes in `folder`, with process id and name where they can be seen, or `none`."""
    found = []
    with contextlib.suppress(OSError):
        for entry in sorted(folder.iterdir()):
            if entry.name != kubelet_socket and entry.is_socket():
                pid = _listener(entry)
                if pid is not None and pid != os.getpid():
                    found.append(f"{entry.name} ({_name(pid)})")
    return ", ".join(found) or "none"


def _listener(path: Path) -> int | None:
    """The process that listens (SO_PEERCRED), 0 when it lives in another PID namespace, None when nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_TIMEOUT)
        try:
            probe.connect(str(path))
            pid: int = _UCRED.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[0]
        except OSError:
            return None
        return pid


def _name(pid: int) -> str:
    if not pid:
        return "a process of another container"
    try:
        return f"pid {pid}, {Path(f'/proc/{pid}/comm').read_text(encoding='utf-8', errors='replace').strip()}"
    except OSError:
        return f"pid {pid}"
