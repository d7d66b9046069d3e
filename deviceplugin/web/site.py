"""What is at which path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from deviceplugin.web import page
from deviceplugin.web.exhibition import Exhibition, Parts
from deviceplugin.web.metrics import CONTENT_TYPE
from deviceplugin.web.request import Answer, Request
from deviceplugin.web.view import Finding

Question = Callable[[], Finding]

_GZIP: Mapping[str, str] = MappingProxyType({"Content-Encoding": "gzip", "Vary": "Accept-Encoding"})
_PLAIN: Mapping[str, str] = MappingProxyType({"Vary": "Accept-Encoding"})
_ALLOWED: Mapping[str, str] = MappingProxyType({"Allow": "GET, HEAD"})


def across(
    loop: asyncio.AbstractEventLoop, question: Callable[[], Awaitable[Mapping[str, Any]]], patience: float = 2.0
) -> Question:
    """A question that the event loop answers, for other threads; a loop that does not answer in time is a no."""

    async def ask() -> Mapping[str, Any]:
        return await question()

    def answer() -> Finding:
        future = asyncio.run_coroutine_threadsafe(ask(), loop)
        try:
            reply = future.result(patience)
        except FutureTimeoutError:
            future.cancel()
            return Finding(ok=False, reasons=(f"the plugin's event loop did not answer within {patience:g} s",))
        return Finding(bool(reply["ok"]), tuple(reply["reasons"]))

    return answer


class Site:
    """Answers requests from an exhibition; only the two probes ask anybody."""

    def __init__(self, exhibition: Exhibition, live: Question, ready: Question) -> None:
        self._answers: Mapping[str, Callable[[Request], Answer]] = {
            "/metrics": partial(_text, exhibition.metrics, CONTENT_TYPE),
            "/status": partial(_text, exhibition.status, "application/json"),
            "/": partial(_page, exhibition),
            "/healthz": partial(_probe, live),
            "/readyz": partial(_probe, ready),
            "/favicon.ico": _icon,
        }

    def __call__(self, request: Request) -> Answer:
        """The answer to a request."""
        if request.method not in {"GET", "HEAD"}:
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, parts=(b"only GET and HEAD\n",), headers=_ALLOWED)
        answer = self._answers.get(request.path)
        if answer is None:
            known = ", ".join(path for path in self._answers if path != "/favicon.ico")
            return Answer(HTTPStatus.NOT_FOUND, parts=(f"nothing here; try one of {known}\n".encode(),))
        return answer(request)


def _text(make: Callable[..., Parts], kind: str, request: Request) -> Answer:
    packed = request.takes_gzip
    return Answer(HTTPStatus.OK, kind, make(packed=packed), _GZIP if packed else _PLAIN)


def _page(exhibition: Exhibition, request: Request) -> Answer:
    del request
    return Answer(HTTPStatus.OK, "text/html; charset=utf-8", page.fill(exhibition.status()), page.headers())


def _icon(request: Request) -> Answer:
    del request
    return Answer(HTTPStatus.OK, "image/svg+xml", (page.icon(),))


def _probe(question: Question, request: Request) -> Answer:
    del request
    finding = question()
    text = "ok\n" if finding.ok else "".join(f"{reason}\n" for reason in finding.reasons) or "no\n"
    return Answer(HTTPStatus.OK if finding.ok else HTTPStatus.SERVICE_UNAVAILABLE, parts=(text.encode(),))
