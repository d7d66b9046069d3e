"""The CDI folder: our specifications in it, and those that the container toolkit keeps there.

Files stay when the plugin ends, since containers that restart still name their devices; `remove` takes them away.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from deviceplugin.config.document import CdiSpec, Config, IdStrategy
from deviceplugin.files import userspace
from deviceplugin.model.inventory import LeftOut
from deviceplugin.model.node import DriverState, Node
from deviceplugin.rules.cdispec import FILES, GPU_FILE, Document, documents, flaws, idle_settings, unnamed, unwritten
from deviceplugin.rules.offer.reach import names_by_cdi

log = logging.getLogger(__name__)

STANDARD_FOLDERS = ("/etc/cdi", "/var/run/cdi")
EXTERNAL_KIND = "nvidia.com/gpu"
_READABLE = 0o644


class Upkeep(Struct, frozen=True):
    """What keeping the specifications came to."""

    left_out: tuple[LeftOut, ...] = ()
    """Devices that CDI cannot hand over; see `rules.offer.withhold`."""
    warnings: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    """Files that are new or changed."""


class CdiFolder:
    """Keeps the specifications in step with the node. Methods block on the disk."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, int], frozenset[str]]] = {}

    def keep(self, node: Node, config: Config, host_root: str = "/") -> Upkeep:
        """Writes what changed (`cdi.spec: own`) or checks what is there (`external`); nothing without a CDI strategy.

        To be called after each scan and each change of configuration. Never raises for faults of the disk: devices
        that cannot be named to a runtime come back as left out. A scan that could not be made changes nothing.
        """
        if not _has_something_to_do(node, config):
            return Upkeep()
        if config.cdi.spec is CdiSpec.EXTERNAL:
            return self._check(node, config)
        files = userspace.find(node, config, host_root)
        warnings = idle_settings(node, files, config)
        folder = Path(config.cdi.folder)
        try:
            written = write(documents(node, files, config), folder)
            if not node.gpus:
                (folder / GPU_FILE).unlink(missing_ok=True)
        except OSError as error:
            return Upkeep(unwritten(node, _why(error, folder)), warnings)
        return Upkeep(flaws(node, files), warnings, written)

    def examine(self, node: Node, config: Config, host_root: str = "/") -> Upkeep:
        """What `keep` would come to, for a dry run: nothing is written."""
        if not _has_something_to_do(node, config):
            return Upkeep()
        if config.cdi.spec is CdiSpec.EXTERNAL:
            return self._check(node, config)
        files = userspace.find(node, config, host_root)
        return Upkeep(flaws(node, files), idle_settings(node, files, config))

    def _check(self, node: Node, config: Config) -> Upkeep:
        places = tuple(dict.fromkeys((config.cdi.folder, *STANDARD_FOLDERS)))
        names = frozenset(name for place in places for name in self._names(Path(place)))
        by_index = config.flags.plugin.device_id_strategy is IdStrategy.INDEX
        return Upkeep(unnamed(node, names, by_index=by_index, places=places))

    def _names(self, folder: Path) -> Iterator[str]:
        """Device names of the toolkit's kind in a folder; files that have not changed are not read again."""
        for path in sorted(folder.glob("*.*")) if folder.is_dir() else ():
            with suppress(OSError):
                if path.suffix in {".json", ".yaml", ".yml"}:
                    stat = path.stat()
                    stamp = (stat.st_mtime_ns, stat.st_size)
                    if self._read.get(str(path), (None, None))[0] != stamp:
                        self._read[str(path)] = (stamp, frozenset(_external(path)))
                    yield from self._read[str(path)][1]


def _has_something_to_do(node: Node, config: Config) -> bool:
    return names_by_cdi(config) and node.state is DriverState.READY


def write(specifications: Iterable[Document], folder: Path) -> tuple[str, ...]:
    """Puts each specification under its final name at once and whole; those that say the same are left alone.

    Returns:
        The paths written.

    Raises:
        OSError: The folder or a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[str] = []
    for document in specifications:
        path, text = folder / document.file_name, as_text(document)
        if not _says(path, text):
            _replace(path, text)
            written.append(str(path))
    return tuple(written)


def remove(folder: Path) -> tuple[str, ...]:
    """Removes all our files from a folder; the paths that were there.

    Raises:
        OSError: One of them cannot be removed.
    """
    gone: list[str] = []
    for name in FILES:
        with suppress(FileNotFoundError):
            (folder / name).unlink()
            gone.append(str(folder / name))
    return tuple(gone)


def as_text(document: Document) -> str:
    """The file's content."""
    return json.dumps(document.content, indent=2) + "\n"


def _says(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def _replace(path: Path, text: str) -> None:
    # Runtimes read what ends in .json or .yaml: the unfinished file ends otherwise, and begins with a dot.
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(number, _READABLE)
            os.fsync(number)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _why(error: OSError, folder: Path) -> str:
    return f"{error.filename or folder}: {error.strerror}; make {folder} writable, or name another by --cdi-folder"


def _external(path: Path) -> Iterator[str]:
    """Device names in a specification of the toolkit's kind; none where the file is another's or no specification."""
    try:
        content = _parsed(path)
    except ValueError as error:
        log.warning("%s is no CDI specification that can be read: %s", path, str(error).partition("\n")[0])
        return
    if isinstance(content, Mapping) and content.get("kind") == EXTERNAL_KIND:
        devices = content.get("devices")
        for device in devices if isinstance(devices, list) else ():
            if isinstance(device, Mapping) and isinstance(device.get("name"), str):
                yield device["name"]


def _parsed(path: Path) -> Any:
    text = path.read_bytes()
    if path.suffix == ".json":
        return json.loads(text)
    import yaml

    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
