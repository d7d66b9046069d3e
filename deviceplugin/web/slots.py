"""Who is served at once: a connection that waits for its request makes room, one that is being answered stays."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress


class Slots:
    """So many places for connections. One thread seats them, each leaves on its own."""

    def __init__(self, number: int, grace: float) -> None:
        """All places are free.

        Args:
            number: How many connections have a place at once.
            grace: Seconds that a connection may take for its request however many others want its place.
        """
        self._free = number
        self._grace = grace
        self._silent: dict[socket.socket, float] = {}
        """Seated, no whole request yet, and since when; the longest seated is the first."""
        self._left = threading.Condition()

    def seat(self, connection: socket.socket) -> None:
        """Waits for a place; while there is none, the connection that has been silent longest is sent away."""
        with self._left:
            while not self._free:
                self._left.wait(self._clear())
            self._free -= 1
            self._silent[connection] = time.monotonic()

    def keep(self, connection: socket.socket) -> bool:
        """Whether the connection still has its place, now that its request is whole; if so nobody takes it away."""
        with self._left:
            return self._silent.pop(connection, None) is not None

    def leave(self, connection: socket.socket) -> None:
        """Gives the place back. To be called before the connection is closed: its number may be another's then."""
        with self._left:
            self._silent.pop(connection, None)
            self._free += 1
            self._left.notify()

    def _clear(self) -> float | None:
        """Sends one away, or says in how many seconds that may be done; None: now somebody has to leave."""
        oldest = next(iter(self._silent), None)
        if oldest is None:
            return None
        wait = self._silent[oldest] + self._grace - time.monotonic()
        if wait > 0:
            return wait
        del self._silent[oldest]
        # Its thread wakes and leaves. Under TLS only the bare socket is shut: the thread is still in the other layer.
        with suppress(OSError):
            socket.socket.shutdown(oldest, socket.SHUT_RDWR)
        return None
