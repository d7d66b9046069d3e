"""What is seen from outside: scrapes, rendering, sampling, and what all of it costs the process and its Allocate."""

import http.client
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from deviceplugin.config.document import Metrics
from deviceplugin.web.exhibition import Exhibition
from deviceplugin.web.view import View
from tests.bench.foundation import quick_environment, wait_idle
from tests.bench.measure import Client, cpu, percentile, rss, timed
from tests.bench.table import Row
from tests.fake_kubelet import Pod
from tests.node import GPU, FakeNode
from tests.ports import free_port
from tests.waiting import wait_until
from tests.web_views import view_of

SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}"
PODS = 80
IDLE = 20.0


def run() -> Iterator[Row]:
    """All figures of the web door."""
    yield from rendering()
    with shared_node(0) as plain:
        without, quiet = rss(plain.plugin.pid), idle(plain)
    port = free_port()
    with shared_node(port) as node:
        yield from costs(node, without, quiet)
        yield from scrapes(node, port)
        yield from beside_allocate(node, port)


@contextmanager
def shared_node(port: int) -> Iterator[FakeNode]:
    """Eight GPUs of ten replicas with pods on them; without a port the web door stays shut."""
    shown = [f"--metrics-address=127.0.0.1:{port}"] if port else ["--metrics-address=", "--metrics-pods=off"]
    with (
        tempfile.TemporaryDirectory(prefix="bench") as home,
        FakeNode(Path(home), "hgx-h100-8", shown, environment=quick_environment()) as node,
    ):
        node.configure(SHARED)
        node.plugin.start(f"--config-file={node.config_file}")
        node.wait_healthy(80)
        for number in range(PODS):
            node.kubelet.admit(Pod(f"pod-{number}", containers={"main": {GPU: 1}}))
        if port:
            node.plugin.wait_for_log("metrics and status page")
            wait_until(
                lambda: f'pod="pod-{PODS - 1}"' in fetch(port), timeout=30, what="the pods' series", interval=0.2
            )
        yield node


def fetch(port: int, coding: str = "identity") -> str:
    """One scrape."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics", headers={"Accept-Encoding": coding})
    body = connection.getresponse().read()
    connection.close()
    return body.decode("latin-1")


def rendering() -> Iterator[Row]:
    """Eight shared GPUs, each replica held by a pod of its own: to bytes, all of it, for a new sample, for a change."""
    for extra, settings in (("", Metrics()), (", DCGM names too", Metrics(dcgm_names=True))):
        view = view_of("hgx-h100-8", replicas=10, held=4, each=1, settings=settings)
        exhibition, samples = Exhibition(), iter(later(view))
        yield Row(
            f"rendering all of metrics and status{extra}, p50",
            median(timed(lambda: Exhibition().update(view), 20)),  # noqa: B023 - called at once
        )
        taken = timed(lambda: exhibition.update(next(samples)), 50)  # noqa: B023 - called at once
        yield Row(f"rendering a sample of busy GPUs{extra}, p50", median(taken), goal=None if extra else 60)
        sick = view_of("hgx-h100-8", replicas=10, held=4, each=1, settings=settings, sick=[3])
        views = cycle([view, sick])
        taken = timed(lambda: exhibition.update(next(views)), 50)  # noqa: B023 - called at once
        yield Row(f"rendering a change of health{extra}, p50", median(taken))


MOVING = (
    "utilization", "memory_utilization", "encoder_utilization", "decoder_utilization", "memory_used", "memory_free",
    "temperature", "memory_temperature", "power", "energy", "sm_clock", "memory_clock", "graphics_clock", "video_clock",
    "pcie_tx_bytes", "pcie_rx_bytes", "pcie_tx_rate", "pcie_rx_rate", "nvlink_tx_bytes", "nvlink_rx_bytes",
)  # fmt: skip
"""What is another at each sample of a busy GPU."""


def later(view: View) -> Iterator[View]:
    """Views of the samples after it."""
    for step in count(1):
        cards = []
        for card in view.load.gpus:
            figures = {name: getattr(card, name) for name in MOVING}
            moved = {name: value + step for name, value in figures.items() if value is not None}
            cards.append(replace(card, **moved))
        yield replace(view, load=replace(view.load, gpus=tuple(cards)))


def idle(node: FakeNode) -> float:
    """Per cent of a core while nothing is asked."""
    before = cpu(node.plugin.pid)
    wait_idle(IDLE)
    return (cpu(node.plugin.pid) - before) / IDLE * 100


def costs(node: FakeNode, without: float, quiet: float) -> Iterator[Row]:
    """Memory and processor time with everything on."""
    yield Row("RSS with the web door", rss(node.plugin.pid), "MB", floor=without, goal=without + 8)
    yield Row("idle with sampling every 10 s", idle(node), "% of a core", floor=quiet, goal=quiet + 1)


def scrapes(node: FakeNode, port: int) -> Iterator[Row]:
    """Scrapes, and what ten thousand of them leave behind."""
    for coding in ("identity", "gzip"):
        taken = timed(lambda: fetch(port, coding), 500)  # noqa: B023 - called at once
        yield Row(f"scrape, {coding}, p50", median(taken), goal=3)
        yield Row(f"scrape, {coding}, p99", percentile(taken, 0.99))
    yield Row("size of a scrape", len(fetch(port)) / 1000, "kB")
    timed(lambda: fetch(port, "gzip"), 3_000)
    before = rss(node.plugin.pid)
    timed(lambda: fetch(port, "gzip"), 10_000)
    yield Row("RSS grown by 10,000 scrapes", rss(node.plugin.pid) - before, "MB", goal=1)


def beside_allocate(node: FakeNode, port: int) -> Iterator[Row]:
    """Allocate while somebody scrapes ten times a second, beside Allocate alone, in turns."""
    client = Client(node.kubelet_folder / node.kubelet.resources[GPU].endpoint)
    ids = sorted(node.kubelet.resources[GPU].healthy)[:2]
    timed(lambda: client.allocate(ids), 300)
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(5):
        alone += timed(lambda: client.allocate(ids), 500)
        with scraping(port):
            beside += timed(lambda: client.allocate(ids), 500)
    yield Row("Allocate while scraped ten times a second, p50", median(beside), floor=median(alone), ratio_goal=1.1)
    client.close()


@contextmanager
def scraping(port: int) -> Iterator[None]:
    """Scrapes ten times a second."""
    done = threading.Event()

    def scrape() -> None:
        while not done.wait(0.1):
            fetch(port, "gzip")

    thread = threading.Thread(target=scrape)
    thread.start()
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 0.2, what="the first scrapes")
    try:
        yield
    finally:
        done.set()
        thread.join()
