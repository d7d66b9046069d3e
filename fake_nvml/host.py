"""The fake host root: what a driver shows under /sys, /proc and /dev, and what it installs, as regular files.

The whole picture is computed from the state and the folder is made equal to it.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from fake_nvml.state import GpuState, State

COMPUTE_CLASS, DISPLAY_CLASS, BRIDGE_CLASS = "0x030200", "0x030000", "0x068000"
NVIDIA = "0x10de"
_INSTANCES, _COMPUTE = 15, 8
_FIRST_CAPABILITY = 3  # after the two of /proc/driver/nvidia-caps: config and monitor
_PER_INSTANCE = _COMPUTE + 1
_OWNED = ("sys/bus/pci/devices", "proc/driver", "dev", "usr/lib/x86_64-linux-gnu", "usr/bin", "lib/firmware/nvidia")
_LIBRARIES = ("cuda", "nvidia-ml", "nvidia-ptxjitcompiler", "cudadebugger", "nvidia-nvvm", "nvidia-opencl", "nvcuvid")
_PROGRAMS = ("nvidia-smi", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")


def render(root: Path, state: State) -> None:
    """Make the folders under a root show the machine as it is now."""
    wanted = picture(state)
    for folder in _OWNED:
        for place, inner, files in os.walk(root / folder, topdown=False):
            for name in files:
                path = os.path.join(place, name)  # noqa: PTH118  hundreds of them at every start
                if os.path.relpath(path, root) not in wanted:
                    os.unlink(path)  # noqa: PTH108
            if inner or files:
                _prune(place)
    made: set[str] = set()
    for name, text in wanted.items():
        folder = os.path.dirname(name)  # noqa: PTH120
        if folder not in made:
            (root / folder).mkdir(parents=True, exist_ok=True)
            made.add(folder)
        _write(f"{root}/{name}", text)


def _prune(place: str) -> None:
    """Remove a folder if nothing is left in it."""
    with contextlib.suppress(OSError):
        os.rmdir(place)  # noqa: PTH106


def _write(path: str, text: str) -> None:
    """Make a file say something; one that says something else is replaced whole."""
    try:
        with open(path, "x") as fresh:  # noqa: PTH123
            fresh.write(text)
    except FileExistsError:
        with open(path) as old:  # noqa: PTH123
            if old.read() == text:
                return
        with open(f"{path}.new", "w") as fresh:  # noqa: PTH123
            fresh.write(text)
        os.replace(f"{path}.new", path)  # noqa: PTH105


def picture(state: State) -> dict[str, str]:
    """Every file of the fake root, by its path relative to it."""
    machine = state.machine
    boot = uuid.uuid5(uuid.NAMESPACE_URL, f"boot:{machine.name}")
    files = {
        "proc/sys/kernel/random/boot_id": f"{boot}\n",
        "sys/class/dmi/id/product_name": f"{machine.product}\n",
        "sys/bus/pci/devices/0000:00:1f.0/vendor": "0x8086\n",
        "sys/bus/pci/devices/0000:00:1f.0/class": "0x060100\n",
    }
    for one in state.gpus:
        if one.attached and machine.device_nodes:
            kind = DISPLAY_CLASS if one.gpu.card.fan else COMPUTE_CLASS  # passive cards drive no display
            files.update(_pci(one.gpu.sysfs_name, kind, one.gpu.card.device_id >> 16, one.gpu.numa))
    for bus_id in machine.switches:
        domain, rest = bus_id.lower().split(":", 1)
        files.update(_pci(f"{int(domain, 16):04x}:{rest}", BRIDGE_CLASS, 0x22A3, 0))
    if state.library and state.loaded:
        files.update(_driver(state))
    return files


def _pci(name: str, kind: str, device: int, numa: int | None) -> dict[str, str]:
    folder = f"sys/bus/pci/devices/{name}"
    return {
        f"{folder}/vendor": f"{NVIDIA}\n",
        f"{folder}/device": f"0x{device:04x}\n",
        f"{folder}/class": f"{kind}\n",
        f"{folder}/numa_node": f"{-1 if numa is None else numa}\n",
    }


def _driver(state: State) -> dict[str, str]:
    if not state.machine.device_nodes:
        return {"dev/dxg": ""}
    files = {
        "proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {state.driver}\n",
        "dev/nvidiactl": "",
        "dev/nvidia-uvm": "",
        "dev/nvidia-uvm-tools": "",
        "dev/nvidia-modeset": "",
        f"lib/firmware/nvidia/{state.driver}/gsp_ga10x.bin": "",
    }
    files |= {f"usr/lib/x86_64-linux-gnu/lib{name}.so.{state.driver}": "" for name in _LIBRARIES}
    files |= {f"usr/bin/{name}": "" for name in _PROGRAMS}
    for one in state.gpus:
        if one.attached:
            files[f"dev/nvidia{one.gpu.minor}"] = ""
            files[f"proc/driver/nvidia/gpus/{one.gpu.sysfs_name}/information"] = (
                f"Model: \t\t {one.gpu.card.name}\nGPU UUID: \t {one.gpu.uuid}\n"
                f"Bus Location: \t {one.gpu.sysfs_name}\nDevice Minor: \t {one.gpu.minor}\n"
            )
    for channel in state.machine.imex_channels:
        files[f"dev/nvidia-caps-imex-channels/channel{channel}"] = ""
    cuttable = [one for one in state.gpus if one.attached and one.gpu.card.mig_capable]
    if cuttable:
        files["proc/driver/nvidia-caps/mig-minors"] = _mig_minors(cuttable)
        files["dev/nvidia-caps/nvidia-cap1"] = files["dev/nvidia-caps/nvidia-cap2"] = ""
    for one in cuttable:
        for device in one.devices.values():
            for ci in (None, device.ci):
                files[f"dev/nvidia-caps/nvidia-cap{capability(one.gpu.minor, device.gi.id, ci)}"] = ""
    return files


def capability(minor: int, gi: int, ci: int | None = None) -> int:
    """The number of the capability node of a GPU instance, or of a compute instance in it."""
    base = _FIRST_CAPABILITY + (minor * _INSTANCES + gi) * _PER_INSTANCE
    return base if ci is None else base + 1 + ci


def _mig_minors(cuttable: list[GpuState]) -> str:
    lines = ["config 1", "monitor 2"]
    for one in cuttable:
        minor = one.gpu.minor
        for gi in range(_INSTANCES):
            lines.append(f"gpu{minor}/gi{gi}/access {capability(minor, gi)}")
            lines += [f"gpu{minor}/gi{gi}/ci{ci}/access {capability(minor, gi, ci)}" for ci in range(_COMPUTE)]
    return "\n".join(lines) + "\n"
