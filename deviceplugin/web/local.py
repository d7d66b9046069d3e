"""The daemon's local socket: one JSON line in, one JSON line out, then closed.

It answers the exec probes and the `status` and `release` subcommands also where no network port is open. Only root (the
owner of the socket file) can reach it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]

REQUEST_LIMIT = 64 * 1024
PATIENCE = 5.0
"""Seconds a client may take to say what it wants."""


class LocalSocket:
    """Serves `{"ask": <name>, ...}` from a table of answers."""

    def __init__(self, path: str, answers: Mapping[str, Answer]) -> None:
        self._path = Path(path)
        self._answers = answers
        self._server: asyncio.AbstractServer | None = None
        self._inode = 0

    async def open(self) -> bool:
        """Listens; False (and one log line) where the folder cannot be used or a live process has the socket."""
        try:
            self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            if await self._taken():
                log.warning("another process answers on the control socket; it keeps it", extra={"path": self._path})
                return False
            self._path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._serve, path=self._path, limit=REQUEST_LIMIT)
            self._path.chmod(0o600)
            self._inode = self._path.stat().st_ino
        except OSError as error:
            log.warning(
                "no control socket: %s; the health, status and release subcommands will find nobody. "
                "Mount a writable folder there or set --control-socket",
                error,
                extra={"path": self._path},
            )
            return False
        return True

    async def close(self) -> None:
        """Stops listening and removes the socket file, if it is still ours."""
        if self._server is None:
            return
        self._server.close()
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    async def _taken(self) -> bool:
        with suppress(OSError):
            if stat.S_ISSOCK(self._path.stat().st_mode):
                _, writer = await asyncio.wait_for(asyncio.open_unix_connection(self._path), 1)
                writer.close()
                return True
        return False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply = await self._reply(await asyncio.wait_for(reader.readline(), PATIENCE))
            writer.write(json.dumps(reply, default=str).encode() + b"\n")
            await asyncio.wait_for(writer.drain(), PATIENCE)
        except (OSError, TimeoutError, ValueError, asyncio.CancelledError):
            # A client that says nothing, too much, or leaves: there is nobody to answer. Nor is there at the end of
            # the loop, which cancels this task; asyncio's own callback would log that as an error.
            log.debug("a client of the control socket went away", exc_info=True)
        finally:
            writer.close()

    async def _reply(self, line: bytes) -> Mapping[str, Any]:
        try:
            request = json.loads(line)
            answer = self._answers[request["ask"]]
        except (ValueError, KeyError, TypeError):
            return {"error": f"ask one of: {', '.join(self._answers)}"}
        return await answer(request)


def ask(path: str, request: Mapping[str, Any], timeout: float = 10.0) -> dict[str, Any]:
    """Asks a running daemon, blocking.

    Raises:
        OSError: Nobody listens there, or the answer did not come in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(timeout)
        client.connect(os.fspath(path))
        client.sendall(json.dumps(request).encode() + b"\n")
        with client.makefile("rb") as stream:
            line = stream.readline()
    if not line:
        raise ConnectionError("the daemon closed the connection without an answer")
    return dict(json.loads(line))
