"""Folders below mpsRoot: `<resource>/pipe`, `<resource>/log` and `<resource>/ready.json` of each daemon, and `shm`."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

CONTAINER_ROOT = "/mps"
"""Where pods made for NVIDIA's plugin mount mpsRoot."""
READY = "ready.json"


class Places(Struct, frozen=True):
    """The folders as this process sees them; `host` is how the host, and thus the operator, calls the root."""

    root: Path
    host: str

    def of(self, resource: str) -> Path:
        """The folder of one resource's daemon."""
        return self.root / resource

    @property
    def shm(self) -> Path:
        """Shared memory of daemon and clients: `/dev/shm` of both."""
        return self.root / "shm"


def find(mps_root: str, host_root: str = "/") -> Places:
    """The folders under mpsRoot: below the host root where one is given, mounted at `/mps`, or as the host has it."""
    if host_root.rstrip("/"):
        return Places(Path(f"{host_root.rstrip('/')}/{mps_root.lstrip('/')}"), mps_root)
    return Places(Path(CONTAINER_ROOT if os.path.isdir(CONTAINER_ROOT) else mps_root), mps_root)  # noqa: PTH112
