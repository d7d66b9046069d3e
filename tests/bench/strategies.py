"""Allocate under every strategy beside a server of constant answers, and a large configuration taken over."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.bench.foundation import allocations, plain_node
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
    yield from strategies()
    yield from reloads()


def strategies() -> Iterator[Row]:
    """Allocate of one and of eight GPUs under each strategy; device specs ask the file system for each node."""
    for name, words in STRATEGIES.items():
        for size, p50, p99 in allocations(words.split(), (1, 8)):
            goal = None if "specs" in name else p50.ratio_goal
            yield replace(p50, what=f"{name}: Allocate of {size}, p50", ratio_goal=goal)
            yield replace(p99, what=f"{name}: Allocate of {size}, p99")


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
