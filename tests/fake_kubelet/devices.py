"""The device manager: which plugins are connected and what their lists say."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from tests.fake_kubelet.connection import Connection, describe
from tests.fake_kubelet.model import (
    API_VERSION,
    HEALTHY,
    UNHEALTHY,
    Behaviour,
    Device,
    Faults,
    Frame,
    Options,
    Registration,
    RegistrationRefused,
    ResourceView,
    Stream,
    device,
)
from tests.fake_kubelet.names import is_extended_resource_name


@dataclass(slots=True)
class Journal:
    """What one kubelet saw over all its restarts."""

    registrations: list[Registration] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    narrate: Callable[[str], None] = lambda _line: None
    listed: Callable[[str, Frame], None] = lambda _resource, _frame: None


@dataclass(frozen=True, slots=True)
class Manners:
    """How this kubelet treats plugins."""

    behaviour: Behaviour
    faults: Faults
    dial_timeout: float
    drop_after: float


@dataclass(slots=True)
class Resource:
    """What is known of one resource; `stopped` is when its connection went, None while it is there."""

    connection: Connection | None = None
    options: Options = field(default_factory=Options)
    devices: dict[str, Device] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    stopped: float | None = None


class DeviceManager:
    """One life of the kubelet's device manager, from its start until `close`."""

    def __init__(self, journal: Journal, manners: Manners, known: Mapping[str, tuple[str, ...]]) -> None:
        self._journal = journal
        self._manners = manners
        self._lock = threading.RLock()
        self._resources = {name: Resource(stopped=time.monotonic()) for name in known}
        self._connections: list[Connection] = []
        self._streams: list[Connection] = []
        self._closed = False

    def register(self, resource: str, socket: Path, versions: tuple[str, ...], options: Options | None) -> Registration:
        """Takes a plugin: checks, dials, asks for its options and has ListAndWatch opened.

        Args:
            resource: The name to register.
            socket: The plugin's socket.
            versions: API versions that the plugin speaks.
            options: What a Register request said; None for the plugin watcher's way.

        Raises:
            RegistrationRefused: With the reason; nothing has changed then.
        """
        if API_VERSION not in versions or self._manners.faults.refuse_version:
            raise self.refuse(f"device plugin API version {', '.join(versions)!r} is not supported")
        if not is_extended_resource_name(resource):
            raise self.refuse(f"{resource!r} is not an extended resource name")
        authority = str(socket) if self._manners.behaviour.authority_is_path else "localhost"
        connection = Connection(resource, socket, authority=authority)
        with self._lock:
            if self._closed:
                connection.close()
                raise self.refuse("the kubelet is stopping")
            self._connections.append(connection)
        try:
            answered = connection.options(self._manners.dial_timeout)
        except (grpc.RpcError, ValueError) as error:
            self._forget(connection)
            why = describe(error) if isinstance(error, grpc.RpcError) else str(error)
            raise self.refuse(f"cannot connect to the plugin at {socket}: {why}") from error
        if options is not None and options != answered:
            self._journal.violations.append(
                f"{resource}: Register said {options}, GetDevicePluginOptions said {answered}"
            )
        kept = options if self._manners.behaviour.keeps_register_options and options else answered
        return self._take(connection, kept)

    def _take(self, connection: Connection, options: Options) -> Registration:
        name = connection.resource
        with self._lock:
            if self._closed:
                raise self.refuse("the kubelet is stopping")
            known = self._resources.setdefault(name, Resource())
            known.connection, known.options, known.stopped = connection, options, None
            registration = Registration(name, connection.endpoint, options, time.monotonic())
            self._journal.registrations.append(registration)
            self._journal.narrate(f"{name}: registered by {connection.endpoint}")
            if not self._manners.faults.never_watch:
                self._streams.append(connection)
                connection.watch(self._received, self._ended)
        return registration

    def refuse(self, why: str) -> RegistrationRefused:
        self._journal.refusals.append(why)
        self._journal.narrate(f"registration refused: {why}")
        return RegistrationRefused(why)

    def _forget(self, connection: Connection) -> None:
        connection.close()
        with self._lock:
            if connection in self._connections:
                self._connections.remove(connection)

    def _received(self, connection: Connection, frame: Frame) -> None:
        name = connection.resource
        listed = {item.id: item for item in frame.devices}
        with self._lock:
            known = self._resources.get(name)
            if self._closed or known is None:
                return
            known.devices = listed
            known.frames.append(frame)
            self._journal.listed(name, frame)
            self._journal.violations.extend(_faults_of_list(name, frame))
            healthy = sum(item.healthy for item in listed.values())
            self._journal.narrate(f"{name}: {healthy} of {len(listed)} devices healthy")

    def _ended(self, connection: Connection, why: str) -> None:
        name = connection.resource
        with self._lock:
            if connection in self._streams:
                self._streams.remove(connection)
            if self._closed:
                return
            self._journal.narrate(f"{name}: stream of {connection.endpoint} ended ({why})")
            newest = self._stop(name)
        self._forget(connection)
        if newest is not None:
            self._forget(newest)

    def _stop(self, name: str) -> Connection | None:
        """Marks everything unhealthy and hands out the newest connection, which is to be closed."""
        known = self._resources.get(name)
        if known is None or known.connection is None:
            return None
        newest, known.connection, known.stopped = known.connection, None, time.monotonic()
        known.devices = {id_: device(id_, UNHEALTHY, item.nodes) for id_, item in known.devices.items()}
        return newest

    def deregister(self, resource: str) -> None:
        """The plugin watcher saw the plugin's socket go."""
        with self._lock:
            newest = self._stop(resource)
        if newest is not None:
            self._forget(newest)

    def cut(self, resource: str) -> None:
        """Ends the newest stream from the kubelet's side."""
        with self._lock:
            known = self._resources.get(resource)
            connection = known.connection if known else None
        if connection is None:
            raise LookupError(f"{resource} has no open connection to cut")
        connection.cut()

    def streams(self) -> dict[str, list[Stream]]:
        """Open streams by resource, oldest first."""
        found: dict[str, list[Stream]] = {}
        with self._lock:
            for connection in self._streams:
                found.setdefault(connection.resource, []).append(connection.stream())
        return found

    def resource(self, name: str) -> Resource | None:
        """A copy of what is known of a resource; None if it never registered or was dropped."""
        with self._lock:
            self._drop_stale()
            known = self._resources.get(name)
            return known and Resource(known.connection, known.options, known.devices, list(known.frames), known.stopped)

    def views(self) -> dict[str, ResourceView]:
        """All resources as values."""
        with self._lock:
            self._drop_stale()
            return {
                name: ResourceView(
                    known.devices,
                    tuple(known.frames),
                    known.connection is not None and known.connection in self._streams,
                    known.connection.endpoint if known.connection else "",
                )
                for name, known in self._resources.items()
            }

    def known(self) -> dict[str, tuple[str, ...]]:
        """Device ids by resource, as the checkpoint keeps them."""
        return {name: tuple(view.devices) for name, view in self.views().items()}

    def _drop_stale(self) -> None:
        limit = time.monotonic() - self._manners.drop_after
        for name in [n for n, known in self._resources.items() if known.stopped and known.stopped <= limit]:
            self._journal.narrate(f"{name}: dropped")
            del self._resources[name]

    def close(self) -> None:
        """Drops all connections and waits for their threads."""
        with self._lock:
            self._closed = True
            connections = list(self._connections)
        for connection in connections:
            connection.close()
        for connection in connections:
            connection.join()


def _faults_of_list(name: str, frame: Frame) -> list[str]:
    times = Counter(item.id for item in frame.devices)
    found = [f"{name}: id {id_!r} is listed {n} times" for id_, n in times.items() if n > 1]
    for item in frame.devices:
        if item.health not in {HEALTHY, UNHEALTHY}:
            found.append(f"{name}: {item.id!r} has health {item.health!r}")
        if any(node < 0 for node in item.nodes):
            found.append(f"{name}: {item.id!r} is on NUMA nodes {item.nodes}")
    return found
