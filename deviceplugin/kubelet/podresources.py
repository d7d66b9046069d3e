"""Which pod holds which device (pod resources API v1): a hint for metrics, never for allocation."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
import grpc.aio
from msgspec import Struct

from deviceplugin.kubelet.registration import CHANNEL_OPTIONS
from deviceplugin.kubelet.wire import podresources_pb2 as wire
from deviceplugin.model.errors import KubeletError

_METHOD = "/v1.PodResourcesLister/List"
# A node with hundreds of pods and shares exceeds gRPC's usual 4 MiB.
_ANSWER_LIMIT = 64 * 1024 * 1024
_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.max_receive_message_length", _ANSWER_LIMIT),
    # The kubelet may be away for hours; when it is back, the next call should find it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)


class Holding(Struct, frozen=True):
    """Devices of one resource that one container holds. Ended pods may be among them, by the kubelet's version."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_ids: tuple[str, ...]


class PodResources:
    """Client of one kubelet; an asynchronous context manager that keeps one connection.

    Args:
        socket: The pod resources socket, `/var/lib/kubelet/pod-resources/kubelet.sock`.
        timeout: Seconds for one answer.
    """

    def __init__(self, socket: Path, timeout: float = 5.0) -> None:
        self._socket = socket
        self._timeout = timeout
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection; the next `holdings` makes a new one."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close(None)

    async def holdings(self) -> tuple[Holding, ...]:
        """All holdings of all pods of the node, one per container and resource, ids in the kubelet's order.

        Raises:
            KubeletError: The kubelet is absent, silent or refuses.
        """
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(f"unix:{self._socket}", options=_OPTIONS)
        call = self._channel.unary_unary(
            _METHOD,
            request_serializer=wire.ListPodResourcesRequest.SerializeToString,
            response_deserializer=wire.ListPodResourcesResponse.FromString,
        )
        try:
            answer = await call(wire.ListPodResourcesRequest(), timeout=self._timeout)
        except grpc.aio.AioRpcError as error:
            await self.close()
            raise KubeletError(
                f"{self._socket}: pod resources cannot be listed: {error.code().name}: {error.details()}"
            ) from error
        return _holdings(answer)


def _holdings(answer: wire.ListPodResourcesResponse) -> tuple[Holding, ...]:
    ids: dict[tuple[str, str, str, str], list[str]] = {}
    for pod in answer.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                key = (pod.namespace, pod.name, container.name, devices.resource_name)
                ids.setdefault(key, []).extend(devices.device_ids)
    return tuple(Holding(*key, tuple(held)) for key, held in ids.items())
