"""Checks of `sharing`: replicas, names, devices, and what MPS can do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deviceplugin.config.amounts import parse_amount
from deviceplugin.config.document import Config, MigStrategy, Replicas, Replicated
from deviceplugin.config.finding import Finding, problem
from deviceplugin.config.names import resource_fault, shared_name
from deviceplugin.config.wording import quote

MOST_MPS_CLIENTS = 48
"""Clients of one MPS server on compute capability 7.5 and later; earlier ones take 16, which only a node can tell."""

MOST_REPLICAS = 65536
"""Beyond this no device list fits the kubelet's 4 MiB."""

_DEVICE = r"\d+|\d+:\d+|(GPU|MIG)-\S+"
_MIG_DEVICE = r"\d+:\d+|MIG-\S+"
_RATIO = r"-?\d+(\.\d+)?"
_WORDS = frozenset({"share", "none"})


def check_sharing(config: Config) -> Iterator[Finding]:
    """Findings about sharing.timeSlicing and sharing.mps."""
    sharing = config.sharing
    if sharing.time_slicing and sharing.mps:
        yield problem("cannot be given together with sharing.timeSlicing; keep one", "sharing.mps")
    for key, block in (("timeSlicing", sharing.time_slicing), ("mps", sharing.mps)):
        if block is None:
            continue
        path = f"sharing.{key}"
        if not block.resources:
            yield problem("needs at least one entry; add one, or delete the block", f"{path}.resources")
        for number, entry in enumerate(block.resources):
            yield from _entry(entry, f"{path}.resources[{number}]", mps=key == "mps")
        yield from _names(block, config, path)
        yield from _overlaps(block, path)
    if sharing.mps:
        yield from _mps(config, sharing.mps)


def _entry(entry: Replicas, path: str, *, mps: bool) -> Iterator[Finding]:
    least = 1 if mps else 2
    if entry.replicas < least:
        remedy = "" if mps else " (1 is a GPU that is not shared: delete the entry, or use sharing.mps)"
        yield problem(f"must be at least {least}, is {entry.replicas}{remedy}", f"{path}.replicas")
    most = MOST_MPS_CLIENTS if mps else MOST_REPLICAS
    if entry.replicas > most:
        reason = "MPS serves no more clients" if mps else "the kubelet takes no longer list"
        yield problem(f"must be at most {most}, is {entry.replicas}; {reason}", f"{path}.replicas")
    yield from _devices(entry, f"{path}.devices")
    if mps:
        yield from _limits(entry, path)
        return
    for key, value in (("memoryLimit", entry.memory_limit), ("activeThreadPercentage", entry.active_thread_percentage)):
        if value is not None:
            yield problem("is known to sharing.mps only; delete it", f"{path}.{key}")


def _devices(entry: Replicas, path: str) -> Iterator[Finding]:
    devices = entry.devices
    if isinstance(devices, str):
        if devices != "all":
            hint = f"; {devices} without quotes is a count, [{devices}] an index" if devices.isdecimal() else ""
            yield problem(f"must be all, a count, or a list such as [0, GPU-...], is {quote(devices)}{hint}", path)
        return
    if isinstance(devices, int):
        if devices < 1:
            yield problem(f"a count must be at least 1, is {devices}; one index is written [{devices}]", path)
        return
    if not devices:
        yield problem("an empty list shares nothing; write all, or delete the entry", path)
    seen: set[str] = set()
    for word in map(str, devices):
        if not re.fullmatch(_DEVICE, word):
            yield problem(f"{quote(word)} is no index, gpu:mig index, GPU-... or MIG-... UUID; mend it", path)
        if word in seen:
            yield problem(f"{quote(word)} is listed twice; keep one", path)
        seen.add(word)


def _limits(entry: Replicas, path: str) -> Iterator[Finding]:
    limit = entry.memory_limit
    if limit is not None and limit not in _WORDS and (fault := _limit_fault(limit)):
        yield problem(fault, f"{path}.memoryLimit")
    percentage = entry.active_thread_percentage
    if percentage is not None and not 1 <= percentage <= 100:  # noqa: PLR2004 - a percentage
        yield problem(f"must be from 1 to 100, is {percentage:g}", f"{path}.activeThreadPercentage")


def _limit_fault(limit: str | float) -> str | None:
    text = str(limit)
    if re.fullmatch(_RATIO, text):
        ratio = float(text)
        if 0 < ratio <= 1:
            return None
        return f"a ratio of the share is above 0 and at most 1, is {ratio:g}; an amount needs its unit: {ratio:g}Gi"
    try:
        return None if parse_amount(text) else "must be more than 0; write share for an equal part"
    except ValueError:
        return f"must be share, none, a ratio such as 0.5, or an amount such as 8Gi, is {quote(text)}"


def _names(block: Replicated, config: Config, path: str) -> Iterator[Finding]:
    """Names that are not valid, and shares that would meet other devices under one name."""
    unshared = {
        pattern.name: f"resources.{key}[{number}]"
        for key, patterns in (("gpus", config.resources.gpus), ("mig", config.resources.mig))
        for number, pattern in enumerate(patterns)
    }
    sources = {entry.name for entry in block.resources}
    offered: dict[str, tuple[str, str]] = {}
    for number, entry in enumerate(block.resources):
        here = f"{path}.resources[{number}]"
        target = shared_name(entry.name, entry.rename, by_default=block.rename_by_default)
        if fault := resource_fault(entry.name):
            yield problem(fault, f"{here}.name")
            continue
        at = f"{here}.rename" if entry.rename else f"{here}.name"
        if fault := resource_fault(target):
            yield problem(f"the shares' name {fault}", at)
        if target != entry.name and (target in unshared or target in sources):
            owner = unshared.get(target, "another entry here")
            yield problem(f"{quote(target)} is the name of {owner}; choose another", at)
        first, first_path = offered.setdefault(target, (entry.name, here))
        if first != entry.name:
            yield problem(f"{quote(target)} is what {first_path} makes of {first}; choose another name", at)


def _overlaps(block: Replicated, path: str) -> Iterator[Finding]:
    """Entries of one resource that name one device twice; what an index means only a node can tell."""
    whole: dict[str, int] = {}
    listed: dict[tuple[str, str], int] = {}
    first: dict[str, int] = {}
    for number, entry in enumerate(block.resources):
        here = f"{path}.resources[{number}].devices"
        earlier = first.get(entry.name) if entry.devices == "all" else whole.get(entry.name)
        if earlier is not None:
            there = f"{path}.resources[{earlier}]"
            yield problem(
                f"a GPU of {entry.name} is in {there} already; select others with devices, or delete one", here, there
            )
        if entry.devices == "all":
            whole.setdefault(entry.name, number)
        first.setdefault(entry.name, number)
        words = {str(word) for word in entry.devices} if isinstance(entry.devices, tuple) else set()
        for word in sorted(words):
            other = listed.setdefault((entry.name, word), number)
            if other != number:
                yield problem(f"{quote(word)} is in {path}.resources[{other}] already; delete one", here)


def _mps(config: Config, block: Replicated) -> Iterator[Finding]:
    if config.flags.mig_strategy is MigStrategy.MIXED:
        yield problem(
            "does not work under migStrategy mixed: MPS shares no MIG instances; use none or single, or timeSlicing",
            "sharing.mps",
            "flags.migStrategy",
        )
    if not config.flags.mps_root:
        yield problem(
            "needs flags.mpsRoot, the host folder of the control daemon; write for example mpsRoot: /run/nvidia/mps",
            "sharing.mps",
            "flags.mpsRoot",
        )
    for number, entry in enumerate(block.resources):
        path = f"sharing.mps.resources[{number}]"
        if "/mig-" in entry.name:
            yield problem(f"{entry.name} is a MIG resource, which MPS cannot share; use timeSlicing", f"{path}.name")
        words = entry.devices if isinstance(entry.devices, tuple) else ()
        for word in (word for word in map(str, words) if re.fullmatch(_MIG_DEVICE, word)):
            yield problem(
                f"{quote(word)} is a MIG instance, which MPS cannot share; use timeSlicing", f"{path}.devices"
            )
