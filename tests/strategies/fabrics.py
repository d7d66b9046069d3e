"""Fabrics of GPUs: random ones without any order, random trees as mainboards are, and scans of pretend machines."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import Path

from hypothesis import strategies as st

import fake_nvml
from deviceplugin.model.health import Health
from deviceplugin.model.inventory import Closeness, Inventory, Policy, Resource, Share, Sharing
from deviceplugin.model.node import Node
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.nvml.probe import probe
from deviceplugin.rules.prefer.closeness import measure

ROOT = Path(__file__).parents[2]
CATALOGUE = tuple(sorted(path.stem for path in (ROOT / "fake_nvml" / "catalog").glob("*.toml") if path.stem != "none"))
TOPO_FILES = tuple(sorted((ROOT / "tests" / "machines").glob("*.topo")))
MACHINES = (*CATALOGUE, *(path.name for path in TOPO_FILES))


@lru_cache(maxsize=64)
def scan(machine: str) -> Node:
    """What our probe sees of a machine of the catalogue, or of a `.topo` file of tests/machines."""
    fake = fake_nvml.open(str(ROOT / "tests" / "machines" / machine) if machine.endswith(".topo") else machine)
    try:
        fake.nvml.nvmlInit()
        return probe(fake.nvml, str(fake.root))
    finally:
        fake.close()


@lru_cache(maxsize=64)
def closeness_of(machine: str) -> Closeness:
    """Distances on a machine."""
    return measure(scan(machine))


def uuid(index: int) -> str:
    """UUID of a made-up GPU."""
    return f"GPU-{index:08d}-0000-0000-0000-000000000000"


def domains(width: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Connected components, numbered from the lowest index."""
    of = list(range(len(width)))
    for _ in of:
        for a, b in combinations(range(len(width)), 2):
            if width[a][b]:
                of[a] = of[b] = min(of[a], of[b])
    names = {name: number for number, name in enumerate(dict.fromkeys(of))}
    return tuple(names[name] for name in of)


def closeness(
    count: int,
    nvlink: Callable[[int, int], int],
    pcie: Callable[[int, int], int] = lambda a, b: 1,
    numa: Callable[[int], int | None] = lambda a: 0,
) -> Closeness:
    """Distances from functions over pairs (the lower position first) and cards."""

    def matrix(value: Callable[[int, int], int]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(0 if a == b else value(min(a, b), max(a, b)) for b in range(count)) for a in range(count))

    links = matrix(nvlink)
    return Closeness(
        uuids=tuple(uuid(i) for i in range(count)),
        index=tuple(range(count)),
        numa=tuple(numa(i) for i in range(count)),
        nvlink=links,
        pcie=matrix(pcie),
        domain=domains(links),
    )


def relabelled(close: Closeness, order: Sequence[int]) -> Closeness:
    """The same fabric with the GPU at `order[i]` at place i."""
    links = tuple(tuple(close.nvlink[a][b] for b in order) for a in order)
    return Closeness(
        uuids=close.uuids,
        index=close.index,
        numa=tuple(close.numa[i] for i in order),
        nvlink=links,
        pcie=tuple(tuple(close.pcie[a][b] for b in order) for a in order),
        domain=domains(links),
    )


@st.composite
def irregular(draw: st.DrawFn, most: int = 9) -> Closeness:
    """Any distances at all; links are rare, or alike, or neither."""
    count = draw(st.integers(1, most))
    widths = draw(st.sampled_from([(0,), (0, 1), (0, 0, 0, 2), (0, 1, 2), (12,), (0, 4, 12, 18), (10, 12)]))
    levels = draw(st.sampled_from([(0,), (1, 2), (1, 2, 3, 4, 5, 6), (0, 5)]))
    nodes = draw(st.sampled_from([(0,), (None,), (0, 1), (None, 0, 8), (3, 2, 1, 0)]))
    pairs = list(combinations(range(count), 2))
    nvlink = draw(st.fixed_dictionaries({pair: st.sampled_from(widths) for pair in pairs}))
    pcie = draw(st.fixed_dictionaries({pair: st.sampled_from(levels) for pair in pairs}))
    numa = draw(st.lists(st.sampled_from(nodes), min_size=count, max_size=count))
    return closeness(count, lambda a, b: nvlink[a, b], lambda a, b: pcie[a, b], lambda a: numa[a])


@st.composite
def trees(draw: st.DrawFn, most: int = 9) -> Closeness:
    """Machines as they are built, numbered anyhow: PCIe switches on sockets, boards of NVSwitch or bridged pairs."""
    count = draw(st.integers(1, most))
    switch, bridge, socket = (draw(st.sampled_from([1, 2, 4, 8])) for _ in range(3))
    board, width = draw(st.sampled_from([1, 2, 4, 8, 16])), draw(st.sampled_from([1, 12, 18]))
    down = draw(st.sets(st.integers(0, count - 1), max_size=2)) if draw(st.booleans()) else set()
    shift = draw(st.integers(0, 2))

    def pcie(a: int, b: int) -> int:
        groups = (switch, switch * bridge, switch * bridge * socket)
        return next((level for level, size in zip((5, 3, 2), groups, strict=True) if a // size == b // size), 1)

    def nvlink(a: int, b: int) -> int:
        return width if (a + shift) // board == (b + shift) // board and not {a, b} & down else 0

    regular = closeness(count, nvlink, pcie, lambda a: a // (switch * bridge * socket))
    return relabelled(regular, draw(st.permutations(range(count))))


def whole_cards(close: Closeness, health: Health = Health()) -> tuple[Snapshot, Resource]:
    """A node that offers each card of a fabric whole."""
    shares = tuple(
        Share(id=u, device=u, gpu=u, gpu_index=i, visible_index=str(i), numa=n)
        for u, i, n in sorted(zip(close.uuids, close.index, close.numa, strict=True), key=lambda gpu: gpu[1])
    )
    return offered(close, Resource("nvidia.com/gpu", shares), health)


def replicas(close: Closeness, counts: Sequence[int], policy: Policy = Policy.DISTRIBUTED) -> tuple[Snapshot, Resource]:
    """A node that offers each card in replicas; a count of 0 is a whole card."""
    shares = tuple(
        Share(f"{u}::{n}" if count else u, u, u, i, str(i), replica=n if count else None, numa=close.numa[i])
        for i, (u, count) in enumerate(zip(close.uuids, counts, strict=True))
        for n in range(count or 1)
    )
    return offered(close, Resource("nvidia.com/gpu", shares, Sharing.TIME_SLICING, policy))


def instances(
    close: Closeness, counts: Sequence[int], policy: Policy = Policy.DISTRIBUTED, each: int = 0
) -> tuple[Snapshot, Resource]:
    """A node that offers MIG instances of one profile, whole or in `each` replicas."""
    shares = tuple(
        Share(f"MIG-{i}-{m}::{n}" if each else f"MIG-{i}-{m}", f"MIG-{i}-{m}", u, i, f"{i}:{m}", n if each else None)
        for i, (u, count) in enumerate(zip(close.uuids, counts, strict=True))
        for m in range(count)
        for n in range(each or 1)
    )
    sharing = Sharing.TIME_SLICING if each else Sharing.NONE
    return offered(close, Resource("nvidia.com/mig-1g.10gb", shares, sharing, policy, mig_profile="1g.10gb"))


def offered(close: Closeness, resource: Resource, health: Health = Health()) -> tuple[Snapshot, Resource]:
    """A snapshot with one resource."""
    inventory = Inventory(resources={resource.name: resource}, closeness=close)
    return Snapshot(inventory=inventory, health=health), resource
