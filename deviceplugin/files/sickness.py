"""The state file: what hardware has done, kept over restarts of the plugin, so that a restart washes no bad GPU.

One JSON document of a version, replaced whole. A folder that is not there or not writable is said once; the plugin goes
on and judges by the driver's state alone.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from deviceplugin.model.health import Kind, Sickness

log = logging.getLogger(__name__)

NAME = "sickness.json"
VERSION = 1
_LIMIT = 1024 * 1024
"""Bytes that are read at most: a thousand devices take a quarter of it."""
_FOREVER = 1e12
_KEYS = {
    "uuid": "uuid",
    "reason": "reason",
    "kind": "kind",
    "since": "since",
    "bootId": "boot_id",
    "pci": "pci",
    "rule": "rule",
    "detail": "detail",
}
_NEEDED = frozenset({"uuid", "reason", "kind", "since"})
_KINDS = frozenset(kind.value for kind in Kind)


def boot_identity(host_root: str = "/") -> str:
    """What is the same until the node is rebooted or the driver is loaded anew, as `rules.judge.boots` compares it.

    Source: `/proc/sys/kernel/random/boot_id`, the inode of `/sys/module/nvidia`, which each load of the module makes
    anew, and `/proc/driver/nvidia/version`. What cannot be read is an empty part.
    """
    root = Path(host_root)
    boot = _text(root / "proc/sys/kernel/random/boot_id").replace("/", "-")
    load = ""
    with suppress(OSError):
        load = str((root / "sys/module/nvidia").stat().st_ino)
    version = _text(root / "proc/driver/nvidia/version")
    return f"{boot}/{load}/{crc32(version.encode()):x}" if version else f"{boot}/{load}/"


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="ascii", errors="replace").strip()
    return ""


class SicknessFile:
    """Loads and saves sicknesses. Methods block on the disk and never raise for its faults.

    Args:
        folder: Where the file is (daemon.stateDir); empty: nothing is kept.
    """

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / NAME if folder else None
        self._written: bytes | None = None
        self._complained = False

    def load(self) -> tuple[Sickness, ...]:
        """What an earlier process saved. What makes no sense is named in the log and left out."""
        if self.path is None:
            return ()
        try:
            with self.path.open("rb") as file:
                content = file.read(_LIMIT + 1)
        except FileNotFoundError:
            return ()
        except OSError as error:
            self._complain("read", error)
            return ()
        sicknesses, problems = decode(content)
        for problem in problems:
            log.warning("state file: %s; it is left out and overwritten", problem, extra={"path": str(self.path)})
        return sicknesses

    def save(self, sicknesses: Sequence[Sickness]) -> bool:
        """Replaces the file, if the content differs from what was last written; False where that is not possible."""
        if self.path is None:
            return False
        content = encode(sicknesses)
        if content == self._written:
            return True
        try:
            _replace(self.path, content)
        except OSError as error:
            self._complain("written", error)
            return False
        self._written = content
        if self._complained:
            log.info("the state file can be written again", extra={"path": str(self.path)})
            self._complained = False
        return True

    def _complain(self, verb: str, error: OSError) -> None:
        if not self._complained:
            log.warning(
                "the state file cannot be %s: %s; after a restart of the plugin health is judged by the driver's state "
                "alone. Mount a writable folder there or set --state-dir",
                verb,
                error,
                extra={"path": str(self.path)},
            )
        self._complained = True


def _replace(path: Path, content: bytes) -> None:
    """Writes `path` atomically: at any moment, and after a crash, it is the old file or the new one."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def encode(sicknesses: Sequence[Sickness]) -> bytes:
    """The document as bytes, one sickness per line, for people too."""
    lines = [
        json.dumps({key: getattr(one, name) for key, name in _KEYS.items()}, ensure_ascii=False) for one in sicknesses
    ]
    body = "[\n" + ",\n".join(lines) + "\n]" if lines else "[]"
    return f'{{"version": {VERSION}, "sicknesses": {body}}}\n'.encode(errors="replace")


def decode(content: bytes) -> tuple[tuple[Sickness, ...], tuple[str, ...]]:
    """The sicknesses of a document, and a sentence for each part that cannot be used."""
    if len(content) > _LIMIT:
        return (), (f"it is larger than {_LIMIT} bytes, nobody here wrote that",)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        return (), (f"it is no JSON ({error})",)
    if not isinstance(document, dict) or document.get("version") != VERSION:
        return (), (f"it is no document of version {VERSION}",)
    entries = document.get("sicknesses")
    if not isinstance(entries, list):
        return (), ("`sicknesses` is no list",)
    problems = []
    sicknesses = []
    for number, entry in enumerate(entries):
        problem = _problem(entry)
        if problem:
            problems.append(f"sicknesses[{number}] {problem}")
        else:
            sicknesses.append(Sickness(**{name: entry[key] for key, name in _KEYS.items() if key in entry}))
    return tuple(sicknesses), tuple(problems)


def _problem(entry: Any) -> str | None:
    if not isinstance(entry, Mapping):
        return "is no object"
    missing = _NEEDED - entry.keys()
    if missing:
        return f"lacks {', '.join(sorted(missing))}"
    since = entry["since"]
    if isinstance(since, bool) or not isinstance(since, int | float) or not 0 <= since < _FOREVER:
        return "has no Unix time as since"
    wrong = [key for key in _KEYS if key != "since" and not isinstance(entry.get(key, ""), str)]
    if wrong:
        return f"has no text as {', '.join(wrong)}"
    if not entry["uuid"] or entry["kind"] not in _KINDS:
        return f"names the device {entry['uuid']!r} and the kind {entry['kind']!r}"
    return None
