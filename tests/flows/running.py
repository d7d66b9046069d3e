"""Endpoints in this process: an event loop on a thread of its own, driven from the test's thread."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
from msgspec.structs import replace

from deviceplugin.board import Board
from deviceplugin.files.watch import Watcher
from deviceplugin.kubelet.decisions import Rules
from deviceplugin.kubelet.endpoint import Endpoint, Wiring
from deviceplugin.kubelet.observe import Observer
from deviceplugin.kubelet.settings import Backoff, EndpointSettings
from deviceplugin.ledger import Phase
from deviceplugin.model.errors import Refusal, RequestError
from deviceplugin.model.grant import Grant
from deviceplugin.model.health import Health, Sickness
from deviceplugin.model.inventory import Inventory, Resource, Share
from deviceplugin.model.snapshot import Snapshot

T = TypeVar("T")
GPU = "nvidia.com/gpu"


def shares(gpus: int = 8, replicas: int = 1) -> tuple[Share, ...]:
    """Cards or their replicas, four cards to a NUMA node."""
    return tuple(
        Share(
            id=f"GPU-{gpu}" if replicas == 1 else f"GPU-{gpu}::{replica}",
            device=f"GPU-{gpu}",
            gpu=f"GPU-{gpu}",
            gpu_index=gpu,
            visible_index=str(gpu),
            replica=None if replicas == 1 else replica,
            numa=gpu // 4,
        )
        for gpu in range(gpus)
        for replica in range(replicas)
    )


def offering(**resources: tuple[Share, ...]) -> Snapshot:
    """A snapshot that offers these; the keyword is the name after the slash, with `_` for `-`."""
    names = {f"nvidia.com/{name.replace('_', '-')}": listed for name, listed in resources.items()}
    return Snapshot(inventory=Inventory(resources={name: Resource(name, s) for name, s in names.items()}))


def with_sick(snapshot: Snapshot, *uuids: str) -> Snapshot:
    """The same with these cards unhealthy."""
    return replace(snapshot, health=Health(sick={u: (Sickness(u, "xid-79", "reset-required", 0.0),) for u in uuids}))


@dataclass(frozen=True)
class Chosen:
    ids: Sequence[str]
    domains: int = 1
    exact: bool = True
    decided_by: str = "index"
    unknown: int = 0


def allocate(
    _snapshot: Snapshot,
    resource: Resource,
    ids: Sequence[str],
    _exists: Callable[[str], bool],
    _unique: Callable[[], str],
) -> Grant:
    for id_ in ids:
        if id_ not in resource.by_id:
            raise RequestError(f"{id_} is no device of {resource.name}")
        if resource.by_id[id_].gpu in _snapshot.health.sick:
            raise RequestError(f"{id_} is unhealthy: xid-79", Refusal.FAILED_PRECONDITION)
    return Grant(envs={"NVIDIA_VISIBLE_DEVICES": ",".join(sorted(ids))})


def prefer(
    _snapshot: Snapshot, _resource: Resource, available: Sequence[str], must_include: Sequence[str], size: int
) -> Chosen:
    if size < 1:
        raise RequestError(f"allocation_size {size} is below 1")
    return Chosen([*must_include, *sorted(set(available) - set(must_include))][:size])


RULES = Rules(allocate=allocate, prefer=prefer)
QUICK = EndpointSettings(
    backoff=Backoff(first=0.02, cap=0.5),
    register_timeout=1.0,
    stream_deadline=0.5,
    check_interval=5.0,
    settle=0.02,
    sweep_grace=0.05,
)


@dataclass
class Notes(Observer):
    """Everything that an endpoint reported, in order."""

    events: list[tuple[Any, ...]] = field(default_factory=list)

    def phase_changed(self, resource: str, phase: Phase) -> None:
        self.events.append(("phase", resource, phase))

    def registered(self, resource: str) -> None:
        self.events.append(("registered", resource))

    def registration_failed(self, resource: str, kind: str) -> None:
        self.events.append(("failed", resource, kind))

    def contested(self, resource: str, rivals: str) -> None:
        self.events.append(("contested", resource, rivals))

    def stream_opened(self, resource: str) -> None:
        self.events.append(("opened", resource))

    def stream_closed(self, resource: str) -> None:
        self.events.append(("closed", resource))

    def frame_sent(self, resource: str, devices: int, unhealthy: int) -> None:
        self.events.append(("frame", resource, devices, unhealthy))

    def allocated(self, resource: str, *, ok: bool, seconds: float) -> None:
        self.events.append(("allocated", resource, ok, seconds))

    def preferred(self, resource: str, size: int, domains: int, *, exact: bool, seconds: float) -> None:
        self.events.append(("preferred", resource, size, domains, exact, seconds))

    def preferred_refused(self, resource: str) -> None:
        self.events.append(("preferred-refused", resource))

    def count(self, *beginning: object) -> int:
        """How many events begin like this."""
        return sum(event[: len(beginning)] == beginning for event in self.events)


class Plugin:
    """Endpoints, board and watcher; a context manager.

    They run on an event loop on a thread of their own, or on that of `beside`: gRPC's asyncio side takes one loop a
    process.
    """

    def __init__(
        self,
        folder: Path,
        snapshot: Snapshot,
        settings: EndpointSettings = QUICK,
        beside: "Plugin | None" = None,
    ) -> None:
        self.notes = Notes()
        self._beside = beside
        self.settings = replace(settings, folder=folder)
        self.endpoints: dict[str, Endpoint] = {}
        self.errors: list[BaseException] = []
        self._first = snapshot
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="plugin-under-test")
        self._ended: Future[None] | None = None

    def __enter__(self) -> Self:
        if self._beside is None:
            self._thread.start()
        else:
            self._ended = asyncio.run_coroutine_threadsafe(self._run(), self._beside.loop)
        if not self._ready.wait(10):
            raise AssertionError("the plugin's loop did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        if self.errors and error is None:
            raise AssertionError(f"the plugin failed: {self.errors!r}") from self.errors[0]

    @property
    def snapshot(self) -> Snapshot:
        return self.board.current

    def publish(self, snapshot: Snapshot) -> None:
        """Publishes and reconciles, as the daemon does."""
        self.call(self._publish(snapshot))

    def leave(self) -> None:
        """As on SIGTERM."""
        if self._ended is not None:
            self.loop.call_soon_threadsafe(self._leaving.set)
            self._ended.result(10)
        elif self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._leaving.set)
            self._thread.join()

    def call(self, doing: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the plugin's loop."""
        return asyncio.run_coroutine_threadsafe(doing, self.loop).result(30)

    def endpoint(self, resource: str = GPU) -> Endpoint:
        return self.endpoints[resource]

    def socket(self, resource: str = GPU) -> Path:
        path = self.endpoints[resource].socket_path
        assert path is not None
        return path

    def tasks(self) -> int:
        """Tasks alive on the loop."""

        async def count() -> int:
            return len(asyncio.all_tasks())

        return self.call(count())

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            logging.getLogger(__name__).exception("the plugin failed")
            self.errors.append(error)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.board = Board(self._first)
        self.watcher = Watcher(period=1.0, warm_up=0)
        self._leaving = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            self._group = group
            watching = group.create_task(self.watcher.run())
            self._reconcile()
            self._ready.set()
            await self._leaving.wait()
            for endpoint in self.endpoints.values():
                endpoint.stop()
            watching.cancel()

    async def _publish(self, snapshot: Snapshot) -> None:
        self.board.publish(snapshot)
        self._reconcile()

    def _reconcile(self) -> None:
        offered = self.board.current.inventory.resources
        for name in [n for n in self.endpoints if n not in offered]:
            self.endpoints.pop(name).stop()
        wiring = Wiring(RULES, self.notes, self.watcher.watch)
        for name in offered:
            if name not in self.endpoints:
                self.endpoints[name] = Endpoint(name, self.board, self.settings, wiring)
                self._group.create_task(self.endpoints[name].run())


@contextlib.contextmanager
def another_stream(path: Path) -> Iterator[Iterator[bytes]]:
    """A ListAndWatch besides the kubelet's, frame by frame as bytes, with small buffers; cut at the end."""
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.http2.lookahead_bytes", 65536),
        ("grpc.http2.bdp_probe", 0),
    ]
    with grpc.insecure_channel(f"unix:{path}", options=options) as channel:
        call: Any = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch", bytes, bytes)(b"")
        yield call
        call.cancel()


def descriptors() -> int:
    """Open descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
