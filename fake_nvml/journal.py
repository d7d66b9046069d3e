"""The machine's memory on disk: one line per operation, appended under a lock, replayed by every process."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Journal:
    """An append-only file of JSON lines, shared by the processes of one root.

    A writer that was killed half-way leaves a line without an end; readers ignore it and the next writer cuts
    it off.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = str(folder / "journal")
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._read = 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all other writers of this root away."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def news(self) -> list[dict[str, Any]]:
        """The operations that were appended since the last look."""
        size = os.fstat(self._file).st_size
        if size <= self._read:
            return []
        text = os.pread(self._file, size - self._read, self._read)
        whole = text.rfind(b"\n") + 1
        self._read += whole
        return [json.loads(line) for line in text[:whole].splitlines()]

    def append(self, op: dict[str, Any]) -> None:
        """Add one operation; the caller holds the lock and has read all news."""
        if os.fstat(self._file).st_size != self._read:
            os.ftruncate(self._file, self._read)
        line = json.dumps(op, separators=(",", ":")).encode() + b"\n"
        os.write(self._file, line)
        self._read += len(line)

    def close(self) -> None:
        """Let go of the files."""
        os.close(self._file)
        os.close(self._lock)
