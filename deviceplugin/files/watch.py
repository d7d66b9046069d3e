"""What changed on disk: tells when the file at a path appears, vanishes, or is another than before.

The truth is the file's identity (device, inode, size, mtime, ctime; links followed), looked at once a period. inotify,
through watchdog, only makes the look come at once; without it (no instance left, no such folder yet, a file system
that has no events) the period is the delay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

log = logging.getLogger(__name__)

Identity = tuple[int, int, int, int, int]


def identity(path: Path) -> Identity | None:
    """What tells the file at `path` from another, or from the same with other content; None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Hints(Protocol):
    """Tells of events in folders; each is only a reason to look."""

    def add(self, folder: Path) -> None:
        """Begins to watch a folder; raises `OSError` where it cannot."""

    def remove(self, folder: Path) -> None:
        """Ends watching a folder, which may be long gone."""

    def close(self) -> None:
        """Ends everything."""


_STEP = 0.01
"""Seconds between two looks while there are no hints yet."""

OpenHints = Callable[[Callable[[], None]], Hints]
"""Makes `Hints` that call the argument, from any thread, at every event; raises `OSError` where there are none."""


@dataclass(slots=True)
class _Watched:
    identity: Identity | None
    listeners: dict[object, Callable[[], None]] = field(default_factory=dict)


class Watcher:
    """Watches paths for any number of listeners. `run` it; listeners are called on its event loop.

    Args:
        period: Seconds between two looks, and so the longest delay.
        open_hints: Where the hints come from.
        warm_up: Seconds without hints at first, in which it looks often: the import of inotify is not to hold up the
            first registration.
    """

    def __init__(self, period: float = 1.0, open_hints: OpenHints | None = None, warm_up: float = 0.25) -> None:
        self._period = period
        self._warm_up = warm_up
        self._open_hints = open_hints or _inotify
        self._paths: dict[Path, _Watched] = {}
        self._folders: dict[Path, tuple[int, int]] = {}
        self._hints: Hints | None = None
        self._polling = False
        self._look = asyncio.Event()

    @property
    def polling(self) -> bool:
        """Whether there are no hints to be had, and every change waits for the next look."""
        return self._polling

    def watch(self, path: Path, changed: Callable[[], None]) -> Callable[[], None]:
        """Has `changed` called whenever the file at `path` is another than before. The answer ends it."""
        token = object()
        self._paths.setdefault(path, _Watched(identity(path))).listeners[token] = changed
        self._look.set()

        def unwatch() -> None:
            watched = self._paths.get(path)
            if watched is not None and token in watched.listeners:
                del watched.listeners[token]
                if not watched.listeners:
                    del self._paths[path]

        return unwatch

    async def run(self) -> None:
        """Watches until cancelled."""
        await self._warm_up_looking()
        try:
            while True:
                self._look.clear()
                self._arm()
                self._compare()
                try:
                    async with asyncio.timeout(self._period):
                        await self._look.wait()
                except TimeoutError:
                    continue
        finally:
            if self._hints is not None:
                self._hints.close()
            self._hints = None
            self._folders.clear()

    async def _warm_up_looking(self) -> None:
        for _ in range(round(min(self._warm_up, self._period) / _STEP)):
            await asyncio.sleep(_STEP)
            self._compare()

    def _compare(self) -> None:
        for path, watched in list(self._paths.items()):
            now = identity(path)
            if now != watched.identity:
                watched.identity = now
                for changed in list(watched.listeners.values()):
                    changed()

    def _arm(self) -> None:
        """Has hints for exactly the folders of the watched paths, also after one was replaced."""
        wanted = {folder: now for folder in sorted({path.parent for path in self._paths}) if (now := _folder(folder))}
        for folder, was in list(self._folders.items()):
            if wanted.get(folder) != was:
                del self._folders[folder]
                if self._hints is not None:
                    self._hints.remove(folder)
        for folder, now in wanted.items():
            if folder not in self._folders and not self._polling:
                self._add(folder, now)

    def _wake_from_thread(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        def hint() -> None:
            loop.call_soon_threadsafe(self._look.set)

        return hint

    def _add(self, folder: Path, now: tuple[int, int]) -> None:
        try:
            if self._hints is None:
                self._hints = self._open_hints(self._wake_from_thread(asyncio.get_running_loop()))
            self._hints.add(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            self._polling = True
            log.warning(
                "%s cannot be watched by inotify (%s): looking every %g s instead; raise "
                "fs.inotify.max_user_instances and max_user_watches on this host for less delay",
                folder,
                error,
                self._period,
            )
            return
        self._folders[folder] = now
        self._look.set()


def _folder(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _inotify(hint: Callable[[], None]) -> Hints:
    from deviceplugin.files.inotify import InotifyHints

    return InotifyHints(hint)
