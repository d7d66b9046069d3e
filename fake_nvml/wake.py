"""Waking the processes of a root: a named pipe each, so that waiting costs nothing and news come at once."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NEWS, _STOP = b"n", b"s"


class Bell:
    """Rings at the doors of all listeners of a root, and answers our own door once listening.

    A listener that was killed leaves a pipe that nobody reads: opening it fails and it is swept away.
    """

    def __init__(self, folder: Path, heard: Callable[[], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._heard = heard
        self._door: Path | None = None
        self._pipe = -1
        self._thread: threading.Thread | None = None

    def listen(self) -> None:
        """Start answering our door (once; later calls do nothing)."""
        if self._thread is not None:
            return
        self._door = self._folder / f"{os.getpid()}-{os.urandom(4).hex()}"
        unready = self._folder / f".{self._door.name}"
        os.mkfifo(unready)
        self._pipe = os.open(unready, os.O_RDWR | os.O_CLOEXEC)
        unready.rename(self._door)  # before this nobody knocks, and finding it unread sweeps it away
        self._thread = threading.Thread(target=self._answer, name="fake-nvml-bell", daemon=True)
        self._thread.start()

    def ring(self) -> None:
        """Tell every listener of the root, other processes included, that there is news."""
        for door in self._folder.iterdir():
            if not door.name.startswith("."):
                _knock(door, _NEWS)

    def close(self) -> None:
        """Stop listening."""
        if self._thread is None or self._door is None:
            return
        _knock(self._door, _STOP)
        if self._thread is not threading.current_thread():
            self._thread.join()
        os.close(self._pipe)
        self._door.unlink(missing_ok=True)
        self._thread = None

    def _answer(self) -> None:
        while True:
            knocks = os.read(self._pipe, 4096)
            if _STOP in knocks:
                return
            self._heard()


def _knock(door: Path, knock: bytes) -> None:
    try:
        pipe = os.open(door, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # nobody behind it any more
        door.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError):  # full: it has knocks enough to answer
        os.write(pipe, knock)
    os.close(pipe)
