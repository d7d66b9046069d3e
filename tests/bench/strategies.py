"""Allocate under every strategy beside a server of constant answers, and a large configuration taken over."""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.bench.foundation import FLOOR, floor_server, plain_node
from tests.bench.measure import Client, percentile, timed
from tests.bench.table import Row
from tests.node import GPU

ALL = "envvar,volume-mounts,cdi-annotations,cdi-cri"
STRATEGIES = {
    "envvar": "",
    "volume-mounts": "--device-list-strategy=volume-mounts",
    "cdi-annotations": "--device-list-strategy=cdi-annotations",
    "cdi-cri": "--device-list-strategy=cdi-cri",
    "envvar + device specs": "--pass-device-specs",
    "all four + device specs": f"--device-list-strategy={ALL} --pass-device-specs",
}
SIZE = 64_000
"""Bytes of the large configuration."""


def run() -> Iterator[Row]:
    """All figures of strategies and configuration."""
    yield from allocations()
    yield from reloads()


def allocations() -> Iterator[Row]:
    """Allocate of one and of eight GPUs, in turns with the constant server."""
    for name, words in STRATEGIES.items():
        with plain_node("hgx-h100-8", *words.split()) as node, floor_server() as (kubelet, start):
            node.plugin.start()
            ids = sorted(node.kubelet.wait_for(GPU, healthy=8, streams=1).healthy)
            start()
            floor_ids = sorted(kubelet.wait_for(FLOOR, healthy=8, streams=1).healthy)
            ours = Client(node.kubelet_folder / node.kubelet.resources[GPU].endpoint)
            floor = Client(kubelet.folder / kubelet.resources[FLOOR].endpoint)
            timed(lambda: ours.allocate(ids), 300)  # noqa: B023 - called at once
            timed(lambda: floor.allocate(floor_ids), 300)  # noqa: B023 - called at once
            for size in (1, 8):
                mine, theirs = [], []
                for _ in range(6):
                    mine += timed(lambda: ours.allocate(ids[:size]), 250)  # noqa: B023 - called at once
                    theirs += timed(lambda: floor.allocate(floor_ids[:size]), 250)  # noqa: B023 - called at once
                goal = 1.15 if len(words.split()) < 2 else None
                yield Row(f"{name}: Allocate of {size}, p50", median(mine), floor=median(theirs), ratio_goal=goal)
                yield Row(f"{name}: Allocate of {size}, p99", percentile(mine, 0.99), floor=percentile(theirs, 0.99))
            ours.close()
            floor.close()


def large(replicas: int, size: int = SIZE) -> str:
    """A configuration of that many bytes that is all settings: patterns of cards that are not here, and shares."""
    lines = ["version: v1", "resources:", "  gpus:"]
    tail = f"sharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]}}}}\n"
    length = sum(map(len, lines)) + len(lines) + len(tail)
    while length < size:
        line = f"  - {{pattern: 'Card number {len(lines)} *', memory: '>=80Gi', name: nvidia.com/card-{len(lines)}}}"
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines) + "\n" + tail


def reloads(times: int = 9) -> Iterator[Row]:
    """A configuration of 64 kB is put in place of another: until the kubelet has the new list."""
    for size, words in ((SIZE, "64 kB"), (200, "a short one")):
        taken = []
        with plain_node() as node:
            node.configure(large(2, size))
            node.plugin.start(f"--config-file={node.config_file}", "--device-list-strategy=cdi-cri")
            node.kubelet.wait_for(GPU, healthy=16, streams=1)
            node.plugin.wait_for_log("node labels are not published")
            for number in range(times):
                text = large(3 + number % 2, size)
                fresh = Path(f"{node.config_file}.fresh")
                fresh.write_text(text)
                began = time.perf_counter()
                fresh.rename(node.config_file)
                node.kubelet.wait_for(GPU, healthy=8 * (3 + number % 2), streams=1)
                taken.append((time.perf_counter() - began) * 1000)
        goal = 300 if size == SIZE else None
        yield Row(f"configuration of {words} put in place -> new list (median)", median(taken), goal=goal)
        yield Row(f"configuration of {words} put in place -> new list (worst)", max(taken), goal=goal)
