"""A device plugin that does what a test tells it to, right or wrong; threads, no event loop."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.kubelet.wire import deviceplugin_pb2_grpc as services
from deviceplugin.kubelet.wire import pluginregistration_pb2 as watcher_wire
from deviceplugin.kubelet.wire import pluginregistration_pb2_grpc as watcher_services
from tests.fake_kubelet.model import API_VERSION, HEALTHY, UNHEALTHY
from tests.fake_kubelet.sockets import SocketServer

Preference = Callable[[wire.ContainerPreferredAllocationRequest], Sequence[str]]


def listed(ids: Iterable[str], *, sick: Iterable[str] = (), nodes: dict[str, int] | None = None) -> bytes:
    """A whole list as it goes over the wire."""
    bad, where = set(sick), nodes or {}
    devices = [
        wire.Device(
            ID=id_,
            health=UNHEALTHY if id_ in bad else HEALTHY,
            topology=wire.TopologyInfo(nodes=[wire.NUMANode(ID=where[id_])]) if id_ in where else None,
        )
        for id_ in ids
    ]
    return wire.ListAndWatchResponse(devices=devices).SerializeToString()


def first_ones(request: wire.ContainerPreferredAllocationRequest) -> list[str]:
    """A valid preference: what must be in, then the lowest ids."""
    must = list(request.must_include_deviceIDs)
    rest = sorted(set(request.available_deviceIDs) - set(must))
    return [*must, *rest[: request.allocation_size - len(must)]]


@dataclass(slots=True)
class Script:
    """What the plugin answers. An `error` is (code, details) instead of an answer."""

    options: wire.DevicePluginOptions = field(
        default_factory=lambda: wire.DevicePluginOptions(get_preferred_allocation_available=True)
    )
    preference: Preference = first_ones
    answer: wire.ContainerAllocateResponse = field(default_factory=wire.ContainerAllocateResponse)
    containers: int = 1
    errors: dict[str, tuple[grpc.StatusCode, str]] = field(default_factory=dict)


class ScriptedPlugin(services.DevicePluginServicer, watcher_services.RegistrationServicer):
    """Serves on a socket of its own; keeps every request it got.

    Args:
        socket: Where it serves.
        resource: What it registers as.
        first: The list that every stream begins with, as `listed` makes it.
    """

    def __init__(self, socket: Path, resource: str, first: bytes) -> None:
        self.socket = socket
        self.resource = resource
        self.script = Script()
        self.register_options: wire.DevicePluginOptions | None = None
        self.calls: list[tuple[str, object]] = []
        self.statuses: list[watcher_wire.RegistrationStatus] = []
        self.info = watcher_wire.PluginInfo(type="DevicePlugin", name=resource, supported_versions=[API_VERSION])
        self._first = first
        self._lock = threading.Lock()
        self._streams: list[queue.SimpleQueue[bytes | None]] = []
        self._server = SocketServer(socket, self._serve)

    def _serve(self, server: grpc.Server) -> None:
        services.add_DevicePluginServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        watcher_services.add_RegistrationServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_streams()
        self._server.close()
        self._server.join()

    def register(
        self,
        kubelet: Path,
        *,
        version: str = API_VERSION,
        endpoint: str | None = None,
        timeout: float = 10.0,
    ) -> None:
        """Registers with the kubelet behind a socket; raises `grpc.RpcError`."""
        request = wire.RegisterRequest(
            version=version,
            endpoint=self.socket.name if endpoint is None else endpoint,
            resource_name=self.resource,
            options=self.register_options or self.script.options,
        )
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        with grpc.insecure_channel(f"unix:{kubelet}", options=options) as channel:
            services.RegistrationStub(channel).Register(request, timeout=timeout)  # type: ignore[no-untyped-call]

    def send(self, frame: bytes) -> None:
        """Sends a list on every stream, and as the first one on later streams."""
        with self._lock:
            self._first = frame
            for stream in self._streams:
                stream.put(frame)

    def end_streams(self) -> None:
        """Ends every stream from the plugin's side."""
        with self._lock:
            for stream in self._streams:
                stream.put(None)

    @property
    def open_streams(self) -> int:
        """Streams that the plugin believes to be open."""
        with self._lock:
            return len(self._streams)

    def requests(self, call: str) -> list[object]:
        """Requests that one kind of call brought."""
        return [request for name, request in self.calls if name == call]

    def _note(self, call: str, request: object, context: grpc.ServicerContext) -> None:
        self.calls.append((call, request))
        if call in self.script.errors:
            context.abort(*self.script.errors[call])

    def GetDevicePluginOptions(  # noqa: N802 - the service's name
        self, request: wire.Empty, context: grpc.ServicerContext
    ) -> wire.DevicePluginOptions:
        self._note("GetDevicePluginOptions", request, context)
        return self.script.options

    def ListAndWatch(  # noqa: N802 - the service's name
        self, request: wire.Empty, context: grpc.ServicerContext
    ) -> Iterator[wire.ListAndWatchResponse]:
        self._note("ListAndWatch", request, context)
        stream: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with self._lock:
            stream.put(self._first)
            self._streams.append(stream)
        context.add_callback(lambda: stream.put(None))
        try:
            while (frame := stream.get()) is not None:
                yield wire.ListAndWatchResponse.FromString(frame)
        finally:
            with self._lock:
                self._streams.remove(stream)

    def GetPreferredAllocation(  # noqa: N802 - the service's name
        self, request: wire.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> wire.PreferredAllocationResponse:
        self._note("GetPreferredAllocation", request, context)
        ids = self.script.preference(request.container_requests[0])
        chosen = wire.ContainerPreferredAllocationResponse(deviceIDs=ids)
        return wire.PreferredAllocationResponse(container_responses=[chosen] * self.script.containers)

    def Allocate(  # noqa: N802 - the service's name
        self, request: wire.AllocateRequest, context: grpc.ServicerContext
    ) -> wire.AllocateResponse:
        self._note("Allocate", request, context)
        return wire.AllocateResponse(container_responses=[self.script.answer] * self.script.containers)

    def PreStartContainer(  # noqa: N802 - the service's name
        self, request: wire.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> wire.PreStartContainerResponse:
        self._note("PreStartContainer", request, context)
        return wire.PreStartContainerResponse()

    def GetInfo(  # noqa: N802 - the service's name
        self, request: watcher_wire.InfoRequest, context: grpc.ServicerContext
    ) -> watcher_wire.PluginInfo:
        self._note("GetInfo", request, context)
        return self.info

    def NotifyRegistrationStatus(  # noqa: N802 - the service's name
        self, request: watcher_wire.RegistrationStatus, context: grpc.ServicerContext
    ) -> watcher_wire.RegistrationStatusResponse:
        self._note("NotifyRegistrationStatus", request, context)
        self.statuses.append(request)
        return watcher_wire.RegistrationStatusResponse()
