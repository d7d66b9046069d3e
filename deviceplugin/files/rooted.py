"""A root of a file system that is mounted somewhere else: paths in it, with its own symbolic links."""

from __future__ import annotations

import os
import posixpath

from msgspec import Struct

_MOST_LINKS = 40
"""As in the kernel: more of them are a circle."""


class Root(Struct, frozen=True):
    """A root as this process sees it. Paths given and answered are those inside, beginning with `/`."""

    seen: str = "/"

    def outside(self, path: str) -> str:
        """Where this process finds a path of the root; links in it are followed by the kernel, in our own root."""
        return f"{self.seen.rstrip('/')}{posixpath.normpath(path)}"

    def real(self, path: str) -> str | None:
        """The path with every link resolved inside the root; None where nothing is there."""
        left, done, links = _parts(path), "/", 0
        while left:
            name = left.pop(0)
            if name == "..":
                done = posixpath.dirname(done)
                continue
            here = posixpath.join(done, name)
            target = self._link(here)
            if target is None:
                done = here
                continue
            links += 1
            if links > _MOST_LINKS:
                return None
            left = _parts(target) + left
            done = "/" if target.startswith("/") else done
        return done if os.path.lexists(self.outside(done)) else None

    def link(self, path: str) -> str | None:
        """What the symbolic link at `path` says; None where it is none."""
        folder, _, name = path.rpartition("/")
        real = self.real(folder or "/")
        return None if real is None else self._link(posixpath.join(real, name))

    def names(self, path: str) -> tuple[str, ...]:
        """Names in a folder, sorted; empty where it is missing or cannot be read."""
        real = self.real(path)
        try:
            return () if real is None else tuple(sorted(os.listdir(self.outside(real))))  # noqa: PTH208 - names only
        except OSError:
            return ()

    def read(self, path: str) -> bytes:
        """Content of a file; empty where it is missing or cannot be read."""
        real = self.real(path)
        try:
            with open(self.outside(real or path), "rb") as file:  # noqa: PTH123 - no Path for one read
                return file.read()
        except OSError:
            return b""

    def _link(self, path: str) -> str | None:
        try:
            return os.readlink(self.outside(path))  # noqa: PTH115 - hundreds of them
        except OSError:
            return None


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]
