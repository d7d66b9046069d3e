"""The answer to one container's request, free of wire types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field


class Mount(Struct, frozen=True):
    """A bind mount into the container."""

    container_path: str
    host_path: str
    read_only: bool = False


class DeviceNode(Struct, frozen=True):
    """A device node for the container; permissions are letters of `rwm`."""

    container_path: str
    host_path: str
    permissions: str = "rw"


class Grant(Struct, frozen=True):
    """What a container gets (ContainerAllocateResponse)."""

    envs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cdi: tuple[str, ...] = ()
    """Qualified CDI device names."""
