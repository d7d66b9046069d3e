"""Hints from the kernel: one inotify instance (through watchdog) for all folders."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.api import ObservedWatch
from watchdog.observers.inotify import InotifyObserver

_EVENTS: list[type[FileSystemEvent]] = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
]


class InotifyHints(FileSystemEventHandler):
    """Calls `hint` from a thread of its own at every event in a watched folder.

    Raises:
        OSError: No inotify instance is left.
    """

    def __init__(self, hint: Callable[[], None]) -> None:
        # It calls it an error when a thread is stopped between two events; what matters is raised, not logged.
        logging.getLogger("watchdog.observers.inotify").disabled = True
        self._hint = hint
        self._observer = InotifyObserver()
        self._observer.start()
        self._watches: dict[Path, ObservedWatch] = {}

    def dispatch(self, event: FileSystemEvent) -> None:  # noqa: ARG002 - watchdog passes it
        """Every event is a hint, whatever it is."""
        self._hint()

    def add(self, folder: Path) -> None:
        """Begins to watch a folder; raises `OSError` where it cannot."""
        self._watches[folder] = self._observer.schedule(self, str(folder), event_filter=_EVENTS)

    def remove(self, folder: Path) -> None:
        """Ends watching a folder, which may be long gone."""
        watch = self._watches.pop(folder, None)
        if watch is not None:
            self._observer.unschedule(watch)

    def close(self) -> None:
        """Ends the threads."""
        self._observer.stop()
        self._observer.join()
