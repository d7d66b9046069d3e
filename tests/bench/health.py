"""How soon faults are seen by the kubelet, how soon it is served again, and that no call waits for the driver."""

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import grpc

import fake_nvml
from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.web.local import ask
from tests.bench.foundation import plain_node
from tests.bench.measure import Client, percentile, timed
from tests.bench.table import Row
from tests.fake_kubelet import Frame
from tests.node import GPU, FakeNode
from tests.waiting import wait_until

SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 100}]}}"
XIDS = 200
RESTARTS = 100
CUTS = 20
MIG_CHANGES = 20
CALLS = 2_000
ONLOOKERS = 3
CUT = "nvidia.com/mig-1g.10gb"
QUIET = ("--health-quiet-period=0s", "--health-interval=50ms")
STILL = ("--rescan-interval=1h", "--health-interval=1h", "--metrics-interval=1h")


def run() -> Iterator[Row]:
    """All figures of health and life."""
    yield from xids()
    yield from kubelet_restarts()
    yield from cuts()
    yield from mig_changes()
    yield from hanging()
    yield from nvml_calls()


class Stream:
    """One more stream on a socket, and when which list came by it; lists stay bytes until they are looked at."""

    def __init__(self, socket: Path) -> None:
        self.frames: list[tuple[float, bytes]] = []
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=options)
        self._call: Any = self._channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch", bytes, bytes)(b"")
        self._thread = threading.Thread(target=self._follow, name="onlooker", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        with contextlib.suppress(grpc.RpcError, ValueError):
            for frame in self._call:
                self.frames.append((time.perf_counter(), frame))

    def close(self) -> None:
        """Ends it."""
        self._call.cancel()
        self._channel.close()
        self._thread.join()


def unhealthy(frame: bytes) -> int:
    """Devices of a list that are not healthy."""
    return sum(device.health != "Healthy" for device in wire.ListAndWatchResponse.FromString(frame).devices)


def xids() -> Iterator[Row]:
    """A contained memory error on one of 8 GPUs of 100 replicas each, until every stream has the list."""
    taken = []
    with plain_node("hgx-h100-8", *QUIET) as node, fake_nvml.attach(node.root) as fake:
        node.configure(SHARED)
        node.plugin.start(f"--config-file={node.config_file}")
        node.wait_healthy(800)
        socket = node.kubelet_folder / node.kubelet.resources[GPU].endpoint
        streams = [Stream(socket) for _ in range(ONLOOKERS)]
        wait_until(lambda: all(stream.frames for stream in streams), what="the first lists")
        for turn in range(XIDS):
            gpu = turn % 8
            # What waits for a reset holds up the recovery, so that the list is seen.
            fake.remap(gpu, "pending")
            seen = [len(stream.frames) for stream in streams]
            began = time.perf_counter()
            fake.xid(gpu, 94)
            wait_until(
                lambda: all(len(s.frames) > n for s, n in zip(streams, seen, strict=True)),  # noqa: B023 - at once
                what="a list on every stream",
                interval=0.001,
            )
            arrivals = [stream.frames[before] for stream, before in zip(streams, seen, strict=True)]
            assert all(unhealthy(frame) == 100 for _, frame in arrivals), [unhealthy(f) for _, f in arrivals]
            taken.append((max(at for at, _ in arrivals) - began) * 1000)
            node.wait_healthy(700, 100)
            fake.remap(gpu, "none")
            node.wait_healthy(800)
            wait_until(lambda: not any(unhealthy(s.frames[-1][1]) for s in streams), what="recovery on every stream")
        for stream in streams:
            stream.close()
    yield Row("Xid -> Unhealthy frame on all streams, 800 replicas, p50", median(taken))
    yield Row("Xid -> Unhealthy frame on all streams, 800 replicas, p99", percentile(taken, 0.99), goal=20)


def kubelet_restarts() -> Iterator[Row]:
    """From the birth of the kubelet's socket file to the whole list."""
    taken = []
    with plain_node() as node:
        node.plugin.start()
        node.wait_healthy(8)
        for _ in range(RESTARTS):
            node.kubelet.stop()
            node.kubelet.start()
            view = node.kubelet.wait_for(GPU, healthy=8, streams=1)
            born = node.kubelet.socket.stat().st_ctime - time.time() + time.monotonic()
            taken.append((view.frames[0].time - born) * 1000)
    yield Row("kubelet socket appears -> full list, p50", median(taken))
    yield Row("kubelet socket appears -> full list, p99", percentile(taken, 0.99), goal=200)


def cuts() -> Iterator[Row]:
    """The kubelet ends the stream and keeps its socket: once, and five times in a row."""
    once, fifth = [], []
    with plain_node() as node:
        node.plugin.start()
        for _ in range(CUTS):
            node.kubelet.restart()
            node.kubelet.wait_for(GPU, healthy=8, streams=1)
            row = [_cut(node) for _ in range(5)]
            once.append(row[0])
            fifth.append(row[-1])
    yield Row("stream cut -> registered and listed again, worst", max(once), goal=2000)
    yield Row("the fifth cut in a row -> registered and listed again, worst", max(fifth), goal=2000)


def _cut(node: FakeNode) -> float:
    before = len(node.kubelet.resources[GPU].frames)
    began = time.monotonic()
    node.kubelet.cut_stream(GPU)
    wait_until(lambda: len(node.kubelet.resources[GPU].frames) > before, what="a list on a new stream", interval=0.001)
    taken = (time.monotonic() - began) * 1000
    node.kubelet.wait_for(GPU, healthy=8, streams=1)
    return taken


def mig_changes() -> Iterator[Row]:
    """One GPU of eight is cut anew under `mixed`; every list on the way is looked at."""
    taken, wrong = [], 0
    frames: list[tuple[str, Frame]] = []
    with (
        plain_node("hgx-h100-8-mig-1g", "--mig-strategy=mixed", *STILL, "--vanished-grace=1h") as node,
        fake_nvml.attach(node.root) as fake,
    ):
        node.kubelet._journal.listed = lambda name, frame: frames.append((name, frame))
        node.plugin.start()
        node.wait_healthy(56, resource=CUT)
        gone: set[str] = set()
        for turn in range(MIG_CHANGES):
            gpu, before = turn % 8, set(node.health(CUT)[0])
            layout = ["3g.40gb", "3g.40gb"] if turn < 8 else ["2g.20gb"] * 3 if turn < 16 else ["1g.10gb"] * 7
            frames.clear()
            began = time.perf_counter()
            fake.mig(gpu, layout)
            node.plugin.signal(signal.SIGHUP)
            wanted = _right(fake)
            wait_until(lambda: _shown(node) == wanted, what="the right lists", interval=0.001)  # noqa: B023 - at once
            taken.append((time.perf_counter() - began) * 1000)
            kept = before & wanted.get(CUT, frozenset())
            gone |= before - kept
            every = frozenset().union(*wanted.values())
            for name, frame in frames:
                listed = frame.healthy
                incomplete = name == CUT and not kept <= listed
                wrong += incomplete or bool(listed & gone) or not listed <= every | before
    yield Row("MIG change, found by a scan -> right lists, p50", median(taken))
    yield Row("MIG change, found by a scan -> right lists, worst", max(taken), goal=1000)
    yield Row("wrong lists in between", wrong, "lists", goal=0)


def _right(fake: fake_nvml.Fake) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    world = fake._world
    world.sync()
    for one in world.state.gpus:
        for device in one.devices.values():
            found.setdefault(f"nvidia.com/mig-{device.profile}", set()).add(one.mig_uuid(device, opaque=True))
    return {name: frozenset(ids) for name, ids in found.items()}


def _shown(node: FakeNode) -> dict[str, frozenset[str]]:
    return {name: view.healthy for name, view in node.kubelet.resources.items() if view.healthy}


def hanging() -> Iterator[Row]:
    """The calls that pods and probes wait for, as usual and while every NVML call hangs."""
    with plain_node() as node, fake_nvml.attach(node.root) as fake:
        node.plugin.start("--rescan-interval=500ms", "--health-interval=200ms")
        ids = sorted(node.kubelet.wait_for(GPU, healthy=8, streams=1).healthy)
        client = Client(node.kubelet_folder / node.kubelet.resources[GPU].endpoint)
        control = str(node.control_socket())
        calls = {
            "Allocate of 4": lambda: client.allocate(ids[:4]),
            "preferred allocation of 4 of 8": lambda: client.preferred(ids, 4),
            "health live": lambda: ask(control, {"ask": "live"}),
            "health ready": lambda: ask(control, {"ask": "ready"}),
        }
        for call in calls.values():
            timed(call, 200)
        usual = {name: timed(call, CALLS) for name, call in calls.items()}
        fake.hang()
        began = time.monotonic()
        # Until both threads are in it.
        wait_until(lambda: time.monotonic() - began > 1, what="the hang", timeout=5)
        hung = {name: timed(call, CALLS) for name, call in calls.items()}
        fake.release()
        client.close()
    for name in calls:
        now, floor = percentile(hung[name], 0.99), percentile(usual[name], 0.99)
        yield Row(f"{name} while NVML hangs, p99 (floor: as usual)", now, floor=floor, ratio_goal=3)


def nvml_calls() -> Iterator[Row]:
    """NVML calls in a thousand Allocates and as many preferred allocations, the event thread's wait left out."""
    with plain_node("hgx-h100-8", *STILL) as node:
        counts = node.home / "calls.json"
        where = node.plugin.command.index("deviceplugin")
        node.plugin.command[where : where + 1] = ["tests.bench.counted", str(counts)]
        node.plugin.start()
        ids = sorted(node.kubelet.wait_for(GPU, healthy=8, streams=1).healthy)
        client = Client(node.kubelet_folder / node.kubelet.resources[GPU].endpoint)
        client.allocate(ids[:1])
        wait_until(lambda: "plugin" in ask(str(node.control_socket()), {"ask": "status"}), what="all to be up")
        before = _settled(node, counts)
        for turn in range(1000):
            client.allocate(client.preferred(ids, turn % 8 + 1))
        made = _count(node, counts) - before
        client.close()
    yield Row("NVML calls in 1,000 Allocates and 1,000 preferred allocations", made, "calls", goal=0)


def _settled(node: FakeNode, counts: Path) -> int:
    """The number of calls when what is read once after a start has been read."""
    seen = [-1]

    def still() -> bool:
        seen.append(_count(node, counts))
        return seen[-1] == seen[-2]

    wait_until(still, what="the calls of the beginning to end", interval=0.7)
    return seen[-1]


def _count(node: FakeNode, counts: Path) -> int:
    counts.unlink(missing_ok=True)
    node.plugin.signal(signal.SIGUSR1)
    wait_until(counts.exists, what="the count")
    made = json.loads(counts.read_text())
    return sum(many for one in made for name, many in one.items() if not name.startswith("nvmlEventSetWait"))
