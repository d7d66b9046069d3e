"""Other processes that serve the same resource: a second instance during an update, or another plugin.

The kubelet tells nobody that it was taken over, nor that the one who took over has left: then it calls nobody, while
the first stream stays open. So their sockets are watched.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from deviceplugin.kubelet import sockets

_UCRED = struct.Struct("3i")
_YOUNG = 2.0
_NVIDIA = re.compile(r".*nvidia.*", re.IGNORECASE)


class Rivals:
    """Live sockets in `folder` that may serve `resource_name`, going by their names.

    Of our naming those for this resource, of others' those with "nvidia" in them. To ask a plugin might disturb it.
    """

    def __init__(self, folder: Path, resource_name: str) -> None:
        self._folder = folder
        self._ours = re.compile(rf"nvidia-{sockets.slug(resource_name)}-[0-9a-f]{{8}}\.sock")
        self._present: dict[Path, str] = {}
        self._heard: set[Path] = set()

    @property
    def present(self) -> Mapping[Path, str]:
        """Those of the last look, with process id and name where they can be seen."""
        return self._present

    def look(self, own: Path | None) -> Mapping[Path, str]:
        """Looks again; returns those that have gone since the last look."""
        found = {}
        for path in sockets.in_folder(self._folder, _NVIDIA):
            suspect = self._ours.fullmatch(path.name) or not sockets.OURS.fullmatch(path.name)
            if suspect and path != own:
                pid = _listener(path)
                if pid is not None:
                    self._heard.add(path)
                if pid is not None or (path not in self._heard and _just_made(path)):
                    found[path] = self._present.get(path) or f"{path.name} ({_process(pid)})"
        self._heard &= found.keys()
        gone = {path: words for path, words in self._present.items() if path not in found}
        self._present = found
        return gone


def _just_made(path: Path) -> bool:
    """Whether the socket may only be about to listen; its process could have gone again before the next look."""
    with contextlib.suppress(OSError):
        return 0 <= time.time() - path.stat().st_ctime < _YOUNG
    return False


def neighbours(folder: Path, kubelet_socket: str | None) -> tuple[str, ...]:
    """Every live socket of another process in `folder`, save the kubelet's."""
    return tuple(
        f"{path.name} ({_process(pid)})"
        for path in sockets.in_folder(folder, re.compile(".*"))
        if path.name != kubelet_socket and (pid := _listener(path)) not in {None, os.getpid()}
    )


def _process(pid: int | None) -> str:
    if not pid:
        return "a process of another container"
    with contextlib.suppress(OSError):
        return f"pid {pid}, {Path(f'/proc/{pid}/comm').read_text(encoding='utf-8', errors='replace').strip()}"
    return f"pid {pid}"


def _listener(path: Path) -> int | None:
    """The process that listens (SO_PEERCRED of unix(7)); 0 when it cannot be seen from here, None when nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return 0
        except OSError:
            return None
        pid: int = _UCRED.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[0]
        return pid
