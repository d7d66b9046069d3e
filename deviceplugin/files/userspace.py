"""Finding the driver's files under its root, wherever a distribution or a driver container puts them.

The driver root has two paths: the host's, which specifications name, and the one where this process sees it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import MappingProxyType

from deviceplugin.config.document import Config
from deviceplugin.files import devicenodes, libraries
from deviceplugin.files.rooted import Root
from deviceplugin.model.node import Node
from deviceplugin.model.userspace import DriverFiles, HostFile
from deviceplugin.rules.cdispec import EXPLICIT_LIBRARIES
from deviceplugin.rules.offer.handover import under

BINARY_FOLDERS = (
    "/usr/bin",
    "/usr/sbin",
    "/bin",
    "/usr/local/bin",
    "/usr/local/nvidia/bin",
    "/home/kubernetes/bin/nvidia/bin",
    "/opt/nvidia/bin",
    "/run/current-system/sw/bin",
)
BINARIES = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
)
FIRMWARE_FOLDERS = ("/lib/firmware/nvidia", "/usr/lib/firmware/nvidia", "/run/current-system/firmware/nvidia")
SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
STORAGE = ("/run/udev", "/etc/cufile.json")


def find(node: Node, config: Config, host_root: str = "/") -> DriverFiles:
    """Looks for the driver's files; blocks on the disk.

    Args:
        node: The scan: the driver's version, and the cards whose nodes are looked for.
        config: Roots and feature flags.
        host_root: Where the host's root is seen (`--host-root`).

    Returns:
        What was found. `problem` says what is missing of what no container can do without.
    """
    around = devicenodes.look(node.gpus, config, host_root)
    roots = tuple(Root(seen) for seen in _roots(config, host_root))
    explicit = EXPLICIT_LIBRARIES in config.cdi.feature_flags
    for root in roots:
        found = libraries.find(root, node.driver_version or "", explicit=explicit)
        if found is not None:
            return _Installation(root, config.flags.nvidia_driver_root, found).files(around)
    return DriverFiles(nodes=around.paths, rendering=around.rendering, problem=_missing(roots, node.driver_version))


def _roots(config: Config, host_root: str) -> tuple[str, ...]:
    """Where the driver root may be seen: as it is mounted for us, below the host root, or as the host has it."""
    driver_root, mounted = config.flags.nvidia_driver_root, config.flags.plugin.container_driver_root
    if host_root.rstrip("/"):
        return tuple(dict.fromkeys((mounted, under(host_root, driver_root), host_root)))
    return (mounted,) if os.path.isdir(mounted) else (mounted, driver_root)  # noqa: PTH112 - one stat


def _missing(roots: tuple[Root, ...], version: str | None) -> str:
    places = " or ".join(root.seen for root in roots)
    others = sorted({other for root in roots for other in libraries.versions(root)})
    remedy = (
        f"version {' and '.join(others)} is: finish the upgrade of the driver, then start this plugin again"
        if others
        else "mount the driver's root and name it by --container-driver-root"
    )
    return f"{libraries.CUDA}.{version or '<version>'} is not found below {places}; {remedy}"


class _Installation:
    """One driver installation below one root."""

    def __init__(self, root: Root, host_root: str, found: libraries.Libraries) -> None:
        self._root = root
        self._host_root = host_root
        self._found = found

    def files(self, around: devicenodes.Nodes) -> DriverFiles:
        return DriverFiles(
            version=self._found.version,
            libraries=tuple(self._file(path, path) for path in self._found.paths),
            links=self._found.links,
            binaries=tuple(self._binaries()),
            firmware=tuple(self._firmware()),
            sockets=tuple(self._there(SOCKETS)),
            storage=tuple(self._there(STORAGE)),
            nodes=around.paths,
            rendering=MappingProxyType(dict(around.rendering)),
            problem=self._foreign(),
        )

    def _file(self, real: str, container_path: str) -> HostFile:
        return HostFile(under(self._host_root, real), container_path)

    def _there(self, paths: tuple[str, ...]) -> Iterator[HostFile]:
        for path in paths:
            if (real := self._root.real(path)) is not None:
                yield self._file(real, path)

    def _binaries(self) -> Iterator[HostFile]:
        for name in BINARIES:
            places = (self._root.real(f"{folder}/{name}") for folder in BINARY_FOLDERS)
            if (real := next(filter(None, places), None)) is not None:
                yield self._file(real, f"/usr/bin/{name}")

    def _firmware(self) -> Iterator[HostFile]:
        for folder in FIRMWARE_FOLDERS:
            home = f"{folder}/{self._found.version}"
            if names := self._root.names(home):
                to = f"{FIRMWARE_FOLDERS[0]}/{self._found.version}"
                reals = ((name, self._root.real(f"{home}/{name}")) for name in names)
                yield from (self._file(real, f"{to}/{name}") for name, real in reals if real is not None)
                return

    def _foreign(self) -> str:
        """Files that a container runtime has put into our own container are at the host's paths by chance only."""
        for path in self._found.paths:
            if os.path.ismount(self._root.outside(path)):
                return (
                    f"{self._root.outside(path)} was put into this container by its runtime and need not be there on "
                    "the host; mount the driver's root and name it by --container-driver-root"
                )
        return ""
