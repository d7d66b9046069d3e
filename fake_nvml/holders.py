"""Who holds the driver open: a locked file per process, which the kernel unlocks even after kill -9."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Holders:
    """The processes of a root that have NVML initialised."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._mine: tuple[Path, int] | None = None

    def enter(self) -> None:
        """Be a holder from now on."""
        path = self._folder / f"{os.getpid()}-{os.urandom(4).hex()}"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(file, fcntl.LOCK_EX)
        self._mine = (path, file)

    def leave(self) -> None:
        """Be a holder no longer."""
        if self._mine is not None:
            path, file = self._mine
            path.unlink(missing_ok=True)
            os.close(file)
            self._mine = None

    def living(self) -> list[int]:
        """Process ids of the holders, sorted; files of the dead are swept away."""
        found = []
        for path in self._folder.iterdir():
            pid = int(path.name.partition("-")[0])
            try:
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
            except BlockingIOError:
                found.append(pid)
            finally:
                os.close(file)
        return sorted(found)
