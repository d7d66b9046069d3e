"""The port: accepts connections on a thread of its own and answers each on another, at most so many at once.

Nothing here waits for the daemon save the two probes, and they not for long. Each connection carries one request,
bounded in size and in total time, and who is slow to send it keeps nobody out. The server of the Prometheus client
library, which is that of the standard library, bounds neither, takes any number of threads, and serves metrics alone.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from contextlib import suppress
from http import HTTPStatus

from deviceplugin.config.document import Metrics
from deviceplugin.web import guard
from deviceplugin.web.address import listen, parse
from deviceplugin.web.guard import Site
from deviceplugin.web.request import Answer, MalformedError, Request, finish, receive, send
from deviceplugin.web.slots import Slots

log = logging.getLogger(__name__)

CONNECTIONS = 16
PATIENCE = 10.0
"""Seconds from accepting a connection to closing it."""
GRACE = 0.1
"""Seconds a connection may take for its request while others want its place: enough for a handshake from far away."""
RETRY = 2.0
"""Seconds between two attempts to get the port: in a rolling update the leaver may still have it."""


class Server:
    """Serves a site on the address of the settings, from its own threads."""

    def __init__(self, settings: Metrics, site: Site, patience: float = PATIENCE, retry: float = RETRY) -> None:
        """Checks the settings; nothing is opened yet.

        Args:
            settings: Address, TLS and password file.
            site: Answers requests.
            patience: Seconds one connection may last.
            retry: Seconds between two attempts to get the port.

        Raises:
            ConfigError: The address is none.
        """
        parse(settings.address)
        self._settings = settings
        self._tls = guard.tls(settings)
        self._site = guard.Guard(site, settings.basic_auth_file)
        self._patience = patience
        self._retry = retry
        self._slots = Slots(CONNECTIONS, GRACE)
        self._stopping = threading.Event()
        self._socket: socket.socket | None = None
        self._complained = False
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)

    @property
    def port(self) -> int:
        """The port listened on, 0 while there is none."""
        listening = self._socket
        return int(listening.getsockname()[1]) if listening else 0

    def start(self) -> None:
        """Listens; where the port or a file cannot be had, says so once and goes on trying."""
        self._open()
        self._thread.start()

    def stop(self) -> None:
        """Stops listening; answers that are being sent are not waited for."""
        self._stopping.set()
        if self._socket is not None:
            # A shutdown wakes the thread that accepts; closing alone would leave it there.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()

    def _open(self) -> bool:
        try:
            if self._tls is not None:
                self._tls.get()
            self._socket = listen(self._settings.address)
        except (OSError, ssl.SSLError) as error:
            if self._socket is None and not self._stopping.is_set():
                self._complain(error)
            return False
        self._announce()
        return True

    def _announce(self) -> None:
        self._complained = False
        log.info("metrics and status page", extra={"address": self._settings.address, "port": self.port})

    def _complain(self, error: OSError) -> None:
        level = logging.DEBUG if self._complained else logging.WARNING
        self._complained = True
        log.log(
            level,
            "no metrics and no status page: %s; free the address or set --metrics-address, "
            "and check the files named by metrics.tls*. Trying again",
            error,
            extra={"address": self._settings.address},
        )

    def _run(self) -> None:
        self._site.check()
        while self._socket is None:
            if self._stopping.wait(self._retry):
                return
            self._open()
        while not self._stopping.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                # Out of file descriptors, or stopping: either way there is no hurry.
                self._stopping.wait(0.1)
                continue
            # A client that has left, or certificates that cannot be used now, end this connection only.
            with suppress(OSError, ValueError):
                self._admit(self._secure(connection))

    def _secure(self, connection: socket.socket) -> socket.socket:
        """The connection as it will be talked over; the handshake is left to its own thread."""
        if self._tls is None:
            return connection
        with connection:
            try:
                context = self._tls.get()
            except OSError as error:
                self._complain(error)
                raise
            if self._complained:
                self._announce()
            return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def _admit(self, connection: socket.socket) -> None:
        self._slots.seat(connection)
        try:
            threading.Thread(target=self._serve, args=(connection,), name="web-request", daemon=True).start()
        except RuntimeError:
            # No thread is to be had now: this client goes away with nothing, the port stays.
            self._slots.leave(connection)
            connection.close()

    def _serve(self, connection: socket.socket) -> None:
        deadline = time.monotonic() + self._patience
        # A client that leaves, stalls or speaks no TLS is no news.
        with suppress(OSError), connection:
            try:
                self._answer(connection, deadline)
            finally:
                self._slots.leave(connection)

    def _answer(self, connection: socket.socket, deadline: float) -> None:
        connection.settimeout(self._patience)
        if isinstance(connection, ssl.SSLSocket):
            connection.do_handshake()
        heard = self._hear(connection, deadline)
        if heard is None or not self._slots.keep(connection):
            return
        if isinstance(heard, Request):
            send(connection, self._ask(heard), deadline, body=heard.method != "HEAD")
        else:
            send(connection, Answer(heard.status, parts=(f"{heard}\n".encode(),)), deadline)
        finish(connection, deadline)

    @staticmethod
    def _hear(connection: socket.socket, deadline: float) -> Request | MalformedError | None:
        try:
            return receive(connection, deadline)
        except MalformedError as error:
            return error

    def _ask(self, request: Request) -> Answer:
        try:
            return self._site(request)
        except Exception:
            log.exception("a request could not be answered", extra={"path": request.path})
            return Answer(HTTPStatus.INTERNAL_SERVER_ERROR, parts=(b"see the plugin's log\n",))
