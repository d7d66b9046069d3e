"""Socket files in the kubelet's folder: names with a random token, identity, and the sweep of dead ones."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
from pathlib import Path

from deviceplugin.kubelet.watchdog import Identity
from deviceplugin.model.errors import KubeletError

LONGEST_PATH = 106
"""Bytes; sun_path of unix(7) has 108 with its end mark, and some runtimes stop one short of it."""
_TOKEN_BYTES = 4
OURS = re.compile(r"nvidia-[a-z0-9-]+-[0-9a-f]{8}\.sock")
"""Names that this plugin gives its sockets."""


def slug(resource_name: str) -> str:
    """`nvidia.com/mig-1g.10gb` -> `mig-1g-10gb`."""
    return re.sub(r"[^a-z0-9]+", "-", resource_name.rpartition("/")[2].lower()).strip("-") or "gpu"


def fresh_path(folder: Path, resource_name: str) -> Path:
    """A path in `folder` that nobody uses.

    Raises:
        KubeletError: The folder's own path is so long that no socket name fits.
    """
    token = os.urandom(_TOKEN_BYTES).hex()
    room = LONGEST_PATH - len(os.fsencode(folder / f"nvidia--{token}.sock"))
    if room < 1:
        raise KubeletError(f"{folder}: too long a path for a socket in it (the limit is {LONGEST_PATH} bytes)")
    name = slug(resource_name)[:room].strip("-") or "g"
    return folder / f"nvidia-{name}-{token}.sock"


def check_folder(folder: Path) -> None:
    """Raises `KubeletError` naming the fault when no socket can be made in `folder`."""
    if not folder.is_dir():
        raise KubeletError(f"{folder}: no such folder; is the kubelet's folder mounted here, and is this its path?")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise KubeletError(
            f"{folder}: not writable for uid {os.geteuid()}; the plugin needs uid 0 and a writable mount"
        )


def identity(path: Path) -> Identity | None:
    """What tells the socket at `path` from one made anew; None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def answers(path: Path) -> bool | None:
    """Whether somebody listens at `path`; None when it cannot be told. Never blocks (unix(7): no handshake)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError as error:
            # A full backlog is a live process that is busy.
            return True if error.errno == errno.EAGAIN else None
        return True


def in_folder(folder: Path, names: re.Pattern[str]) -> list[Path]:
    """Sockets in `folder` whose file names match, in order; none when the folder cannot be read."""
    with contextlib.suppress(OSError):
        return sorted(path for path in folder.iterdir() if names.fullmatch(path.name) and path.is_socket())
    return []


async def sweep(folder: Path, grace: float) -> tuple[Path, ...]:
    """Removes sockets of our naming that refuse connections twice, `grace` seconds apart; returns their paths."""
    refused = {path: identity(path) for path in in_folder(folder, OURS) if answers(path) is False}
    if not refused:
        return ()
    await asyncio.sleep(grace)
    dead = [path for path, was in refused.items() if identity(path) == was and answers(path) is False]
    for path in dead:
        with contextlib.suppress(OSError):
            path.unlink()
    return tuple(dead)
