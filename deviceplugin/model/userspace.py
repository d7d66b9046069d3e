"""What a driver installation has in files, for the specifications that hand it to containers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field


class HostFile(Struct, frozen=True):
    """A file of the driver: where the host has it, and where a container is to have it."""

    host_path: str
    container_path: str


class LibraryLink(Struct, frozen=True):
    """A symbolic link to a library, as containers need it: `path` leads to `target`, a name in the same folder."""

    path: str
    target: str


class DriverFiles(Struct, frozen=True):
    """One driver installation, as found under the driver root."""

    version: str = ""
    libraries: tuple[HostFile, ...] = ()
    links: tuple[LibraryLink, ...] = ()
    binaries: tuple[HostFile, ...] = ()
    firmware: tuple[HostFile, ...] = ()
    sockets: tuple[HostFile, ...] = ()
    storage: tuple[HostFile, ...] = ()
    """What GPUDirect Storage reads: its configuration, and udev's folder."""
    nodes: frozenset[str] = frozenset()
    """Device nodes that are there, `/dev/...`, without the dev root."""
    rendering: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """PCI bus id as NVML prints it -> the card's nodes under `/dev/dri`."""
    problem: str = ""
    """Why containers could not use the driver with these files; empty where they can."""

    @property
    def cuda_folder(self) -> str:
        """The folder of libcuda in containers; empty where it was not found."""
        for library in self.libraries:
            folder, _, name = library.container_path.rpartition("/")
            if name.startswith("libcuda.so."):
                return folder
        return ""
