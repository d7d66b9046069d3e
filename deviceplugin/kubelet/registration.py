"""Register: the one call that the plugin makes to the kubelet (device plugin API v1beta1)."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import grpc
import grpc.aio

from deviceplugin.kubelet import messages
from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.model.errors import KubeletError

CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    # A pool shared by all channels would remember an old socket's failures.
    ("grpc.use_local_subchannel_pool", 1),
)
_METHOD = "/v1beta1.Registration/Register"


class Failure(StrEnum):
    """Why a registration failed."""

    ABSENT = "absent"
    SILENT = "silent"
    VERSION = "version-refused"
    REFUSED = "refused"
    UNWATCHED = "never-watched"
    """It was accepted, and no ListAndWatch followed."""
    NOT_SERVED = "not-served"
    """There is no socket to register: its folder is absent or not writable, or it does not answer."""


class RegistrationError(KubeletError):
    """A registration that failed; the message is for the operator."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


async def register(kubelet: Path, resource_name: str, endpoint: str, timeout: float) -> None:  # noqa: ASYNC109 - gRPC's own
    """Registers `endpoint` (a file name beside the kubelet's socket) for `resource_name`.

    Raises:
        RegistrationError: The kubelet is absent, silent, or refuses.
    """
    request = messages.register_request(resource_name, endpoint)
    async with grpc.aio.insecure_channel(f"unix:{kubelet}", options=CHANNEL_OPTIONS) as channel:
        call = channel.unary_unary(
            _METHOD,
            request_serializer=wire.RegisterRequest.SerializeToString,
            response_deserializer=wire.Empty.FromString,
        )
        try:
            await call(request, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise _translated(kubelet, timeout, error) from error


def absent(kubelet: Path) -> RegistrationError:
    """The error for a socket that is not there."""
    return RegistrationError(
        Failure.ABSENT,
        f"the kubelet is absent: no socket at {kubelet}; waiting for it (another path: --kubelet-socket)",
    )


def _translated(kubelet: Path, timeout: float, error: grpc.aio.AioRpcError) -> RegistrationError:
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE:
        why = "connection refused" if "refused" in details else details
        return RegistrationError(Failure.ABSENT, f"the kubelet is absent: nobody answers at {kubelet}: {why}")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return RegistrationError(
            Failure.SILENT, f"the kubelet is silent: no answer to Register within {timeout:g} s at {kubelet}"
        )
    if "version" in details.lower():
        return RegistrationError(
            Failure.VERSION, f"the kubelet refuses API version {messages.VERSION}: {details} (at {kubelet})"
        )
    return RegistrationError(Failure.REFUSED, f"the kubelet refuses to register: {code.name}: {details} (at {kubelet})")
