"""The status page: one document with style, script and first data inside, so that nothing else is fetched."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_STYLE, _SCRIPT, _DATA = b"/*STYLE*/", b"/*SCRIPT*/", b"/*DATA*/"
_PIECES = ("dom.js", "node.js", "sections.js", "page.js")
"""Of the script, in this order."""


def _asset(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()


@cache
def _script() -> bytes:
    return b"\n".join((b"(() => {", *map(_asset, _PIECES), b"})();"))


def _digest(content: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}'"


@cache
def _frame() -> tuple[bytes, bytes]:
    document = _asset("page.html").replace(_STYLE, _asset("style.css")).replace(_SCRIPT, _script())
    head, _, end = document.partition(_DATA)
    return head, end


@cache
def headers() -> Mapping[str, str]:
    """Only this page's own style and script run, and only this server is asked."""
    policy = (
        "default-src 'none'",
        f"style-src {_digest(_asset('style.css'))}",
        f"script-src {_digest(_script())}",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return MappingProxyType({"Content-Security-Policy": "; ".join(policy), "Referrer-Policy": "no-referrer"})


def fill(status: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The page with the status document inside. No text in it can end the element that it is in."""
    head, end = _frame()
    return head, *(part.replace(b"<", b"\\u003c") for part in status), end


def icon() -> bytes:
    """The icon of the browser's tab."""
    return _asset("icon.svg")
