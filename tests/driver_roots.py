"""Driver roots as distributions lay them out, made of empty files and links."""

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

VERSION = "580.95.05"
NAMES = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-opencl")
X86_64, I386 = 0x0303, 0x0003


def touch(root: Path, *paths: str) -> None:
    for path in paths:
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def link(root: Path, path: str, target: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(target)


def libraries(root: Path, folder: str, version: str = VERSION) -> None:
    """The driver's libraries in one folder, with their SONAME links."""
    for name in NAMES:
        touch(root, f"{folder}/{name}.so.{version}")
        link(root, f"{folder}/{name}.so.1", f"{name}.so.{version}")
    link(root, f"{folder}/libcuda.so", "libcuda.so.1")


def loader_cache(entries: Mapping[str, tuple[str, int]], *, old_part: bool = False) -> bytes:
    """An ld.so.cache of format 1.1: SONAME -> path and flags."""
    header = 48
    texts = b""
    table = b""
    start = header + 24 * len(entries)
    for soname, (path, flags) in entries.items():
        key = start + len(texts)
        texts += soname.encode() + b"\0"
        value = start + len(texts)
        texts += path.encode() + b"\0"
        table += struct.pack("<iIIIQ", flags, key, value, 0, 0)
    new = (
        b"glibc-ld.so.cache1.1"
        + struct.pack("<II", len(entries), len(texts))
        + b"\2\0\0\0"
        + b"\0" * 16
        + table
        + texts
    )
    old = b"ld.so-1.7.0\0" + struct.pack("<I", 0) if old_part else b""
    return old + new


def ubuntu(root: Path) -> None:
    libraries(root, "/usr/lib/x86_64-linux-gnu")
    touch(root, f"/usr/lib/x86_64-linux-gnu/vdpau/libvdpau_nvidia.so.{VERSION}")
    link(root, "/usr/lib/x86_64-linux-gnu/libcudart.so", "libc.so.6")
    touch(root, f"/usr/lib/i386-linux-gnu/libcuda.so.{VERSION}")
    touch(root, "/usr/lib/x86_64-linux-gnu/libEGL.so.1.1.0", "/usr/lib/x86_64-linux-gnu/libc.so.6")
    link(root, "/lib", "usr/lib")
    link(root, "/bin", "usr/bin")
    touch(root, "/usr/bin/nvidia-smi", "/usr/bin/nvidia-persistenced", "/usr/bin/nvidia-cuda-mps-control")
    touch(
        root, f"/usr/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin", f"/usr/lib/firmware/nvidia/{VERSION}/gsp_tu10x.bin"
    )
    touch(root, "/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")


def debian(root: Path) -> None:
    """Alternatives: the SONAME leads over /etc/alternatives into a folder of the driver's own."""
    own = "/usr/lib/x86_64-linux-gnu/nvidia/current"
    libraries(root, own)
    touch(root, f"/usr/lib/x86_64-linux-gnu/libnvidia-cfg.so.{VERSION}")
    link(root, "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/etc/alternatives/nvidia--libcuda.so.1")
    link(root, "/etc/alternatives/nvidia--libcuda.so.1", f"{own}/libcuda.so.1")
    touch(root, "/usr/lib/nvidia/current/nvidia-smi")
    link(root, "/usr/bin/nvidia-smi", "/etc/alternatives/nvidia--nvidia-smi")
    link(root, "/etc/alternatives/nvidia--nvidia-smi", "/usr/lib/nvidia/current/nvidia-smi")
    touch(root, f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin")


def rhel(root: Path) -> None:
    libraries(root, "/usr/lib64")
    touch(root, f"/usr/lib64/vdpau/libvdpau_nvidia.so.{VERSION}", f"/usr/lib/libcuda.so.{VERSION}")
    link(root, "/lib64", "usr/lib64")
    touch(root, "/usr/bin/nvidia-smi", f"/usr/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin")
    link(root, "/lib", "usr/lib")


def driver_container(root: Path) -> None:
    """What the driver container of the GPU operator shows: an Ubuntu with the loader's cache."""
    ubuntu(root)
    entries = {
        "libcuda.so.1": ("/lib/x86_64-linux-gnu/libcuda.so.1", X86_64),
        "libcuda.so": ("/lib/i386-linux-gnu/libcuda.so", I386),
    }
    touch(root, "/etc/ld.so.cache")
    (root / "etc/ld.so.cache").write_bytes(loader_cache(entries, old_part=True))


def unusual(root: Path) -> None:
    """A place that only the loader's cache knows."""
    libraries(root, "/opt/vendor/gpu/lib")
    touch(root, "/etc/ld.so.cache")
    entries = {"libcuda.so.1": ("/opt/vendor/gpu/lib/libcuda.so.1", X86_64)}
    (root / "etc/ld.so.cache").write_bytes(loader_cache(entries))


def nixos(root: Path) -> None:
    """A farm of absolute links into the store."""
    store = "/nix/store/abc-nvidia-x11"
    libraries(root, f"{store}/lib")
    link(root, "/run/opengl-driver", "/nix/store/def-graphics-drivers")
    for name in (*(f"{n}.so.{VERSION}" for n in NAMES), *(f"{n}.so.1" for n in NAMES), "libcuda.so"):
        link(root, f"/nix/store/def-graphics-drivers/lib/{name}", f"{store}/lib/{name}")
    touch(root, f"{store}-bin/bin/nvidia-smi", f"{store}-firmware/gsp_ga10x.bin")
    link(root, "/run/current-system/sw/bin/nvidia-smi", f"{store}-bin/bin/nvidia-smi")
    link(root, f"/run/current-system/firmware/nvidia/{VERSION}", f"{store}-firmware")


ROOTS: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "ubuntu": (ubuntu, "/usr/lib/x86_64-linux-gnu"),
    "debian": (debian, "/usr/lib/x86_64-linux-gnu/nvidia/current"),
    "rhel": (rhel, "/usr/lib64"),
    "driver-container": (driver_container, "/usr/lib/x86_64-linux-gnu"),
    "unusual": (unusual, "/opt/vendor/gpu/lib"),
    "nixos": (nixos, "/nix/store/abc-nvidia-x11/lib"),
}
"""Layout -> how it is made, and where its libcuda really is."""
