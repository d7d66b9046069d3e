"""Devices that CDI cannot hand over, and settings that do nothing: said before a container fails over them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from deviceplugin.config.document import Config
from deviceplugin.model.inventory import LeftOut
from deviceplugin.model.node import Gpu, Node
from deviceplugin.model.userspace import DriverFiles
from deviceplugin.rules.allocate.nodes import CONTROL
from deviceplugin.rules.cdispec.edits import BESIDE, HOOKS, NO_HOOKS, nodes_beside, paths, switched_on
from deviceplugin.rules.offer.candidate import Candidate, parts, whole

EXPLICIT_LIBRARIES = "enable-explicit-driver-libraries"
"""The one of upstream's feature flags that changes a specification of ours."""
FEATURES_WITHOUT_EFFECT = frozenset({"disable-nvsandbox-utils", "disable-nvsandboxutils"})
"""Switch off a library that is not used here anyway."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")


def candidates(gpus: Sequence[Gpu]) -> list[Candidate]:
    """Every card and every MIG instance."""
    return [candidate for gpu in gpus for candidate in (whole(gpu), *parts(gpu))]


def flaw(candidate: Candidate, files: DriverFiles) -> str:
    """What the edits of a device lack; empty if nothing."""
    instance = candidate.instance
    if files.problem:
        return files.problem
    if candidate.gpu.minor is None:
        return "it has no minor number, so its device node is unknown; use another deviceListStrategy on this node"
    if instance is not None and not (instance.gi_capability and instance.ci_capability):
        return "its capability nodes are missing; make them on the host (nvidia-modprobe -f)"
    if not _NAME.fullmatch(candidate.uuid):
        return f"{candidate.uuid!r} is no CDI device name; update the driver"
    gone = [path for path in (CONTROL[0], *paths(candidate, files)) if path not in files.nodes]
    if gone:
        return f"{' and '.join(gone)} is not there; load the driver, and mount the host's /dev where this plugin looks"
    return ""


def flaws(node: Node, files: DriverFiles) -> tuple[LeftOut, ...]:
    """Devices whose edits would be incomplete, each with what is missing: not to be offered under CDI."""
    found = ((candidate, flaw(candidate, files)) for candidate in candidates(node.gpus))
    return tuple(c.left_out("cdi-incomplete", f"would not work under CDI: {text}") for c, text in found if text)


def unnamed(node: Node, names: Iterable[str], *, by_index: bool, places: Sequence[str]) -> tuple[LeftOut, ...]:
    """Devices that a specification kept by the container toolkit does not name.

    Args:
        node: The scan.
        names: Device names of the kind `nvidia.com/gpu` that were found.
        by_index: Whether Allocate answers with indices.
        places: The folders that were read.
    """
    known = frozenset(names)
    return tuple(
        candidate.left_out(
            "cdi-external-missing",
            f"is not named by any nvidia.com/gpu specification in {' or '.join(places)}; run nvidia-ctk cdi generate "
            "on the node, or set cdi.spec to own",
        )
        for candidate in candidates(node.gpus)
        if (candidate.index if by_index else candidate.uuid) not in known
    )


def unwritten(node: Node, reason: str) -> tuple[LeftOut, ...]:
    """All devices, for a specification that could not be written."""
    return tuple(c.left_out("cdi-not-written", f"is known to no runtime: {reason}") for c in candidates(node.gpus))


def idle_settings(node: Node, files: DriverFiles, config: Config) -> tuple[str, ...]:
    """Settings of CDI that change nothing on this node, one sentence each."""
    cdi = config.cdi
    idle = [
        f"flags.{kind}Enabled is set and no device node matches {BESIDE[kind].pattern}; load the kernel module for it"
        for kind in switched_on(config)
        if node.gpus and not nodes_beside(kind, files)
    ]
    idle += [
        f"cdi.featureFlags: {name!r} changes nothing here; {EXPLICIT_LIBRARIES} is what does"
        for name in cdi.feature_flags
        if name != EXPLICIT_LIBRARIES and name not in FEATURES_WITHOUT_EFFECT
    ]
    idle += [
        f"cdi.disableHooks: {name!r} is no hook; there are {', '.join((*HOOKS, NO_HOOKS))}"
        for name in cdi.disable_hooks
        if name not in (*HOOKS, NO_HOOKS)
    ]
    return tuple(idle)
