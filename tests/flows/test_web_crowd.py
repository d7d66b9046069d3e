"""The port when more connections than it serves are held open by clients that send no whole request."""

import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from deviceplugin.config.document import Metrics
from deviceplugin.web.server import CONNECTIONS, Server
from deviceplugin.web.view import Finding
from tests.flows.test_web_server import ask, certificate, fetch, requests, serving
from tests.waiting import wait_until


class Crowd:
    """Three times as many connections as are served, none with a whole request, each made anew when it is closed."""

    def __init__(self, server: Server, words: bytes) -> None:
        self.renewed = 0
        self._place = ("127.0.0.1", server.port)
        self._words = words
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hold, name="crowd")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def waits(self) -> None:
        """Waits until all have been there, and some again."""
        target = self.renewed + CONNECTIONS
        wait_until(lambda: self.renewed >= target, what="clients sent away")

    def _hold(self) -> None:
        with selectors.DefaultSelector() as sockets:
            for _ in range(3 * CONNECTIONS):
                self._come(sockets)
            while not self._over.is_set():
                for key, _ in sockets.select(0.05):
                    sockets.unregister(key.fileobj)
                    key.data.close()
                    self._come(sockets)
                    self.renewed += 1
            for key in list(sockets.get_map().values()):
                key.data.close()

    def _come(self, sockets: selectors.BaseSelector) -> None:
        client = socket.create_connection(self._place, timeout=10)
        with suppress(OSError):
            client.sendall(self._words)
        sockets.register(client, selectors.EVENT_READ, client)


def seconds(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


@pytest.mark.parametrize("words", [b"", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"], ids=["silent", "half a request"])
def test_clients_without_a_whole_request_keep_nobody_out(words: bytes) -> None:
    with serving(patience=60) as server, Crowd(server, words) as crowd:
        for path in ("/metrics", "/healthz", "/metrics"):
            crowd.waits()
            assert seconds(lambda: ask(server, path)) < 2  # noqa: B023 - called at once
            assert ask(server, path)[0] == 200
    wait_until(lambda: requests() == 0, what="nobody at work")


@pytest.mark.parametrize("words", [b"", b"\x16\x03\x01\x02\x00\x01\x00"], ids=["silent", "half a hello"])
def test_clients_that_stall_in_the_handshake_keep_nobody_out(tmp_path: Path, words: bytes) -> None:
    cert, key = certificate(tmp_path, "server")
    context = ssl.create_default_context(cafile=cert)
    settings = Metrics(address="127.0.0.1:0", tls_cert=cert, tls_key=key)
    with serving(settings, patience=60) as server, Crowd(server, words) as crowd:
        for path in ("/metrics", "/healthz", "/metrics"):
            crowd.waits()
            assert seconds(lambda: fetch(server, context, path)) < 2  # noqa: B023 - called at once


def test_a_crowd_cuts_nobody_who_is_being_answered() -> None:
    asked, go = threading.Semaphore(0), threading.Event()

    def slow() -> Finding:
        asked.release()
        go.wait(30)
        return Finding()

    answers: list[tuple[int, bytes]] = []
    with serving(live=slow, patience=60) as server:
        clients = [
            threading.Thread(target=lambda: answers.append(ask(server, "/healthz")[::2]))
            for _ in range(CONNECTIONS // 2)
        ]
        for client in clients:
            client.start()
        for _ in clients:
            assert asked.acquire(timeout=10)
        with Crowd(server, b"") as crowd:
            crowd.waits()
            assert seconds(lambda: ask(server, "/readyz")) < 2
            wait_until(
                lambda: requests() <= CONNECTIONS, what="no more threads than allowed, save some that are ending"
            )
            assert answers == []
            go.set()
            for client in clients:
                client.join()
    assert answers == [(200, b"ok\n")] * len(clients)
