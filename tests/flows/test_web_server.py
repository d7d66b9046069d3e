"""The port, on real sockets: what is at which path, who may see it, and that nobody can hold it up (M2, M3)."""

import asyncio
import base64
import gzip
import http.client
import json
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Metrics
from deviceplugin.web.exhibition import Exhibition
from deviceplugin.web.server import CONNECTIONS, Server
from deviceplugin.web.site import Question, Site, across
from deviceplugin.web.view import Finding
from tests.waiting import wait_until
from tests.web_views import NOW, view_of

LOCAL = Metrics(address="127.0.0.1:0")


def yes() -> Finding:
    return Finding()


@contextmanager
def serving(
    settings: Metrics = LOCAL,
    live: Question = yes,
    ready: Question = yes,
    patience: float = 10.0,
) -> Iterator[Server]:
    exhibition = Exhibition(lambda: {"nvml-probe": 0.5}, clock=lambda: NOW)
    exhibition.update(view_of("t4x1"))
    server = Server(settings, Site(exhibition, live, ready), patience=patience, retry=0.05)
    server.start()
    try:
        wait_until(lambda: server.port, what="a port")
        yield server
    finally:
        server.stop()


def ask(server: Server, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, body


def raw(server: Server, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(data)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer


def test_a_scrape_gets_the_text() -> None:
    with serving() as server:
        status, headers, body = ask(server, "/metrics")
    assert status == 200
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b'gpu_device_plugin_devices{health="healthy",resource="nvidia.com/gpu"} 1.0\n' in body
    assert body.endswith(b'gpu_device_plugin_nvml_call_age_seconds{thread="nvml-probe"} 0.5\n')


def test_a_scrape_that_takes_gzip_gets_the_same_packed() -> None:
    with serving() as server:
        plain = ask(server, "/metrics")[2]
        _, headers, packed = ask(server, "/metrics", Accept_Encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert len(packed) < len(plain) / 5
    assert gzip.decompress(packed) == plain


def test_the_status_document_is_json_with_the_time_of_the_answer() -> None:
    with serving() as server:
        _, headers, body = ask(server, "/status")
        packed = ask(server, "/status", Accept_Encoding="gzip")[2]
    document = json.loads(body)
    assert headers["content-type"] == "application/json"
    assert (document["api"], document["now"]) == (1, NOW)
    assert json.loads(gzip.decompress(packed)) == document


def test_the_page_needs_nothing_from_elsewhere() -> None:
    with serving() as server:
        status, headers, body = ask(server, "/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert b"http://" not in body.replace(b"http://www.w3.org", b"")
    assert b"https://" not in body
    assert "default-src 'none'" in headers["content-security-policy"]


def test_text_of_others_cannot_end_the_script_that_holds_it() -> None:
    exhibition = Exhibition()
    view = view_of("t4x1")
    exhibition.update(replace(view, plugin=replace(view.plugin, hostname="</script><b>x")))
    server = Server(Metrics(address="127.0.0.1:0"), Site(exhibition, yes, yes))
    server.start()
    body = ask(server, "/")[2]
    server.stop()
    assert b"</script><b>x" not in body
    assert b"\\u003c/script>\\u003cb>x" in body or b"\\u003c/script\\u003e" in body


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_say_yes(path: str) -> None:
    with serving() as server:
        assert ask(server, path)[::2] == (200, b"ok\n")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_say_no_and_why(path: str) -> None:
    def no() -> Finding:
        return Finding(ok=False, reasons=("nvidia.com/gpu: not registered",))

    with serving(live=no, ready=no) as server:
        assert ask(server, path)[::2] == (503, b"nvidia.com/gpu: not registered\n")


def test_head_has_no_body() -> None:
    with serving() as server:
        status, headers, body = ask(server, "/metrics", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 1000


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_reading_is_allowed(method: str) -> None:
    with serving() as server:
        status, headers, _ = ask(server, "/metrics", method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_an_answer_survives_a_body_that_nobody_reads() -> None:
    with serving() as server:
        answer = raw(server, b"POST / HTTP/1.1\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60000)
    assert answer.startswith(b"HTTP/1.1 405 ")


def test_an_unknown_path_names_the_known_ones() -> None:
    with serving() as server:
        status, _, body = ask(server, "/metric")
    assert status == 404
    assert b"/metrics, /status, /, /healthz, /readyz" in body


def test_garbage_is_refused() -> None:
    with serving() as server:
        assert raw(server, b"\x16\x03\x01\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_a_head_without_end_is_refused() -> None:
    with serving() as server:
        assert raw(server, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 4000).startswith(b"HTTP/1.1 431 ")


def test_a_client_that_says_nothing_is_let_go() -> None:
    with serving(patience=0.2) as server, socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        assert client.recv(1) == b""


def test_a_client_that_trickles_is_let_go_in_time() -> None:
    with serving(patience=0.3) as server, socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        began = time.monotonic()

        def closed() -> bool:
            try:
                client.sendall(b"x")
            except OSError:
                return True
            return False

        wait_until(closed, timeout=5, what="the end of the connection", interval=0.05)
        assert time.monotonic() - began < 2


def test_no_more_threads_than_allowed_answer_at_once() -> None:
    with serving(patience=1) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3 * CONNECTIONS)]
        wait_until(lambda: requests() == CONNECTIONS, what="all of them at work")
        for client in clients:
            client.close()
        wait_until(lambda: requests() == 0, what="nobody at work")


def requests() -> int:
    return sum(thread.name == "web-request" for thread in threading.enumerate())


def test_a_port_that_is_taken_is_had_when_it_is_free(caplog: pytest.LogCaptureFixture) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    server = Server(Metrics(address=address), Site(Exhibition(), yes, yes), retry=0.02)
    server.start()
    assert server.port == 0
    wait_until(lambda: threading.active_count() > 1, what="the thread that tries again")
    taken.close()
    wait_until(lambda: server.port, what="the port")
    assert ask(server, "/healthz")[0] == 200
    server.stop()
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "--metrics-address" in warnings[0].getMessage()


def test_a_server_that_never_got_its_port_stops() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        server = Server(Metrics(address=address), Site(Exhibition(), yes, yes), retry=30)
        server.start()
        server.stop()
        wait_until(lambda: not any(thread.name == "web" for thread in threading.enumerate()), what="the thread's end")


def test_ipv6_is_served() -> None:
    with serving(Metrics(address="[::1]:0")) as server:
        answer = urllib.request.urlopen(f"http://[::1]:{server.port}/healthz", timeout=10)
        with answer:
            assert answer.read() == b"ok\n"


def test_a_fault_of_ours_is_logged_and_ends_one_request_only(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Finding:
        raise RuntimeError("oops")

    with serving(live=broken) as server:
        assert ask(server, "/healthz")[0] == 500
        assert ask(server, "/readyz")[0] == 200
    assert "a request could not be answered" in caplog.text


def test_a_question_goes_to_the_event_loop_and_a_loop_that_hangs_is_a_no() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def answer() -> Mapping[str, Any]:
        return {"ok": False, "reasons": ["nvidia.com/gpu: no stream"]}

    question = across(loop, answer, patience=0.2)
    assert question() == Finding(ok=False, reasons=("nvidia.com/gpu: no stream",))
    held = threading.Event()
    loop.call_soon_threadsafe(held.wait, 5)
    assert question().reasons == ("the plugin's event loop did not answer within 0.2 s",)
    held.set()
    # What was asked meanwhile begins and is called off; a loop that stops before that leaves it behind.
    asyncio.run_coroutine_threadsafe(answer(), loop).result(10)
    wait_until(lambda: not asyncio.all_tasks(loop), what="nothing left to do")
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def basic(pair: str) -> str:
    return "Basic " + base64.b64encode(pair.encode()).decode()


def test_with_a_password_file_only_those_who_know_one_see_anything(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text("# scrapers\nprometheus:s3cret:x\n")
    with serving(Metrics(address="127.0.0.1:0", basic_auth_file=str(passwords))) as server:
        status, headers, _ = ask(server, "/metrics")
        assert (status, headers["www-authenticate"].split()[0]) == (401, "Basic")
        for wrong in (basic("prometheus:s3cret"), basic("a:b"), "Basic !", "Bearer x", basic("# scrapers")):
            assert ask(server, "/", Authorization=wrong)[0] == 401
        assert ask(server, "/metrics", Authorization=basic("prometheus:s3cret:x"))[0] == 200
        assert ask(server, "/healthz")[0] == 200
        passwords.write_text("prometheus:new\n")
        assert ask(server, "/metrics", Authorization=basic("prometheus:s3cret:x"))[0] == 401
        assert ask(server, "/metrics", Authorization=basic("prometheus:new"))[0] == 200


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_password_file_that_cannot_be_used_lets_nobody_in_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "deviceplugin.web.guard")
    passwords = tmp_path / "passwords"
    with serving(Metrics(address="127.0.0.1:0", basic_auth_file=str(passwords))) as server:
        wait_until(lambda: warned(caplog), what="a word before the first request")
        for _ in range(3):
            for headers in ({}, {"Authorization": basic("prometheus:new")}):
                status, _, body = ask(server, "/metrics", **headers)
                assert (status, b"password file cannot be read" in body, b"/" in body) == (503, True, False)
        assert ask(server, "/healthz")[0] == 200
        assert len(warned(caplog)) == 1
        assert all(word in warned(caplog)[0] for word in (str(passwords), "No such file", "metrics.basicAuthFile"))
        passwords.write_text("prometheus:new\n")
        assert ask(server, "/metrics")[0] == 401
        assert ask(server, "/metrics", Authorization=basic("prometheus:new"))[0] == 200
        told = [record for record in caplog.records if record.name == "deviceplugin.web.guard"]
        assert [record.getMessage() for record in told if record.levelname == "INFO"] == [
            "the password file can be read again"
        ]
        passwords.unlink()
        assert ask(server, "/metrics", Authorization=basic("prometheus:new"))[0] == 503
        assert ask(server, "/metrics", Authorization=basic("prometheus:new"))[0] == 503
        assert len(warned(caplog)) == 2
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"prometheus:s\xffcret\n", "no UTF-8 text"),
        (b"", "no line of it is user:password"),
        (b"# prometheus:s3cret\nprometheus\n:\nprometheus:\n:s3cret\n", "no line of it is user:password"),
        (None, "no regular file"),
    ],
)
def test_a_password_file_without_passwords_lets_nobody_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None, why: str
) -> None:
    passwords = tmp_path / "passwords"
    if content is None:
        passwords.mkdir()
    else:
        passwords.write_bytes(content)
    with serving(Metrics(address="127.0.0.1:0", basic_auth_file=str(passwords))) as server:
        for pair in ("prometheus:s3cret", "prometheus:", ":s3cret", ":", "prometheus", ""):
            assert ask(server, "/metrics", Authorization=basic(pair))[0] == 503
        assert ask(server, "/metrics")[0] == 503
    (line,) = warned(caplog)
    assert why in line
    assert "cret" not in line
    assert not any(record.exc_info for record in caplog.records)


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def certificate(folder: Path, name: str) -> tuple[str, str]:
    """A self-signed certificate and its key."""
    paths = str(folder / f"{name}.crt"), str(folder / f"{name}.key")
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-out", paths[0], "-keyout", paths[1]),
    )
    return paths


def fetch(server: Server, context: ssl.SSLContext, path: str = "/healthz") -> bytes:
    with urllib.request.urlopen(f"https://127.0.0.1:{server.port}{path}", context=context, timeout=10) as answer:
        return bytes(answer.read())


def test_tls_and_client_certificates(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "server")
    client_cert, client_key = certificate(tmp_path, "client")
    settings = Metrics(address="127.0.0.1:0", tls_cert=cert, tls_key=key, tls_client_ca=client_cert)
    with serving(settings) as server:
        context = ssl.create_default_context(cafile=cert)
        with pytest.raises((ssl.SSLError, OSError)):
            fetch(server, context)
        context.load_cert_chain(client_cert, client_key)
        assert fetch(server, context) == b"ok\n"


def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "server")
    with serving(Metrics(address="127.0.0.1:0", tls_cert=cert, tls_key=key)) as server:
        first = ssl.get_server_certificate(("127.0.0.1", server.port), timeout=10)
        certificate(tmp_path, "server")
        assert ssl.get_server_certificate(("127.0.0.1", server.port), timeout=10) != first


def test_a_client_that_stalls_in_the_handshake_keeps_nobody_out(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "server")
    with serving(Metrics(address="127.0.0.1:0", tls_cert=cert, tls_key=key)) as server:
        stalling = socket.create_connection(("127.0.0.1", server.port))
        assert fetch(server, ssl.create_default_context(cafile=cert)) == b"ok\n"
        stalling.close()


def test_without_its_certificate_nothing_is_served_in_the_clear(tmp_path: Path) -> None:
    settings = Metrics(address="127.0.0.1:0", tls_cert=str(tmp_path / "a"), tls_key=str(tmp_path / "b"))
    server = Server(settings, Site(Exhibition(), yes, yes), retry=0.02)
    server.start()
    assert server.port == 0
    cert, key = certificate(tmp_path, "server")
    Path(key).rename(tmp_path / "b")
    Path(cert).rename(tmp_path / "a")
    wait_until(lambda: server.port, what="the port")
    assert fetch(server, ssl.create_default_context(cafile=str(tmp_path / "a"))) == b"ok\n"
    server.stop()


def test_a_certificate_that_goes_while_it_serves_is_said_once_and_its_return_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "deviceplugin.web.server")
    cert, key = certificate(tmp_path, "server")
    context = ssl.create_default_context(cafile=cert)
    with serving(Metrics(address="127.0.0.1:0", tls_cert=cert, tls_key=key)) as server:
        assert fetch(server, context) == b"ok\n"
        Path(key).rename(tmp_path / "away")
        for _ in range(3):
            with pytest.raises(OSError, match=r"EOF|reset"):
                fetch(server, context)
        (tmp_path / "away").rename(key)
        assert fetch(server, context) == b"ok\n"
    (line,) = warned(caplog)
    assert key in line
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "INFO"]


def test_a_thread_that_cannot_be_had_costs_one_connection_not_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        with monkeypatch.context() as patch:
            patch.setattr("deviceplugin.web.server.threading.Thread", no_thread)
            for _ in range(CONNECTIONS + 1):
                assert raw(server, b"") == b""
        assert ask(server, "/healthz")[0] == 200


def no_thread(**_: object) -> threading.Thread:
    raise RuntimeError("can't start new thread")
