"""Where a value comes from, and reading what it comes from."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

LARGEST = 1024 * 1024
"""Bytes of a configuration file: what a ConfigMap can hold."""


class Origin(StrEnum):
    """What gave a value; a later one wins over an earlier one."""

    DEFAULT = "default"
    FILE = "file"
    VARIABLE = "variable"
    FLAG = "flag"


class Source(Struct, frozen=True):
    """Origin, and where exactly: `config.yaml:12`, `MPS_ROOT`, `--mps-root`."""

    origin: Origin = Origin.DEFAULT
    where: str = "default"
    column: int = 0
    """In a file: counted from 1."""

    def __str__(self) -> str:
        return self.where

    def place(self, path: str) -> str:
        """The beginning of a message about the value at this path."""
        if self.origin is Origin.FILE:
            return f"{self.where}:{self.column}: {path}"
        return path if self.origin is Origin.DEFAULT else self.where


def source_of(path: str, sources: Mapping[str, Source]) -> Source:
    """The source of a value; of a list's item, where the value itself was not given, that of the item."""
    while path not in sources and "[" in path:
        path = path.rpartition("[" if path.endswith("]") else ".")[0]
    return sources.get(path, Source())


def read_file(path: str) -> bytes:
    """The content of a file, of one that is too large only the beginning.

    Raises:
        OSError: It cannot be read, or reading would wait for a writer.
    """
    if stat.S_ISFIFO(os.stat(path).st_mode):  # noqa: PTH116 - a path is all there is to ask
        raise OSError(0, "is a pipe, not a file")
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs start-up time
        return file.read(LARGEST + 1)


def list_names(folder: str) -> tuple[str, ...]:
    """The files of a folder in order, without a ConfigMap volume's own links.

    Raises:
        OSError: The folder cannot be read.
    """
    with os.scandir(folder) as entries:
        return tuple(sorted(entry.name for entry in entries if not entry.name.startswith("..") and entry.is_file()))
