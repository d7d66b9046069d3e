"""CDI specifications: from a scan and the driver's files to one document for each kind of device.

Source: Container Device Interface specification 0.5.0. Names and edits are those of the NVIDIA container toolkit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from deviceplugin.config.document import Config
from deviceplugin.model.node import Node
from deviceplugin.model.userspace import DriverFiles
from deviceplugin.rules.allocate.nodes import IMEX_CHANNEL
from deviceplugin.rules.cdispec.edits import BESIDE, Json, beside, common, device_nodes, paths, switched_on
from deviceplugin.rules.cdispec.flaws import (
    EXPLICIT_LIBRARIES,
    candidates,
    flaw,
    flaws,
    idle_settings,
    unnamed,
    unwritten,
)
from deviceplugin.rules.offer.handover import OWN_VENDOR

__all__ = [
    "EXPLICIT_LIBRARIES",
    "FILES",
    "GPU_FILE",
    "Document",
    "documents",
    "flaws",
    "idle_settings",
    "unnamed",
    "unwritten",
]

VERSION_BASE = "0.3.0"
VERSION = "0.5.0"
"""The lowest that knows `hostPath` of device nodes, and names that begin with a digit."""
ALL = "all"
GPU_FILE = f"{OWN_VENDOR}-gpu.json"
FILES = tuple(f"{OWN_VENDOR}-{name}.json" for name in ("gpu", "imex-channel", *BESIDE))
"""Names of all files that may be ours: upstream's, so that what it left behind is overwritten."""


class Document(Struct, frozen=True):
    """One specification file."""

    kind: str
    content: Json

    @property
    def file_name(self) -> str:
        """Its name in the CDI folder."""
        return f"{self.kind.replace('/', '-')}.json"


def documents(node: Node, files: DriverFiles, config: Config) -> tuple[Document, ...]:
    """The specifications of a node, one for each kind; a device whose edits would be incomplete is in none."""
    return tuple(_documents(node, files, config))


def _documents(node: Node, files: DriverFiles, config: Config) -> Iterator[Document]:
    if devices := _gpus(node, files, config):
        yield _document("gpu", devices, common(files, config))
    if config.imex.channel_ids:
        yield _document("imex-channel", [_channel(n, config) for n in dict.fromkeys(config.imex.channel_ids)])
    for kind in switched_on(config):
        yield _document(kind, [_device(ALL, beside(kind, files, config))])


def _gpus(node: Node, files: DriverFiles, config: Config) -> list[Json]:
    """Devices by UUID and by index, and all of them together; none if no device is complete."""
    edits = [(c, paths(c, files)) for c in candidates(node.gpus) if not flaw(c, files)]
    if not edits:
        return []
    devices = [
        _device(name, {"deviceNodes": device_nodes(nodes, config)})
        for candidate, nodes in edits
        for name in (candidate.uuid, candidate.index)
    ]
    together = device_nodes((path for _, nodes in edits for path in nodes), config)
    return [*devices, _device(ALL, {"deviceNodes": together})]


def _channel(number: int, config: Config) -> Json:
    return _device(str(number), {"deviceNodes": device_nodes([IMEX_CHANNEL.format(number)], config)})


def _device(name: str, edits: Json) -> Json:
    return {"name": name, "containerEdits": edits}


def _document(name: str, devices: Sequence[Json], edits: Json | None = None) -> Document:
    kind = f"{OWN_VENDOR}/{name}"
    version = VERSION if any(map(_needs_version, devices)) else VERSION_BASE
    content: Json = {"cdiVersion": version, "kind": kind, "devices": list(devices)}
    return Document(kind, content if edits is None else content | {"containerEdits": edits})


def _needs_version(device: Json) -> bool:
    nodes = device["containerEdits"].get("deviceNodes", ())
    return device["name"][0].isdigit() or any("hostPath" in node for node in nodes)
