"""Device nodes: what cannot be handed over as the configuration wants it is not offered."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from deviceplugin.config.document import CdiSpec, Config, ListStrategy
from deviceplugin.model.inventory import LeftOut
from deviceplugin.model.node import MigInstance
from deviceplugin.rules.offer.candidate import Candidate

CDI = frozenset({ListStrategy.CDI_ANNOTATIONS, ListStrategy.CDI_CRI})


class Reach(Struct, frozen=True):
    """Devices whose nodes are known where they are needed, and the others."""

    candidates: tuple[Candidate, ...]
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()


def passes_nodes(config: Config) -> bool:
    """Whether Allocate answers with device nodes: passDeviceSpecs, under a strategy that is not CDI."""
    plugin = config.flags.plugin
    return plugin.pass_device_specs and not CDI.issuperset(plugin.device_list_strategy)


def names_by_cdi(config: Config) -> bool:
    """Whether Allocate answers with names that a CDI specification must know."""
    return not CDI.isdisjoint(config.flags.plugin.device_list_strategy)


def describes_nodes(config: Config) -> bool:
    """Whether a CDI specification of ours names device nodes."""
    return config.cdi.spec is CdiSpec.OWN and names_by_cdi(config)


def reachable(candidates: Sequence[Candidate], config: Config, host_root: str) -> Reach:
    """Sorts out devices that lack a node: capability nodes of MIG instances, the minor number of a card.

    Where nothing of ours hands nodes over, the container runtime finds them on the host by itself. A plugin without a
    view of the host's /dev then sees no capability node at all, which says nothing; one instance among others that
    lacks its nodes lacks them truly.
    """
    passes, describes = passes_nodes(config), describes_nodes(config)
    instances = [c.instance for c in candidates if c.instance is not None]
    certain = passes or describes or bool(host_root.rstrip("/")) or any(map(_has_capabilities, instances))
    kept: list[Candidate] = []
    left_out: list[LeftOut] = []
    warnings: list[str] = []
    for candidate in candidates:
        capability = _without_capability(candidate)
        flaw = capability if certain else None
        if flaw is None and passes and candidate.gpu.minor is None:
            flaw = _without_minor(candidate)
        if flaw is not None:
            left_out.append(flaw)
            continue
        kept.append(candidate)
        if capability is not None:
            warnings.append(capability.detail)
    return Reach(tuple(kept), tuple(left_out), tuple(warnings))


def _has_capabilities(instance: MigInstance) -> bool:
    return bool(instance.gi_capability and instance.ci_capability)


def _without_capability(candidate: Candidate) -> LeftOut | None:
    instance = candidate.instance
    if instance is None or _has_capabilities(instance):
        return None
    minor = "?" if candidate.gpu.minor is None else candidate.gpu.minor
    place = f"gpu{minor}/gi{instance.gi}"
    entries = ((f"{place}/access", instance.gi_capability), (f"{place}/ci{instance.ci}/access", instance.ci_capability))
    missing = " and ".join(entry for entry, node in entries if not node)
    return candidate.left_out(
        "no-capability-node",
        f"has no /dev/nvidia-caps/nvidia-cap<n> for {missing} of /proc/driver/nvidia-caps/mig-minors; make the nodes "
        "on the host (nvidia-modprobe -f), and mount the host's /dev where this plugin looks",
    )


def _without_minor(candidate: Candidate) -> LeftOut:
    return candidate.left_out(
        "no-minor-number",
        "has no minor number, so its device node is unknown; set flags.plugin.passDeviceSpecs to false on this node",
    )
