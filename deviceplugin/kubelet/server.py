"""A gRPC server on a socket of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio

from deviceplugin.kubelet import sockets
from deviceplugin.kubelet.registration import CHANNEL_OPTIONS
from deviceplugin.model.errors import KubeletError

_SERVER_OPTIONS = (
    ("grpc.so_reuseport", 0),
    # A request names every free id twice at most; the kubelet's own limit holds for the list only.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)
Handler: TypeAlias = "grpc.GenericRpcHandler[Any, Any]"
_OPTIONS_METHOD = "/v1beta1.DevicePlugin/GetDevicePluginOptions"


@contextlib.contextmanager
def transport() -> Iterator[None]:
    """Keeps gRPC's asyncio side up while it is entered.

    Left to itself it ends with the last server and begins anew with the next one, and then it may be that the event
    loop is never woken again by a call (seen with grpcio 1.85).
    """
    grpc.aio.init_grpc_aio()  # type: ignore[attr-defined]  # missing from the stubs
    try:
        yield
    finally:
        grpc.aio.shutdown_grpc_aio()  # type: ignore[attr-defined]


class Server:
    """Serves until `close`; make one with `start`."""

    def __init__(self, path: Path, server: grpc.aio.Server) -> None:
        self.path = path
        self._server = server
        self._identity = sockets.identity(path)

    @classmethod
    async def start(cls, folder: Path, resource_name: str, handlers: Sequence[Handler]) -> Server:
        """Listens on a fresh socket in `folder`.

        Raises:
            KubeletError: The folder is absent or not writable, its path is too long, or gRPC cannot bind.
        """
        sockets.check_folder(folder)
        path = sockets.fresh_path(folder, resource_name)
        server = grpc.aio.server(handlers=handlers, options=_SERVER_OPTIONS)
        try:
            server.add_insecure_port(f"unix:{path}")
            await server.start()
        except RuntimeError as error:
            raise KubeletError(f"{path}: cannot listen: {error}") from error
        return cls(path, server)

    @property
    def name(self) -> str:
        """The socket's file name, as Register tells it to the kubelet."""
        return self.path.name

    def intact(self) -> bool:
        """Whether the socket file is still the one that this server made."""
        now = sockets.identity(self.path)
        # The inode is enough here: nobody else makes this name, and chmod or relabelling moves the ctime.
        return now is not None and self._identity is not None and now[:2] == self._identity[:2]

    async def ping(self, timeout: float) -> None:  # noqa: ASYNC109 - gRPC's own
        """Calls the own socket as the kubelet would.

        Raises:
            KubeletError: No answer within `timeout` seconds.
        """
        async with grpc.aio.insecure_channel(f"unix:{self.path}", options=CHANNEL_OPTIONS) as channel:
            try:
                await channel.unary_unary(_OPTIONS_METHOD, bytes, bytes)(b"", timeout=timeout)
            except grpc.aio.AioRpcError as error:
                raise KubeletError(f"{self.path}: the own socket does not answer: {error.code().name}") from error

    def withdraw(self) -> None:
        """Removes the socket file, so that whoever is affected by the end of the streams can see why they end."""
        with contextlib.suppress(OSError):
            self.path.unlink()

    async def close(self, grace: float) -> None:
        """Ends the server; calls that are under way have `grace` seconds to end."""
        await self._server.stop(grace)
