"""One connection to a plugin's socket, with the calls a kubelet makes on it."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import grpc

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.kubelet.wire import deviceplugin_pb2_grpc as services
from tests.fake_kubelet.model import Device, Frame, Options, Stream, device

_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
)


class Connection:
    """A channel to one plugin socket; gRPC's default limit of 4 MiB a message holds."""

    def __init__(self, resource: str, socket: Path, *, authority: str) -> None:
        self.resource = resource
        self.endpoint = socket.name
        options = [*_OPTIONS, ("grpc.default_authority", authority)]
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=options)
        self._plugin = services.DevicePluginStub(self._channel)  # type: ignore[no-untyped-call]
        self._thread: threading.Thread | None = None
        self._call: grpc.CallIterator[wire.ListAndWatchResponse] | None = None
        self._opened = 0.0
        self._frames = 0

    def options(self, timeout: float) -> Options:
        """Dials and asks for the options; raises `grpc.RpcError`."""
        answer = self._plugin.GetDevicePluginOptions(wire.Empty(), timeout=timeout, wait_for_ready=True)
        return Options.of(answer)

    def watch(
        self,
        on_frame: Callable[["Connection", Frame], None],
        on_end: Callable[["Connection", str], None],
    ) -> None:
        """Opens ListAndWatch, once, and reports each list and the end from a thread of its own."""
        self._opened = time.monotonic()
        self._call = self._plugin.ListAndWatch(wire.Empty())

        def follow() -> None:
            end = "the plugin ended it"
            try:
                for answer in self._call or ():
                    listed = tuple(_devices(answer.devices))
                    on_frame(self, Frame(time.monotonic(), self.endpoint, listed))
                    self._frames += 1
            except grpc.RpcError as error:
                end = describe(error)
            on_end(self, end)

        self._thread = threading.Thread(target=follow, name=f"fake-kubelet-watch-{self.endpoint}")
        self._thread.start()

    def stream(self) -> Stream:
        """The open stream as a value."""
        return Stream(self.resource, self.endpoint, self._opened, self._frames)

    def cut(self) -> None:
        """Ends ListAndWatch from this side."""
        if self._call is not None:
            self._call.cancel()  # type: ignore[no-untyped-call]

    def preferred(self, available: list[str], must_include: list[str], size: int) -> list[str] | None:
        """GetPreferredAllocation for one container; None if the answer names no container."""
        request = wire.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        answer = self._plugin.GetPreferredAllocation(wire.PreferredAllocationRequest(container_requests=[request]))
        return list(answer.container_responses[0].deviceIDs) if answer.container_responses else None

    def allocate(self, ids: list[str]) -> wire.AllocateResponse:
        """Allocate for one container."""
        request = wire.ContainerAllocateRequest(devices_ids=ids)
        response: wire.AllocateResponse = self._plugin.Allocate(wire.AllocateRequest(container_requests=[request]))
        return response

    def pre_start(self, ids: list[str]) -> None:
        """PreStartContainer."""
        self._plugin.PreStartContainer(wire.PreStartContainerRequest(devices_ids=ids))

    def close(self) -> None:
        """Closes the channel, which ends its stream and all calls."""
        self._channel.close()

    def join(self) -> None:
        """Waits until the stream's thread has ended."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


def describe(error: grpc.RpcError) -> str:
    """Code and details of a call that failed."""
    return f"{error.code().name}: {error.details()}"


def _devices(listed: Iterable[wire.Device]) -> Iterable[Device]:
    for item in listed:
        yield device(item.ID, item.health, tuple(node.ID for node in item.topology.nodes))
