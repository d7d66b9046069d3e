"""The driver's libraries below one root: by the loader's cache, then in the folders that distributions use."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from deviceplugin.files.loadercache import paths_of
from deviceplugin.files.rooted import Root
from deviceplugin.model.userspace import LibraryLink

FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/home/kubernetes/bin/nvidia/lib64",
    "/opt/nvidia/lib64",
    "/run/opengl-driver/lib",
)
"""Debian and Ubuntu, RHEL and SUSE, Arch, hosted nodes, NixOS."""
INNER = ("", "/vdpau", "/nvidia", "/nvidia/current")
EXPLICIT = (
    "libEGL.so",
    "libGL.so",
    "libGLESv1_CM.so",
    "libGLESv2.so",
    "libGLX.so",
    "libGLdispatch.so",
    "libOpenCL.so",
    "libOpenGL.so",
    "libnvidia-api.so",
    "libnvidia-egl-xcb.so",
    "libnvidia-egl-xlib.so",
)
"""Libraries that do not carry the driver's version: handed over only if a feature flag says so."""
OTHER_STEMS = frozenset({"libGLX_indirect"})
"""Names of links that differ from their library's by more than the version."""
CUDA = "libcuda.so"
CACHE = "/etc/ld.so.cache"

_VERSIONED = re.compile(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)*)")


class Libraries(Struct, frozen=True):
    """Libraries of one version, by their real paths, and the links that lead to them."""

    version: str
    paths: tuple[str, ...]
    links: tuple[LibraryLink, ...]


def versions(root: Root) -> tuple[str, ...]:
    """Versions of every libcuda below the root, in the order in which folders are looked through."""
    names = (name for folders in _places(root) for folder in folders for name in root.names(folder))
    return tuple(dict.fromkeys(match[1] for match in map(_VERSIONED.fullmatch, names) if match))


def find(root: Root, version: str, *, explicit: bool = False) -> Libraries | None:
    """The driver's libraries of one version.

    Args:
        root: Where to look.
        version: The driver's version; empty: that of the first libcuda found.
        explicit: Also those that carry no version.

    Returns:
        None where libcuda of that version is not there.
    """
    version = version or next(iter(versions(root)), "")
    places = (_in_place(root, folders, version, explicit=explicit) for folders in _places(root))
    return next(filter(None, places), None)


def _in_place(root: Root, folders: Sequence[str], version: str, *, explicit: bool) -> Libraries | None:
    names = [(folder, name) for folder in folders for name in root.names(folder) if ".so" in name]
    wanted = [n for n in names if n[1].endswith(f".so.{version}") or (explicit and n[1].startswith(EXPLICIT))]
    found = dict.fromkeys(filter(None, (root.real(f"{folder}/{name}") for folder, name in wanted)))
    cuda = next((path for path in found if path.endswith(f"/{CUDA}.{version}")), None)
    if cuda is None:
        return None
    links: dict[str, _Link] = {}
    stems = {_stem(name) for _, name in wanted} | OTHER_STEMS
    for folder, name in names:
        real = root.real(f"{folder}/{name}") if _stem(name) in stems else None
        if real in found and real is not None:
            home, _, own = real.rpartition("/")
            if name != own:
                next_name = (root.link(f"{folder}/{name}") or "").rpartition("/")[2]
                links.setdefault(f"{home}/{name}", _Link(home, next_name, own))
    home, _, own = cuda.rpartition("/")
    links.setdefault(f"{home}/{CUDA}.1", _Link(home, own, own))
    links.setdefault(f"{home}/{CUDA}", _Link(home, f"{CUDA}.1", own))
    return Libraries(version, tuple(found), tuple(_in_containers(links, found)))


def _stem(name: str) -> str:
    return name.partition(".so")[0]


class _Link(Struct, frozen=True):
    """A link to the library `own` in the folder `home`, which says that it leads to `next_name`."""

    home: str
    next_name: str
    own: str


def _in_containers(links: Mapping[str, _Link], found: Collection[str]) -> Iterator[LibraryLink]:
    """The links, each to a name that a container has: another link, or else the library itself."""
    for path, link in sorted(links.items()):
        onward = f"{link.home}/{link.next_name}"
        known = onward != path and (onward in links or onward in found)
        yield LibraryLink(path, link.next_name if known else link.own)


def _places(root: Root) -> Iterator[tuple[str, ...]]:
    """Places that may hold the driver's libraries, those of the loader's cache first; each with the folders inside it.

    Where the SONAME's link leads somewhere else, both ends are one place. Only one place is used, since the 32-bit
    libraries of the same driver are in another.
    """
    for path in (*paths_of(root.read(CACHE), f"{CUDA}.1", CUDA), *(f"{folder}/{CUDA}.1" for folder in FOLDERS)):
        ends = (path, root.real(path) or path)
        reals = (root.real(end.rpartition("/")[0] + inner) for end in ends for inner in INNER)
        yield tuple(dict.fromkeys(filter(None, reals)))
