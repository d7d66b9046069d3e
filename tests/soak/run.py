"""What is repeated, and what the process uses before and after."""

import contextlib
import itertools
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fake_nvml
from deviceplugin.web.local import ask
from tests.bench.measure import Client, files, rss, threads
from tests.node import GPU, FakeNode
from tests.waiting import wait_until

FULL: Mapping[str, int] = {
    "allocates": 10_000,
    "reconnects": 10_000,
    "kubelet restarts": 200,
    "health flips": 1_000,
    "rescans": 1_000,
}
SHORT: Mapping[str, int] = {
    "allocates": 2_000,
    "reconnects": 500,
    "kubelet restarts": 15,
    "health flips": 100,
    "rescans": 60,
}
ROOM = 1.0
"""MB (10^6 bytes) that resident memory may grow."""
LOOKS = 10
SLACK: Mapping[str, int] = {"files": 2, "threads": 3, "tasks": 0}
"""What comes and goes: the connection to the pod resources API; threads that the pool for blocking calls may still
start."""
WARM = 0.2
"""Share of the repetitions after which the first measure is taken."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a process uses."""

    rss: float
    files: int
    threads: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing that was repeated."""

    what: str
    times: int
    before: Use
    after: Use

    @property
    def grew(self) -> list[str]:
        """What is more than it was."""
        found = [f"RSS by {self.after.rss - self.before.rss:.2f} MB"] if self.after.rss - self.before.rss > ROOM else []
        for name, slack in SLACK.items():
            was, now = getattr(self.before, name), getattr(self.after, name)
            found += [f"{name} from {was} to {now}"] if now > was + slack else []
        return found

    def __str__(self) -> str:
        before, after = self.before, self.after
        verdict = f"GREW: {', '.join(self.grew)}" if self.grew else "flat"
        return (
            f"{self.times:6d} {self.what:<17} RSS {before.rss:.2f} -> {after.rss:.2f} MB, files {before.files} -> "
            f"{after.files}, threads {before.threads} -> {after.threads}, tasks {before.tasks} -> {after.tasks}: "
            f"{verdict}"
        )


def soak(home: Path, times: Mapping[str, int] = FULL) -> Iterator[Outcome]:
    """Repeats each thing on one plugin process."""
    arguments = ["--health-quiet-period=0s", "--rescan-interval=1h", "--health-interval=1h"]
    with FakeNode(home, "hgx-h100-8", arguments) as node, fake_nvml.attach(node.root) as fake:
        node.plugin.start()
        node.wait_healthy(8)
        wait_until(lambda: "plugin" in _status(node), what="the plugin's word")
        repeat = Repetitions(node, fake)
        for what, number in times.items():
            once = getattr(repeat, what.replace(" ", "_"))
            yield _measured(node, what, number, once)
        assert "Traceback" not in node.plugin.log, node.plugin.log
        assert node.kubelet.violations == []


def _measured(node: FakeNode, what: str, number: int, once: Callable[[int], None]) -> Outcome:
    warm = max(1, int(number * WARM))
    for turn in range(warm):
        once(turn)
    before = use(node)
    for turn in range(warm, number):
        once(turn)
    after = use(node)
    with contextlib.suppress(AssertionError):
        # What ends takes a moment to be gone.
        wait_until(lambda: not Outcome(what, number, before, use(node)).grew, timeout=5, interval=0.2)
        after = use(node)
    return Outcome(what, number, before, after)


def use(node: FakeNode) -> Use:
    """Of the plugin's process now, with all at rest."""
    node.wait_healthy(8)
    pid = node.plugin.pid
    samples = []
    for _ in range(LOOKS):
        tasks = _status(node)["plugin"]["tasks"]
        samples.append(Use(rss(pid), files(pid), threads(pid), tasks))
    # The question is a connection itself, which may still be closing.
    return Use(
        rss=samples[-1].rss,
        files=min(one.files for one in samples),
        threads=max(one.threads for one in samples),
        tasks=min(one.tasks for one in samples),
    )


def _status(node: FakeNode) -> dict[str, Any]:
    return ask(str(node.control_socket()), {"ask": "status"})


class Repetitions:
    """Each method does one thing once."""

    def __init__(self, node: FakeNode, fake: fake_nvml.Fake) -> None:
        self._node = node
        self._fake = fake
        self._ids = sorted(node.health()[0])
        self._client: Client | None = None
        self._endpoint = ""
        self._links = itertools.count()

    def allocates(self, turn: int) -> None:
        """Allocate of one to eight GPUs, on one connection."""
        size = turn % 8 + 1
        client = self._connection()
        client.allocate(client.preferred(self._ids, size))

    def reconnects(self, _turn: int) -> None:
        """A connection, a stream, its first list, and the end of both."""
        client = Client(self._path())
        client.first_list()
        client.close()

    def kubelet_restarts(self, _turn: int) -> None:
        """A kubelet restart, and the plugin is registered again."""
        self._node.kubelet.restart()
        self._node.kubelet.wait_for(GPU, healthy=8, streams=1)

    def health_flips(self, turn: int) -> None:
        """A GPU falls ill and is well again."""
        self._fake.recovery(turn % 8, 1)
        self._node.wait_healthy(7, 1)
        self._fake.recovery(turn % 8, 0)
        self._node.wait_healthy(8)

    def rescans(self, turn: int) -> None:
        """A scan on request, which finds a link of another state."""
        gpu, up = turn // 2 % 8, turn % 2 == 1
        self._fake.link(gpu, 0, up=up)
        self._node.plugin.signal(signal.SIGHUP)
        wanted = 18 if up else 17
        wait_until(lambda: _status(self._node)["gpus"][gpu]["nvlinks"]["active"] == wanted, what="the scan")

    def _path(self) -> Path:
        return self._node.kubelet_folder / self._node.kubelet.resources[GPU].endpoint

    def _connection(self) -> Client:
        if self._client is None or self._endpoint != self._path().name:
            if self._client is not None:
                self._client.close()
            self._client, self._endpoint = Client(self._path()), self._path().name
        return self._client
