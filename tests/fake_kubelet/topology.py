"""NUMA alignment at admission, as the kubelet's topology manager decides it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

Policy = Literal["best-effort", "restricted", "single-numa-node"]
NO_NODE = -1


@dataclass(frozen=True, slots=True)
class Demand:
    """What one container wants of one resource, and the devices it could come from.

    `nodes` tells the NUMA nodes of every device of the resource, healthy, free or not.
    """

    size: int
    nodes: Mapping[str, tuple[int, ...]]
    available: frozenset[str]
    reusable: frozenset[str]

    @property
    def has_topology(self) -> bool:
        """Whether any device names a NUMA node."""
        return any(self.nodes.values())


@dataclass(frozen=True, slots=True)
class Hint:
    """A set of NUMA nodes that would do (None: any), and whether it is as narrow as it can be."""

    nodes: frozenset[int] | None
    preferred: bool


@dataclass(frozen=True, slots=True)
class Split:
    """Free devices on the hinted nodes, on other nodes, and on none."""

    aligned: frozenset[str]
    unaligned: frozenset[str]
    without: frozenset[str]


def hints(demand: Demand, machine: frozenset[int]) -> list[Hint]:
    """All sets of the machine's nodes that hold enough, and whether each is preferred."""
    if not demand.has_topology:
        return [Hint(None, preferred=True)]
    fitting: list[frozenset[int]] = []
    narrowest = len(machine)
    masks = (frozenset(c) for n in range(1, len(machine) + 1) for c in combinations(sorted(machine), n))
    for mask in masks:
        if _within(demand.nodes, demand.nodes, mask) >= demand.size:
            narrowest = min(narrowest, len(mask))
        placed = [id_ for id_ in demand.reusable if demand.nodes.get(id_)]
        reused = _within(placed, demand.nodes, mask)
        if reused == len(placed) and reused + _within(demand.available, demand.nodes, mask) >= demand.size:
            fitting.append(mask)
    return [Hint(mask, len(mask) == narrowest) for mask in fitting] or [Hint(None, preferred=False)]


def _within(ids: Iterable[str], nodes: Mapping[str, tuple[int, ...]], mask: frozenset[int]) -> int:
    return sum(not mask.isdisjoint(nodes.get(id_, ())) for id_ in ids)


def best_hint(policy: Policy, by_resource: list[list[Hint]], machine: frozenset[int]) -> Hint:
    """Merges the hints of all resources of a container: preferred ones first, then narrow ones."""
    single = policy == "single-numa-node"
    if single:
        by_resource = [
            [h for h in found if h.preferred and (h.nodes is None or len(h.nodes) == 1)] for found in by_resource
        ]
    merged = [m for m in (_merge(p, machine) for p in product(*by_resource)) if m.nodes]
    best = min(
        merged,
        key=lambda h: (not h.preferred, len(h.nodes or ()), sorted(h.nodes or ())),
        default=Hint(machine, preferred=False),
    )
    return Hint(None, best.preferred) if single and best.nodes == machine else best


def _merge(permutation: tuple[Hint, ...], machine: frozenset[int]) -> Hint:
    named = [hint.nodes for hint in permutation if hint.nodes is not None]
    preferred = all(hint.preferred for hint in permutation) and len(set(named)) <= 1
    return Hint(machine.intersection(*named), preferred)


def admits(policy: Policy, hint: Hint) -> bool:
    """Whether the policy lets a container in with this hint."""
    return policy == "best-effort" or hint.preferred


def split(demand: Demand, hint: Hint | None) -> Split:
    """Parts the available devices by the hint; without one they are all of the third kind."""
    if hint is None or hint.nodes is None or not demand.has_topology:
        return Split(frozenset(), frozenset(), demand.available)
    without = frozenset(id_ for id_ in demand.available if not demand.nodes.get(id_))
    aligned = frozenset(id_ for id_ in demand.available if hint.nodes.intersection(demand.nodes.get(id_, ())))
    return Split(aligned, demand.available - aligned - without, without)
