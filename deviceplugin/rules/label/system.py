"""Labels of the node around the cards: driver and CUDA versions, machine, mode, fabric, vGPU, MIG and MPS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from deviceplugin.config.document import MigStrategy
from deviceplugin.model.hostfacts import HostFacts
from deviceplugin.model.inventory import Sharing
from deviceplugin.model.node import Node
from deviceplugin.rules.label.ours import Ours
from deviceplugin.rules.label.spell import joined, key

UNKNOWN = "unknown"

_MODES: Mapping[int, str] = MappingProxyType({0x0300: "graphics", 0x0302: "compute"})
"""PCI class and subclass -> `gpu.mode`: a VGA controller drives displays, a 3D controller does not."""

_VGPU_BRANDS = frozenset({7, 8, 9, 10, 11, 18})
"""nvmlBrandType_t of vGPU products, which only a virtual machine sees: vApps, vPC, vCS, vWS, gaming, game dev."""

_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?")


def system_labels(ours: Ours, facts: HostFacts) -> dict[str, str]:
    """Everything but the devices themselves; an empty text stands for what is not known and is not published."""
    single_or_mixed = ours.strategy is not MigStrategy.NONE
    return {
        **_driver(ours.snapshot.node),
        **_cuda(ours.snapshot.node),
        key("gpu", "machine"): joined(ours.snapshot.node.machine or "") or UNKNOWN,
        key("gpu", "mode"): _mode(ours, facts),
        key("gpu", "clique"): _clique(ours),
        key("mig", "capable"): _word(any(gpu.mig_capable for gpu in ours.gpus)),
        key("mig", "strategy"): str(ours.strategy) if single_or_mixed else "",
        key("mps", "capable"): _word(_by_mps(ours)),
    }


def vgpu_labels(ours: Ours, facts: HostFacts) -> dict[str, str]:
    """Whether these are virtual GPUs, and of which host driver; the first is always published."""
    host = facts.hypervisor
    present = host is not None or any(gpu.brand in _VGPU_BRANDS for gpu in ours.gpus)
    return {
        key("vgpu", "present"): _word(present),
        key("vgpu", "host-driver-version"): joined(host.version) if host else "",
        key("vgpu", "host-driver-branch"): joined(host.branch) if host else "",
    }


def _driver(node: Node) -> dict[str, str]:
    """`cuda.driver-version.*`, and `cuda.driver.*` as older selectors have it; Windows drivers have two numbers."""
    full = node.driver_version or ""
    match = _VERSION.fullmatch(full)
    major, minor, revision = (match[1], match[2], match[3] or "") if match else ("", "", "")
    return {
        key("cuda", "driver-version.major"): major,
        key("cuda", "driver-version.minor"): minor,
        key("cuda", "driver-version.revision"): revision,
        key("cuda", "driver-version.full"): joined(full),
        key("cuda", "driver.major"): major,
        key("cuda", "driver.minor"): minor,
        key("cuda", "driver.rev"): revision,
    }


def _cuda(node: Node) -> dict[str, str]:
    major, minor = map(str, node.cuda_version) if node.cuda_version else ("", "")
    return {
        key("cuda", "runtime-version.major"): major,
        key("cuda", "runtime-version.minor"): minor,
        key("cuda", "runtime-version.full"): f"{major}.{minor}" if node.cuda_version else "",
        key("cuda", "runtime.major"): major,
        key("cuda", "runtime.minor"): minor,
    }


def _by_mps(ours: Ours) -> bool:
    """Whether a card is served through MPS here, which cannot be in MIG mode."""
    whole = (ours.offered.get(gpu.uuid) for gpu in ours.gpus if not gpu.mig_enabled)
    return any(one is not None and one.sharing is Sharing.MPS for one in whole)


def _mode(ours: Ours, facts: HostFacts) -> str:
    """The mode that all cards have; unknown where they differ or one does not tell."""
    modes = {_MODES.get(facts.classes.get(gpu.pci, 0), UNKNOWN) for gpu in ours.gpus}
    return modes.pop() if len(modes) == 1 else UNKNOWN


def _clique(ours: Ours) -> str:
    """The clique of the fabric that all cards are in; cards in MIG mode, which are in none, are not asked."""
    cliques = {
        f"{gpu.fabric.cluster}.{gpu.fabric.clique}"
        if gpu.fabric is not None and gpu.fabric.completed and gpu.fabric.cluster
        else ""
        for gpu in ours.gpus
        if not gpu.mig_enabled
    }
    return joined(cliques.pop()) if len(cliques) == 1 else ""


def _word(truth: bool) -> str:  # noqa: FBT001 - the whole of what it says
    return "true" if truth else "false"
