"""The HTTP side of the pretend API server."""

import json
import re
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import parse_qs, urlsplit

from tests.fake_api.books import Books
from tests.fake_api.refusal import Refusal, bad, missing

TOKEN = "a-token-of-a-service-account"
APPLY, STRATEGIC = "application/apply-patch+yaml", "application/strategic-merge-patch+json"
PATH = re.compile(
    r"/(?:api|apis/(?P<group>[a-z0-9.-]+))/(?P<version>v[a-z0-9]+)"
    r"(?:/namespaces/(?P<namespace>[a-z0-9-]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[a-z0-9.-]+))?(?:/(?P<sub>[a-z]+))?"
)
GROUPS = {
    "nodes": (None, "v1"),
    "pods": (None, "v1"),
    "events": (None, "v1"),
    "nodefeatures": ("nfd.k8s-sigs.io", "v1alpha1"),
}


@dataclass
class Fault:
    """What happens to requests of a verb and resource instead of an answer."""

    code: int = 0
    """Answered with this code."""
    silent: bool = False
    """Not answered until the fault is lifted."""
    garbage: bool = False
    """Answered with something that is no JSON."""
    empty: bool = False
    """Answered with nothing at all, and no error."""
    times: int = -1
    """How often; -1: until it is lifted."""


@dataclass(frozen=True)
class Request:
    """One request, as it came."""

    verb: str
    resource: str
    name: str
    at: float
    query: tuple[tuple[str, str], ...] = ()


class FakeApi:
    """A server on a local port; a context manager.

    with FakeApi() as api:
        api.books.add("nodes", "worker-1")
        environment = {"KUBECONFIG": str(api.kubeconfig(tmp_path))}
    """

    def __init__(self) -> None:
        self.books = Books()
        self.requests: list[Request] = []
        self.faults: dict[tuple[str, str], Fault] = {}
        self.closing = threading.Event()
        outer = self

        class Handler(_Handler):
            api = outer

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def kubeconfig(self, folder: Path, namespace: str = "gpu-system", token: str = TOKEN) -> Path:
        """A client's configuration file for this server (JSON is YAML)."""
        path = folder / "kubeconfig"
        content = {
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "plugin", "user": {"token": token}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "plugin", "namespace": namespace}}],
            "current-context": "fake",
        }
        path.write_text(json.dumps(content))
        return path

    def fail(self, verb: str, resource: str, **how: Any) -> None:
        """Has requests fail until `mend`; `*` stands for every verb or resource."""
        self.faults[verb, resource] = Fault(**how)

    def mend(self) -> None:
        """Lifts all faults."""
        self.faults.clear()

    def count(self, verb: str, resource: str) -> int:
        """How many such requests came."""
        return sum((one.verb, one.resource) == (verb, resource) for one in list(self.requests))

    def fault(self, verb: str, resource: str) -> Fault | None:
        """The fault that holds for a request."""
        for key in ((verb, resource), (verb, "*"), ("*", resource), ("*", "*")):
            found = self.faults.get(key)
            if found is not None and found.times:
                found.times -= 1
                return found
        return None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        with self.books.changed:
            self.books.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ClassVar[FakeApi]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Says nothing."""

    def do_GET(self) -> None:
        self._serve("get")

    def do_POST(self) -> None:
        self._serve("create")

    def do_PATCH(self) -> None:
        self._serve("patch")

    def do_DELETE(self) -> None:
        self._serve("delete")

    def do_PUT(self) -> None:
        self._serve("update")

    def _serve(self, verb: str) -> None:
        split = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            self._authorise()
            where = self._where(split.path)
            if "watch" in query:
                verb = "watch"
            elif verb == "get" and not where["name"]:
                verb = "list"
            resource = where["plural"] + (f"/{where['sub']}" if where["sub"] else "")
            self.api.requests.append(
                Request(verb, resource, where["name"] or "", time.monotonic(), tuple(sorted(query.items())))
            )
            self._misbehave(verb, resource)
            self._answer(verb, where, query, body)
        except Refusal as refusal:
            self._send(refusal.code, refusal.status)
        except (BrokenPipeError, ConnectionResetError, _Hung):
            self.close_connection = True

    def _authorise(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refusal(401, "Unauthorized", "Unauthorized")

    def _where(self, path: str) -> dict[str, Any]:
        match = PATH.fullmatch(path)
        if match is None or GROUPS.get(match["plural"]) != (match["group"], match["version"]):
            raise missing(f"the server could not find the requested resource {path}")
        if (match["namespace"] is None) != (match["plural"] == "nodes"):
            raise bad(f"{match['plural']} at {path}: namespaced or not, but not so")
        return match.groupdict()

    def _misbehave(self, verb: str, resource: str) -> None:
        fault = self.api.fault(verb, resource)
        if fault is None:
            return
        if fault.silent:
            while fault in self.api.faults.values() and not self.api.closing.wait(0.02):
                pass
            raise _Hung
        if fault.empty:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            raise _Hung
        if fault.garbage:
            self._send(200, b"<html>a proxy's error page</html>")
            raise _Hung
        reasons = {403: "Forbidden", 409: "Conflict", 410: "Gone", 429: "TooManyRequests"}
        message = f'{resource} is forbidden: cannot {verb} resource "{resource}"' if fault.code == 403 else "as told"
        raise Refusal(fault.code, reasons.get(fault.code, "InternalError"), message)

    def _answer(self, verb: str, where: dict[str, Any], query: dict[str, str], body: bytes) -> None:
        plural, namespace, name = where["plural"], where["namespace"] or "", where["name"] or ""
        books = self.api.books
        if verb == "get" and not where["sub"]:
            self._send(200, books.get(plural, name, namespace))
        elif verb == "watch" and plural == "nodes":
            self._watch(query)
        elif verb == "create":
            self._send(201, books.create(plural, namespace, _json(body, self.headers, "application/json")))
        elif verb == "patch" and where["sub"] == "status" and plural == "nodes":
            self._send(200, books.merge_status(name, _json(body, self.headers, STRATEGIC)))
        elif verb == "patch" and not where["sub"]:
            if not query.get("fieldManager"):
                raise bad("PatchOptions.meta.k8s.io is invalid: fieldManager: Required value")
            applied = _json(body, self.headers, APPLY)
            force = query.get("force") == "true"
            self._send(200, books.apply((plural, namespace, name), applied, query["fieldManager"], force=force))
        else:
            raise Refusal(405, "MethodNotAllowed", f"{verb} {plural}")

    def _watch(self, query: dict[str, str]) -> None:
        match = re.fullmatch(r"metadata\.name=([a-z0-9.-]+)", query.get("fieldSelector", ""))
        if match is None:
            raise Refusal(403, "Forbidden", "nodes is forbidden: only this node may be watched")
        key = ("nodes", "", match[1])
        version = int(query.get("resourceVersion") or self.api.books.version)
        end = time.monotonic() + float(query.get("timeoutSeconds", 3600))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        books = self.api.books
        while time.monotonic() < end and not self.api.closing.is_set():
            with books.changed:
                try:
                    news = list(books.since(version, key))
                except Refusal as refusal:
                    self._chunk({"type": "ERROR", "object": refusal.status})
                    break
                if not news:
                    books.changed.wait(0.1)
            for number, kind, found in news:
                version = number
                self._chunk({"type": kind, "object": found})
            fault = self.api.fault("streams", "nodes")
            if fault is not None:
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, event: dict[str, Any]) -> None:
        line = json.dumps(event).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def _send(self, code: int, body: Any) -> None:
        raw = isinstance(body, bytes)
        content = body if raw else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/html" if raw else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is nobody's fault; anything else is told."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Hung(Exception):  # noqa: N818 - no answer was wanted
    """Nothing more is to be sent."""


def _json(body: bytes, headers: Any, media_type: str) -> dict[str, Any]:
    if headers.get("Content-Type") != media_type:
        raise Refusal(415, "UnsupportedMediaType", f"{headers.get('Content-Type')}, not {media_type}")
    try:
        found = json.loads(body)
    except ValueError as error:
        raise bad(str(error)) from error
    if not isinstance(found, dict):
        raise bad("no object")
    return found
