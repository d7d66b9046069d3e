"""Who may look: TLS, client certificates and passwords. Files are read again when they change.

TLS is the standard library's context, set up as the Prometheus client library does it for its own server.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import ssl
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar

from deviceplugin.config.document import Metrics
from deviceplugin.web.request import Answer, Request

log = logging.getLogger(__name__)

Value = TypeVar("Value")
Site = Callable[[Request], Answer]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Probes send no password."""

_CHALLENGE = MappingProxyType({"WWW-Authenticate": 'Basic realm="gpu-device-plugin", charset="UTF-8"'})
_CLOSED = Answer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    parts=(
        b"the password file cannot be read, so nobody is let in; its operator finds the reason in the plugin's log\n",
    ),
)


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
            ValueError: What is in it is of no use.
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


class Passwords:
    """The pairs of the password file; that they cannot be had is said when it begins, changes and ends."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = Fresh((path,), lambda: _pairs(Path(path)))
        self._trouble = ""
        # Requests come on many threads, and only one of them is to tell of a change.
        self._lock = threading.Lock()

    def get(self) -> tuple[bytes, ...]:
        """The pairs as the file has them now; none while it cannot be used."""
        with self._lock:
            try:
                pairs, trouble = self._file.get(), ""
            except (OSError, ValueError) as error:
                pairs, trouble = (), getattr(error, "strerror", None) or str(error)
            if trouble != self._trouble:
                self._trouble = trouble
                self._tell()
            return pairs

    def _tell(self) -> None:
        if not self._trouble:
            log.info("the password file can be read again", extra={"path": self._path})
            return
        log.warning(
            "metrics and status page are shown to nobody: the password file %s cannot be used: %s; put lines of "
            "user:password there that the plugin can read, or take metrics.basicAuthFile away. "
            "It is looked at again at each request",
            self._path,
            self._trouble,
        )


class Guard:
    """The site behind HTTP basic authentication; without a password file the site itself."""

    def __init__(self, site: Site, password_file: str) -> None:
        self._site = site
        self._passwords = Passwords(password_file) if password_file else None

    def check(self) -> None:
        """Says now what the first request would find out."""
        if self._passwords is not None:
            self._passwords.get()

    def __call__(self, request: Request) -> Answer:
        """The site's answer to those who may have it."""
        if self._passwords is None or request.path in OPEN_PATHS:
            return self._site(request)
        pairs = self._passwords.get()
        if not pairs:
            return _CLOSED
        if _known(request.headers.get("authorization", ""), pairs):
            return self._site(request)
        return Answer(HTTPStatus.UNAUTHORIZED, parts=(b"user and password, please\n",), headers=_CHALLENGE)


def _pairs(path: Path) -> tuple[bytes, ...]:
    """The lines that name both a user and a password.

    Raises:
        OSError: The file cannot be read.
        ValueError: There is no such line.
    """
    if not path.is_file():
        raise ValueError("it is no regular file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        # Its own words would quote the file.
        raise ValueError("it is no UTF-8 text") from None
    lines = (line.strip() for line in text.splitlines())
    pairs = tuple(line.encode() for line in lines if all(line.partition(":")) and not line.startswith("#"))
    if not pairs:
        raise ValueError("no line of it is user:password")
    return pairs


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
