"""The feature file: node labels for node-feature-discovery, `key=value` lines in its features.d folder.

The file is replaced whole by a rename from a hidden name, which node-feature-discovery skips. It stays when the plugin
ends, so that labels do not come and go with restarts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from deviceplugin.rules.label import without_timestamp

_LIMIT = 1 << 20
_READABLE = 0o644
"""node-feature-discovery reads it as another user."""


class Outcome(StrEnum):
    """What became of labels that were to be published; the ledger counts them."""

    WRITTEN = "written"
    SAME = "same"
    """They stand there already; a younger timestamp alone is no change."""
    NO_FOLDER = "no-folder"
    """The folder is not there, so nobody would read them."""


class LabelFile:
    """One feature file. Methods block on the disk.

    Args:
        path: flags.gfd.outputFile.
        make_folder: Whether the folder is made where it is missing.
    """

    def __init__(self, path: str, *, make_folder: bool = False) -> None:
        self.path = Path(path)
        self._make_folder = make_folder

    def publish(self, labels: Mapping[str, str]) -> Outcome:
        """Makes the file say these labels, unless it says them already.

        Raises:
            OSError: It cannot be written.
        """
        if without_timestamp(self.read()) == without_timestamp(labels) and self.path.exists():
            return Outcome.SAME
        if self._make_folder:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif not self.path.parent.is_dir():
            return Outcome.NO_FOLDER
        self._replace(render(labels).encode())
        return Outcome.WRITTEN

    def remove(self) -> None:
        """Takes the file away.

        Raises:
            OSError: It is there and cannot be removed.
        """
        self.path.unlink(missing_ok=True)

    def read(self) -> dict[str, str]:
        """The labels that stand in the file; none where it is missing or cannot be read."""
        try:
            with self.path.open("rb") as file:
                return parse(file.read(_LIMIT).decode(errors="replace"))
        except OSError:
            return {}

    def _replace(self, content: bytes) -> None:
        number, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), _READABLE)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise


def render(labels: Mapping[str, str]) -> str:
    """The content of a feature file: a line for each label, by key."""
    return "".join(f"{name}={labels[name]}\n" for name in sorted(labels))


def parse(text: str) -> dict[str, str]:
    """The labels of a feature file; comments and what is no label are skipped."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {name: value for name, equals, value in pairs if equals}
