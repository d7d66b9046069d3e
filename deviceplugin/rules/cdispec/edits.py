"""Container edits: device nodes, mounts, variables and hooks, in the words of a CDI specification."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from deviceplugin.config.document import Config
from deviceplugin.model.userspace import DriverFiles, HostFile
from deviceplugin.rules.allocate.nodes import CONTROL, under
from deviceplugin.rules.offer.candidate import Candidate

Json = dict[str, Any]

FILE_OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")
SOCKET_OPTIONS = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
HOOK_ENVIRONMENT = ("NVIDIA_CTK_DEBUG=false",)
HOOKS = (
    "create-symlinks",
    "enable-cuda-compat",
    "update-ldcache",
    "disable-device-node-modification",
    "update-application-profile",
)
"""Hooks of the container toolkit, in the order in which they run; the last two need toolkit 1.18 and 1.20."""
NO_HOOKS = "all"

BESIDE: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "gds": re.compile(r"/dev/nvidia-fs\d*"),
        "gdrcopy": re.compile(r"/dev/gdrdrv"),
        "mofed": re.compile(r"/dev/infiniband/(uverbs\d+|rdma_cm)"),
    }
)
"""Kinds beside GPUs, and the device nodes of each."""


def switched_on(config: Config) -> tuple[str, ...]:
    """The kinds beside GPUs that the configuration asks for."""
    flags = config.flags
    on = {"gds": flags.gds_enabled, "gdrcopy": flags.gdrcopy_enabled, "mofed": flags.mofed_enabled}
    return tuple(kind for kind in BESIDE if on[kind])


def nodes_beside(kind: str, files: DriverFiles) -> list[str]:
    """The device nodes of such a kind that are there."""
    return sorted(path for path in files.nodes if BESIDE[kind].fullmatch(path))


def paths(candidate: Candidate, files: DriverFiles) -> tuple[str, ...]:
    """Device nodes of a card (with those for rendering), or of a MIG instance (its card's, and both capabilities)."""
    card = f"/dev/nvidia{candidate.gpu.minor}"
    if candidate.instance is None:
        return (card, *files.rendering.get(candidate.gpu.pci, ()))
    return (card, str(candidate.instance.gi_capability), str(candidate.instance.ci_capability))


def device_nodes(wanted: Iterable[str], config: Config) -> list[Json]:
    """Device nodes, each once; the host's path is written where the dev root makes it another one."""
    root = (config.flags.nvidia_dev_root or config.flags.nvidia_driver_root).rstrip("/")
    return [{"path": path} | ({"hostPath": under(root, path)} if root else {}) for path in dict.fromkeys(wanted)]


def common(files: DriverFiles, config: Config) -> Json:
    """What every container with a GPU gets: control nodes, the driver's files, and the hooks that set them up."""
    edits: Json = {
        "env": ["NVIDIA_VISIBLE_DEVICES=void", f"NVIDIA_CTK_LIBCUDA_DIR={files.cuda_folder}"],
        "deviceNodes": device_nodes((path for path in CONTROL if path in files.nodes), config),
        "mounts": [
            *(_mount(file, FILE_OPTIONS) for file in (*files.binaries, *files.libraries, *files.firmware)),
            *(_mount(socket, SOCKET_OPTIONS) for socket in files.sockets),
        ],
    }
    hooks = list(_hooks(files, config))
    return edits | ({"hooks": hooks} if hooks else {})


def beside(kind: str, files: DriverFiles, config: Config) -> Json:
    """Edits of a kind beside GPUs; the variable keeps them from being empty, which CDI forbids."""
    edits: Json = {"env": [f"NVIDIA_{kind.upper()}=enabled"]}
    if nodes := nodes_beside(kind, files):
        edits["deviceNodes"] = device_nodes(nodes, config)
    if kind == "gds" and files.storage:
        edits["mounts"] = [_mount(file, FILE_OPTIONS) for file in files.storage]
    return edits


def _mount(file: HostFile, options: Sequence[str]) -> Json:
    return {"hostPath": file.host_path, "containerPath": file.container_path, "options": list(options)}


def _hooks(files: DriverFiles, config: Config) -> Iterator[Json]:
    program = config.flags.plugin.nvidia_ctk_path
    name = program.rpartition("/")[2]
    start = [name] if name == "nvidia-cdi-hook" else [name, "hook"]
    folders = dict.fromkeys(file.container_path.rpartition("/")[0] for file in files.libraries)
    arguments: Mapping[str, list[str]] = {
        "create-symlinks": [word for link in files.links for word in ("--link", f"{link.target}::{link.path}")],
        "enable-cuda-compat": [f"--host-driver-version={files.version}"],
        "update-ldcache": [word for folder in folders for word in ("--folder", folder)],
    }
    for hook in HOOKS:
        if not {hook, NO_HOOKS}.intersection(config.cdi.disable_hooks):
            words = [*start, hook, *arguments.get(hook, ())]
            yield {"hookName": "createContainer", "path": program, "args": words, "env": list(HOOK_ENVIRONMENT)}
