"""The process: start, lists, Allocate, memory, idle and end, beside a server whose every answer is constant."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from tests.bench.measure import Client, cpu, files, percentile, rss, threads, timed
from tests.bench.table import Row
from tests.fake_kubelet import FakeKubelet
from tests.node import GPU, ROOT, FakeNode
from tests.waiting import wait_until

FLOOR = "floor.example/gpu"
SAME_IMPORTS = ("argparse", "logging", "msgspec", "pynvml", "fake_nvml")
"""The pretend driver lives in our process; on a real node it would not."""
CALLS = 10_000
PAIRS = 5
IDLE = 10.0


def run() -> Iterator[Row]:
    """All figures of the foundation."""
    yield from starts()
    yield from socket_appears()
    yield from calls()
    yield from big_list()


@contextmanager
def floor_server() -> Iterator[tuple[FakeKubelet, Callable[..., "subprocess.Popen[bytes]"]]]:
    """A kubelet, and how to start the constant-answer server on it, with further arguments."""
    with tempfile.TemporaryDirectory(prefix="fl") as home, FakeKubelet(Path(home)) as kubelet:
        started: list[subprocess.Popen[bytes]] = []

        def start(*more: str) -> "subprocess.Popen[bytes]":
            command = [sys.executable, "-m", "tests.fake_kubelet.echo_plugin", f"--folder={home}"]
            command += [f"--resource={FLOOR}", "--devices=8", *more, "--imports", *SAME_IMPORTS]
            process = subprocess.Popen(command, cwd=ROOT, env=quick_environment(), stdout=subprocess.DEVNULL)
            started.append(process)
            return process

        try:
            yield kubelet, start
        finally:
            for process in started:
                process.kill()
                process.wait()


def quick_environment() -> dict[str, str]:
    """Byte code is cached, as it is in an image."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def plain_node(machine: str = "hgx-h100-8", *arguments: str) -> Iterator[FakeNode]:
    """A node whose plugin is started by the caller."""
    with (
        tempfile.TemporaryDirectory(prefix="bench") as home,
        FakeNode(Path(home), machine, list(arguments), environment=quick_environment()) as node,
    ):
        node.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        node.plugin.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield node


def starts(times: int = 9) -> Iterator[Row]:
    """Start to first list, and SIGTERM to exit."""
    ours, floors, ends = [], [], []
    with plain_node() as node, floor_server() as (kubelet, start):
        for round_ in range(times):
            began = time.perf_counter()
            node.plugin.start()
            node.kubelet.wait_for(GPU, healthy=8, streams=1)
            ours.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            node.plugin.stop()
            ends.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            server = start()
            kubelet.wait_for(FLOOR, healthy=8, streams=1)
            floors.append((time.perf_counter() - began) * 1000)
            server.send_signal(signal.SIGTERM)
            server.wait()
            wait_until(lambda: not kubelet.streams.get(FLOOR), what=f"the end of stream {round_}")
    yield Row("start -> first list (median)", median(ours), floor=median(floors), goal=180)
    yield Row("SIGTERM -> exit (median)", median(ends), goal=300)


def socket_appears(times: int = 9) -> Iterator[Row]:
    """The kubelet comes after the plugin: its socket to the first list."""
    taken = []
    with plain_node() as node:
        node.kubelet.stop()
        node.plugin.start()
        node.plugin.wait_for_log("absent")
        for _ in range(times):
            began = time.perf_counter()
            node.kubelet.start()
            node.kubelet.wait_for(GPU, healthy=8, streams=1)
            taken.append((time.perf_counter() - began) * 1000)
            node.kubelet.stop()
    yield Row("kubelet socket appears -> first list (median)", median(taken), goal=100)


def allocations(arguments: Sequence[str], sizes: Sequence[int], pairs: int = PAIRS) -> Iterator[tuple[int, Row, Row]]:
    """Allocate of so many GPUs beside the constant server: size, p50, p99.

    Each process has its luck with where the kernel puts its threads, a tenth of a call and more, and keeps it. So
    several pairs of processes are asked, in turns, and the figure is the median of the pairs. Both send the same bytes.
    """
    ours: dict[int, list[list[float]]] = {size: [] for size in sizes}
    floors: dict[int, list[list[float]]] = {size: [] for size in sizes}
    for _ in range(pairs):
        with plain_node("hgx-h100-8", *arguments) as node, floor_server() as (kubelet, start):
            node.plugin.start()
            ids = sorted(node.kubelet.wait_for(GPU, healthy=8, streams=1).healthy)
            client = Client(node.kubelet_folder / node.kubelet.resources[GPU].endpoint)
            answers = {size: client.allocate(ids[:size]).SerializeToString().hex() for size in sizes}
            start("--answers", *(f"{size}:{answer}" for size, answer in answers.items()))
            floor_ids = sorted(kubelet.wait_for(FLOOR, healthy=8, streams=1).healthy)
            floor_client = Client(kubelet.folder / kubelet.resources[FLOOR].endpoint)
            timed(lambda: client.allocate(ids), 500)  # noqa: B023 - called at once
            timed(lambda: floor_client.allocate(floor_ids), 500)  # noqa: B023 - called at once
            for size in sizes:
                mine, theirs = [], []
                for _ in range(6):
                    # In turns, so that what else the machine does falls on both.
                    mine += timed(lambda: client.allocate(ids[:size]), 250)  # noqa: B023 - called at once
                    theirs += timed(lambda: floor_client.allocate(floor_ids[:size]), 250)  # noqa: B023 - called at once
                ours[size].append(mine)
                floors[size].append(theirs)
            client.close()
            floor_client.close()
    for size in sizes:
        p50, floor50 = median(map(median, ours[size])), median(map(median, floors[size]))
        p99, floor99 = (median(percentile(one, 0.99) for one in all_[size]) for all_ in (ours, floors))
        yield size, Row("p50", p50, floor=floor50, ratio_goal=1.15), Row("p99", p99, floor=floor99)


def calls() -> Iterator[Row]:
    """Allocate, then memory after many calls, then idling."""
    for size, *rows in allocations((), (1, 2, 8)):
        yield from (replace(row, what=f"Allocate of {size}, {row.what}") for row in rows)
    with plain_node() as node, floor_server() as (kubelet, start):
        node.plugin.start()
        ids = sorted(node.kubelet.wait_for(GPU, healthy=8, streams=1).healthy)
        server = start()
        floor_ids = sorted(kubelet.wait_for(FLOOR, healthy=8, streams=1).healthy)
        ours = Client(node.kubelet_folder / node.kubelet.resources[GPU].endpoint)
        floor = Client(kubelet.folder / kubelet.resources[FLOOR].endpoint)
        timed(lambda: ours.allocate(ids), CALLS)
        timed(lambda: floor.allocate(floor_ids), CALLS)
        yield from standing("", node.plugin.pid, server.pid)
        with plain_node("hgx-h100-8", "--metrics-address=127.0.0.1:0") as everything:
            everything.plugin.start()
            everything.kubelet.wait_for(GPU, healthy=8, streams=1)
            everything.plugin.wait_for_log("metrics and status page")
            client = Client(everything.kubelet_folder / everything.kubelet.resources[GPU].endpoint)
            timed(lambda: client.allocate(ids), CALLS)
            yield from standing(", everything on", everything.plugin.pid, node.plugin.pid)
            client.close()
        ours.close()
        floor.close()


def standing(which: str, mine: int, floor: int) -> Iterator[Row]:
    """What a process keeps and uses when nothing is asked; `floor` is the process it is held against."""
    yield Row(f"RSS after 10,000 calls{which}", rss(mine), "MB", floor=rss(floor), goal=rss(floor) + 8)
    used = cpu(mine), cpu(floor)
    wait_idle(IDLE)
    own, other = ((cpu(pid) - was) / IDLE * 100 for pid, was in zip((mine, floor), used, strict=True))
    yield Row(f"idle{which}", own, "% of a core", floor=other, goal=other + (1.0 if which else 0.3))
    yield Row(f"threads{which}", threads(mine), "", floor=threads(floor))
    yield Row(f"open files{which}", files(mine), "", floor=files(floor))


def wait_idle(seconds: float) -> None:
    """Lets a time pass in which nothing is asked."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, timeout=seconds + 5, interval=0.5, what="the idle time")


def big_list() -> Iterator[Row]:
    """Eight GPUs cut into a hundred replicas each."""
    with plain_node() as node:
        node.configure("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 100}]}}")
        node.plugin.start(f"--config-file={node.config_file}")
        node.kubelet.wait_for(GPU, healthy=800, streams=1)
        client = Client(node.kubelet_folder / node.kubelet.resources[GPU].endpoint)
        size = client.first_list().ByteSize()
        yield Row("list of 800 replicas", size / 1000, "kB")
        yield Row("list of 800 replicas, new stream -> frame, p50", median(timed(client.first_list, 100)))
        client.close()
