"""Resource names: the user's patterns, then the defaults of the MIG strategy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from deviceplugin.config.amounts import MemoryBound, parse_bound
from deviceplugin.config.document import MigStrategy, Pattern, Resources
from deviceplugin.config.names import qualify, resource_fault
from deviceplugin.model.inventory import LeftOut, Policy
from deviceplugin.rules.identify import WHOLE_CARD, matches, matches_pci, mig_resource
from deviceplugin.rules.offer.candidate import Candidate


class Placed(Struct, frozen=True):
    """A device and the resource it belongs to before sharing."""

    candidate: Candidate
    resource: str
    policy: Policy | None = None


class Naming(Struct, frozen=True):
    """Devices with their resources; those whose pattern has no name are left out."""

    placed: tuple[Placed, ...]
    left_out: tuple[LeftOut, ...] = ()
    conflicts: tuple[str, ...] = ()


_GIB = 1 << 30


def _admits(bound: MemoryBound, total: int | None) -> bool:
    """Whether a device with `total` bytes meets the bound.

    Against a bound in whole GiB the total counts as rounded up to whole GiB, as cards are sold and MIG profiles named:
    an 80 GB card whose driver keeps back some of it meets `>=80Gi`.
    """
    if total is not None and bound.amount % _GIB == 0:
        total = -(-total // _GIB) * _GIB
    return bound.admits(total)


@lru_cache(maxsize=256)
def _bound(text: str) -> MemoryBound | None:
    try:
        return parse_bound(text)
    except ValueError:
        return None


def _memory(candidate: Candidate) -> int | None:
    if candidate.instance is None:
        return candidate.gpu.memory
    mib = candidate.instance.memory_mib
    return None if mib is None else mib << 20


def _fits(pattern: Pattern, candidate: Candidate) -> bool:
    text = candidate.gpu.name if candidate.instance is None else candidate.profile or ""
    if not matches(pattern.pattern, text):
        return False
    if pattern.pci is not None and not matches_pci(pattern.pci, candidate.gpu.pci):
        return False
    if pattern.memory is None:
        return True
    bound = _bound(pattern.memory)
    return bound is not None and _admits(bound, _memory(candidate))


def _default(candidate: Candidate, strategy: MigStrategy) -> str:
    if candidate.profile is None or strategy is MigStrategy.SINGLE:
        return WHOLE_CARD
    return mig_resource(candidate.profile)


def _patterns(resources: Resources, candidate: Candidate) -> tuple[str, Sequence[Pattern]]:
    if candidate.instance is None:
        return "resources.gpus", resources.gpus
    return "resources.mig", resources.mig


def place(candidates: Sequence[Candidate], resources: Resources, strategy: MigStrategy) -> Naming:
    """Gives every device its resource: the first pattern that fits, else the strategy's own name."""
    placed: list[Placed] = []
    left_out: list[LeftOut] = []
    for candidate in candidates:
        path, patterns = _patterns(resources, candidate)
        hit = next(((n, p) for n, p in enumerate(patterns) if _fits(p, candidate)), None)
        if hit is None:
            placed.append(Placed(candidate, _default(candidate, strategy)))
        elif not hit[1].name:
            left_out.append(
                candidate.left_out("pattern", f"fits {path}[{hit[0]}], whose empty name leaves it out; name a resource")
            )
        elif resource_fault(qualify(hit[1].name)) is not None:
            left_out.append(candidate.left_out("bad-resource-name", f"fits {path}[{hit[0]}]; mend the name there"))
        else:
            placed.append(Placed(candidate, qualify(hit[1].name), hit[1].allocation_policy))
    return Naming(tuple(placed), tuple(left_out), _conflicts(resources))


def _conflicts(resources: Resources) -> tuple[str, ...]:
    found: list[str] = []
    for path, patterns in (("resources.gpus", resources.gpus), ("resources.mig", resources.mig)):
        for number, pattern in enumerate(patterns):
            fault = resource_fault(qualify(pattern.name)) if pattern.name else None
            if fault is not None:
                found.append(f"{path}[{number}].name: {fault}")
            if pattern.memory is not None and _bound(pattern.memory) is None:
                found.append(f"{path}[{number}].memory: {pattern.memory!r} is no bound; write >=80Gi or <24Gi")
    return tuple(found)
