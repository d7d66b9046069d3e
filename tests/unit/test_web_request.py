"""Requests and addresses, as far as no server is needed."""

from http import HTTPStatus

import pytest

from deviceplugin.model.errors import ConfigError
from deviceplugin.web.address import listen, parse
from deviceplugin.web.request import MalformedError, Request
from deviceplugin.web.request import parse as parse_request


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (":9400", ("", 9400)),
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:9400", ("::1", 9400)),
        ("node-1.example:9400", ("node-1.example", 9400)),
    ],
)
def test_an_address_is_host_and_port(text: str, place: tuple[str, int]) -> None:
    assert parse(text) == place


@pytest.mark.parametrize("text", ["9400", "", "::1:9400", "host:", "host:70000", "[::1]"])
def test_what_is_no_address_says_what_one_looks_like(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write :9400, 127\.0\.0\.1:9400 or \[::1\]:9400"):
        parse(text)


@pytest.mark.parametrize(("address", "name"), [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), (":0", "::")])
def test_it_listens_where_it_is_told(address: str, name: str) -> None:
    with listen(address) as listening:
        assert listening.getsockname()[0] == name


def test_the_head_of_a_request_is_understood() -> None:
    request = parse_request(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br, gzip")
    assert request == Request("GET", "/metrics", {"host": "a", "accept-encoding": "br, gzip"})


@pytest.mark.parametrize("head", [b"", b"GET", b"GET /", b"GET / FTP/1.0", b"GET metrics HTTP/1.1", b"\x16\x03\x01"])
def test_what_is_no_request_is_refused(head: bytes) -> None:
    with pytest.raises(MalformedError) as caught:
        parse_request(head)
    assert caught.value.status is HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("offer", "taken"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("", False), ("br", False), ("gzip;q=0", False)],
)
def test_gzip_is_sent_to_those_who_take_it(offer: str, taken: object) -> None:
    assert Request("GET", "/", {"accept-encoding": offer}).takes_gzip is taken
