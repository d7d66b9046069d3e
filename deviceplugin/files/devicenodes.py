"""Device nodes that are there: NVIDIA's under the dev root, and each card's rendering nodes by way of sysfs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from deviceplugin.config.document import Config
from deviceplugin.files.rooted import Root
from deviceplugin.model.node import Gpu
from deviceplugin.rules.allocate.nodes import dev_root_here
from deviceplugin.rules.identify import pci_forms
from deviceplugin.rules.offer.handover import compile_handover

FOLDERS = ("/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels", "/dev/dri", "/dev/infiniband")
PREFIXES = ("nvidia", "gdrdrv")
"""Of the names in /dev itself."""


class Nodes(Struct, frozen=True):
    """Device nodes, `/dev/...` without the dev root."""

    paths: frozenset[str]
    rendering: Mapping[str, tuple[str, ...]]
    """PCI bus id as NVML prints it -> the card's nodes under `/dev/dri`."""


def look(gpus: Iterable[Gpu], config: Config, host_root: str = "/") -> Nodes:
    """Lists device nodes under the dev root, as this process sees it."""
    dev = Root(dev_root_here(compile_handover(config, host_root), os.path.exists))
    paths = frozenset(_paths(dev))
    sysfs = Root(host_root)
    return Nodes(paths, {gpu.pci: tuple(_rendering(gpu, sysfs, paths)) for gpu in gpus})


def _paths(dev: Root) -> Iterator[str]:
    yield from (f"/dev/{name}" for name in dev.names("/dev") if name.startswith(PREFIXES))
    for folder in FOLDERS:
        yield from (f"{folder}/{name}" for name in dev.names(folder))


def _rendering(gpu: Gpu, sysfs: Root, paths: frozenset[str]) -> Iterator[str]:
    """DRM nodes of a card; sysfs names a PCI device with the domain as %04x."""
    for form in pci_forms(gpu.pci)[1:2]:
        for name in sysfs.names(f"/sys/bus/pci/devices/{form}/drm"):
            if f"/dev/dri/{name}" in paths:
                yield f"/dev/dri/{name}"
