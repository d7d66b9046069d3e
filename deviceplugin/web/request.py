"""One HTTP request read and one answer sent, both bounded in size and in time."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from types import MappingProxyType

from msgspec import Struct, field

HEAD_LIMIT = 16 * 1024
DRAIN_LIMIT = 64 * 1024
_END = b"\r\n\r\n"
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Request(Struct, frozen=True):
    """A request without its body; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)

    @property
    def takes_gzip(self) -> bool:
        """Whether the client can unpack gzip."""
        for offer in self.headers.get("accept-encoding", "").lower().split(","):
            coding, _, quality = offer.partition(";")
            if coding.strip() in {"gzip", "*"}:
                return quality.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
        return False


class Answer(Struct, frozen=True):
    """Status, headers and the pieces of a body."""

    status: HTTPStatus
    kind: str = "text/plain; charset=utf-8"
    parts: tuple[bytes, ...] = ()
    headers: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


class MalformedError(ValueError):
    """What came is no HTTP request, or too large."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


def receive(connection: socket.socket, deadline: float) -> Request | None:
    """Reads the head of one request; None when the client left or said nothing.

    Raises:
        MalformedError: It is no request that can be answered.
        OSError: The deadline (of time.monotonic) passed, or the connection broke.
    """
    head = b""
    while _END not in head:
        if len(head) > HEAD_LIMIT:
            raise MalformedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        connection.settimeout(_left(deadline))
        piece = connection.recv(4096)
        if not piece:
            return None
        head += piece
    return parse(head[: head.index(_END)])


def parse(head: bytes) -> Request:
    """A request from its lines.

    Raises:
        MalformedError: It is none.
    """
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):  # noqa: PLR2004
        raise MalformedError(HTTPStatus.BAD_REQUEST)
    pairs = (line.partition(":") for line in rest)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Request(words[0], words[1].partition("?")[0], headers)


def send(connection: socket.socket, answer: Answer, deadline: float, *, body: bool = True) -> None:
    """Sends an answer and says that no more comes.

    Raises:
        OSError: The deadline passed, or the client left.
    """
    headers = {
        "Content-Type": answer.kind,
        "Content-Length": str(sum(map(len, answer.parts))),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **answer.headers,
    }
    lines = [f"HTTP/1.1 {answer.status.value} {answer.status.phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    for part in ("\r\n".join(lines).encode("latin-1") + _END, *(answer.parts if body else ())):
        connection.settimeout(_left(deadline))
        connection.sendall(part)


def finish(connection: socket.socket, deadline: float) -> None:
    """Closes gently: what the client still sends is read, since closing over it would take the answer away."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        read = 0
        while read < DRAIN_LIMIT:
            connection.settimeout(min(1.0, _left(deadline)))
            piece = connection.recv(4096)
            if not piece:
                break
            read += len(piece)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the request took too long")
    return left
