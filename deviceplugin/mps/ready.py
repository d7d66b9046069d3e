"""The ready file: what a daemon was told, left by its keeper for the plugin to compare with what it wants."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from deviceplugin.model.mps import MpsDevice, MpsPlan
from deviceplugin.mps.places import READY


class Ready(Struct, frozen=True):
    """Content of the file."""

    plan: MpsPlan
    config: str = ""
    """Hash of the configuration that it was told by."""


def write(folder: Path, ready: Ready) -> None:
    """Puts the file under its name at once and whole.

    Raises:
        OSError: It cannot be written.
    """
    document = {
        "config": ready.config,
        "threadPercentage": ready.plan.thread_percentage,
        "devices": [{"uuid": d.uuid, "index": d.index, "memoryMiB": d.memory_mib} for d in ready.plan.devices],
    }
    fresh = folder / f".{READY}.new"
    fresh.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    os.replace(fresh, folder / READY)  # noqa: PTH105 - the short way


def read(folder: Path) -> Ready | None:
    """What it says; None where there is none, or none that can be understood."""
    try:
        return _decode(json.loads((folder / READY).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget(folder: Path) -> None:
    """Takes the file away, if it is there."""
    with suppress(FileNotFoundError):
        (folder / READY).unlink()


def forget_all(root: Path) -> None:
    """Takes the files of all resources away, also of those that are shared no more."""
    for path in root.glob(f"*/*/{READY}"):
        forget(path.parent)


def _decode(document: dict[str, Any]) -> Ready:
    devices = tuple(MpsDevice(str(d["uuid"]), int(d["index"]), d["memoryMiB"]) for d in document["devices"])
    return Ready(MpsPlan(devices, float(document["threadPercentage"])), str(document["config"]))
