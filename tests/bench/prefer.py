"""Preferred allocation: the rule alone, for the worst size of each machine, then through the socket."""

import random
from collections.abc import Iterator, Sequence
from statistics import median

from deviceplugin.model.inventory import Closeness, Policy, Resource
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.prefer.prefer import prefer, prepare
from tests.bench.foundation import FLOOR, floor_server, plain_node
from tests.bench.measure import Client, percentile, timed
from tests.bench.table import Row
from tests.node import GPU
from tests.strategies.fabrics import closeness, closeness_of, instances, replicas, whole_cards

EIGHT = ("hgx-h100-8", "dgx1-v100-8", "dgx-a100-8", "h100-nvl-8-pairs", "l40s-8")
SIXTEEN = ("dgx2-v100-16", "two-boards-16")
TAIL = 3.0
"""p99 over p50."""

Node = tuple[Snapshot, Resource]


def run() -> Iterator[Row]:
    """All figures of preferred allocation."""
    for machine in EIGHT:
        yield from rule(machine, whole_cards(closeness_of(machine)), 0.1)
    for machine in SIXTEEN:
        yield from rule(machine, whole_cards(closeness_of(machine)), 0.3)
    for seed in range(3):
        yield from rule(f"irregular 16 GPUs, no. {seed}", whole_cards(irregular(16, seed)), 5, times=60)
    for shape, close in large().items():
        yield from rule(f"64 GPUs, {shape}", whole_cards(close), 3, times=24)
    for policy in Policy:
        shared = replicas(closeness_of("hgx-h100-8"), [100] * 8, policy)
        yield from rule(f"800 shares, {policy}", shared, 0.6, sizes=(1, 2, 4, 8))
    cut = instances(closeness_of("hgx-h100-8"), [7] * 8)
    yield from rule("8 x 7 MIG instances", cut, 0.3, sizes=(1, 2, 3, 4, 8, 16))
    yield from calls("hgx-h100-8", 0.1)
    yield from calls("dgx2-v100-16", 0.3)


def irregular(count: int, seed: int) -> Closeness:
    """A fabric in which no two GPUs are alike."""
    chance = random.Random(seed)
    pairs = [(a, b) for b in range(count) for a in range(b)]
    widths = {pair: chance.choice((0, 1, 1, 2, 4)) for pair in pairs}
    levels = {pair: chance.randint(1, 5) for pair in pairs}
    return closeness(count, lambda a, b: widths[a, b], lambda a, b: levels[a, b], lambda a: a // 4)


def large() -> dict[str, Closeness]:
    """Machines of 64 GPUs of few kinds."""
    return {
        "4 boards of 16": closeness(
            64,
            lambda a, b: 18 if a // 16 == b // 16 else 0,
            lambda a, b: 2 if a // 32 == b // 32 else 1,
            lambda a: a // 32,
        ),
        "8 boards, a NUMA node each": closeness(
            64, lambda a, b: 18 if a // 8 == b // 8 else 0, lambda a, b: 2 if a // 8 == b // 8 else 1, lambda a: a // 8
        ),
        "PCIe only, 8 NUMA nodes": closeness(
            64, lambda a, b: 0, lambda a, b: 3 if a // 8 == b // 8 else 1, lambda a: a // 8
        ),
        "one switch, 2 NUMA nodes": closeness(
            64, lambda a, b: 18, lambda a, b: 2 if a // 32 == b // 32 else 1, lambda a: a // 32
        ),
    }


def rule(what: str, node: Node, goal: float, *, sizes: Sequence[int] = (), times: int = 240) -> Iterator[Row]:
    """The size with the largest median: half of the requests on a free node, half on one in use, ids in any order."""
    snapshot, resource = node
    prepare(snapshot.inventory)
    chance = random.Random(what)
    ids = [share.id for share in resource.shares]
    taken = {size: _times(node, ids, size, times, chance) for size in sizes or range(1, len(ids))}
    worst = max(taken, key=lambda size: median(taken[size]))
    p50 = median(taken[worst])
    yield Row(f"{what}: {worst} of {len(ids)}, p50", p50, goal=goal)
    yield Row(
        f"{what}: {worst} of {len(ids)}, p99 over p50", percentile(taken[worst], 0.99), floor=p50, ratio_goal=TAIL
    )


def _times(node: Node, ids: Sequence[str], size: int, times: int, chance: random.Random) -> list[float]:
    snapshot, resource = node
    taken = []
    for turn in range(times):
        number = len(ids) if turn % 2 else chance.randint(max(size, len(ids) // 4), len(ids))
        available = chance.sample(ids, number)
        must = available[: chance.choice((0, 0, 0, 1))]
        taken += timed(lambda a=available, m=must: prefer(snapshot, resource, a, m, size), 1)  # type: ignore[misc]
    return taken


def calls(machine: str, rule_goal: float) -> Iterator[Row]:
    """The call as the kubelet makes it, beside a server whose every answer is constant."""
    with plain_node(machine) as node, floor_server() as (kubelet, start):
        node.plugin.start()
        ids = sorted(node.kubelet.wait_for(GPU, streams=1).healthy)
        start()
        floor_ids = sorted(kubelet.wait_for(FLOOR, healthy=8, streams=1).healthy)
        ours = Client(node.kubelet_folder / node.kubelet.resources[GPU].endpoint)
        floor = Client(kubelet.folder / kubelet.resources[FLOOR].endpoint)
        timed(lambda: ours.preferred(ids, 2), 200)
        timed(lambda: floor.preferred(floor_ids, 2), 200)
        for size in (2, len(ids) // 2):
            mine, theirs = [], []
            for _ in range(6):
                mine += timed(lambda: ours.preferred(ids, size), 150)  # noqa: B023 - called at once
                theirs += timed(lambda: floor.preferred(floor_ids, 2), 150)
            base = median(theirs)
            yield Row(f"call, {machine}: {size} of {len(ids)}, p50", median(mine), floor=base, goal=base + rule_goal)
            yield Row(
                f"call, {machine}: {size} of {len(ids)}, p99", percentile(mine, 0.99), floor=percentile(theirs, 0.99)
            )
        ours.close()
        floor.close()
