"""Who may look: TLS, client certificates and passwords. Files are read again when they change.

TLS is the standard library's context, set up as the Prometheus client library does it for its own server.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ssl
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar

from deviceplugin.config.document import Metrics
from deviceplugin.web.request import Answer, Request

Value = TypeVar("Value")
Site = Callable[[Request], Answer]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Probes send no password."""

_CHALLENGE = MappingProxyType({"WWW-Authenticate": 'Basic realm="gpu-device-plugin", charset="UTF-8"'})


class Fresh(Generic[Value]):
    """A value made from files, and made again when one of them is another."""

    def __init__(self, paths: Sequence[str], make: Callable[[], Value]) -> None:
        self._paths = [Path(path) for path in paths if path]
        self._make = make
        self._seen: list[tuple[int, int, int]] = []
        self._value: Value | None = None

    def get(self) -> Value:
        """The value of the files as they are now.

        Raises:
            OSError: A file cannot be read.
        """
        seen = [(status.st_ino, status.st_mtime_ns, status.st_size) for status in (p.stat() for p in self._paths)]
        if self._value is None or seen != self._seen:
            self._value, self._seen = self._make(), seen
        return self._value


def tls(settings: Metrics) -> Fresh[ssl.SSLContext] | None:
    """The server's side of TLS, with client certificates demanded when a CA for them is given; None without TLS."""
    certificate, key, ca = settings.tls_cert, settings.tls_key, settings.tls_client_ca
    return Fresh((certificate, key, ca), lambda: _context(certificate, key, ca)) if certificate else None


def _context(certificate: str, key: str, ca: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    if ca:
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def guarded(site: Site, password_file: str) -> Site:
    """The site behind HTTP basic authentication; without a password file the site itself."""
    if not password_file:
        return site
    known = Fresh((password_file,), lambda: _pairs(Path(password_file).read_text()))

    def ask(request: Request) -> Answer:
        if request.path in OPEN_PATHS or _known(request.headers.get("authorization", ""), known.get()):
            return site(request)
        return Answer(HTTPStatus.UNAUTHORIZED, parts=(b"user and password, please\n",), headers=_CHALLENGE)

    return ask


def _pairs(text: str) -> tuple[bytes, ...]:
    lines = (line.strip() for line in text.splitlines())
    return tuple(line.encode() for line in lines if ":" in line and not line.startswith("#"))


def _known(header: str, pairs: tuple[bytes, ...]) -> bool:
    scheme, _, word = header.partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        given = base64.b64decode(word.strip(), validate=True)
    except binascii.Error:
        return False
    # Every pair is compared, so that the time taken tells nothing.
    return sum(hmac.compare_digest(given, pair) for pair in pairs) > 0
