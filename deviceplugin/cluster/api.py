"""The few requests that are made to the Kubernetes API, through lightkube; no other module knows that library."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Self, cast

from httpx2 import HTTPError, HTTPStatusError, Request, Timeout, TimeoutException
from lightkube import ApiError, AsyncClient
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.core_v1 import Event, Node, Pod
from lightkube.types import PatchType
from msgspec import Struct, convert

from deviceplugin.cluster.pauses import Pace
from deviceplugin.ledger import Ledger
from deviceplugin.model.errors import ClusterError, Trouble

DEADLINE = 10.0
"""Seconds for one request."""
WATCH_PERIOD = 300
"""Seconds after which the server ends a watch; the node is read anew then."""
_GRACE = 15.0

_BY_CODE: Mapping[int, Trouble] = {
    401: Trouble.FORBIDDEN,
    403: Trouble.FORBIDDEN,
    404: Trouble.MISSING,
    409: Trouble.CONFLICT,
    410: Trouble.GONE,
    429: Trouble.BUSY,
}
_SERVER_ERROR = 500

NodeFeature = create_namespaced_resource("nfd.k8s-sigs.io", "v1alpha1", "NodeFeature", "nodefeatures")


class NodeView(Struct, frozen=True):
    """What is read of a Node object."""

    version: str
    labels: Mapping[str, str]
    conditions: Mapping[str, Mapping[str, Any]]
    """By type."""


class Api:
    """One node's requests; an asynchronous context manager. Make it off the loop, since it reads credentials.

    The pod's service account is used, or the file that the variable KUBECONFIG names where there is none.

    Args:
        node: This node's name.
        ledger: Counts `cluster_requests` by request and result.
        deadline: Seconds for one request.

    Raises:
        ClusterError: There are no credentials.
    """

    def __init__(self, node: str, ledger: Ledger, deadline: float = DEADLINE) -> None:
        # httpx tells each request at info level.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        self.node = node
        self._ledger = ledger
        self._deadline = deadline
        try:
            self._client = AsyncClient(timeout=Timeout(deadline))
        except Exception as error:
            raise ClusterError(f"no credentials for the Kubernetes API: {error}", Trouble.ABSENT) from error
        self._pace = Pace()
        # The client begins a watch that ended anew at once, however short it was, and offers no other place to wait.
        self._client._client._client.event_hooks = {"request": [self._before]}  # noqa: SLF001

    @property
    def namespace(self) -> str:
        """The namespace of this pod."""
        return str(self._client.namespace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def read_node(self) -> NodeView:
        """The Node object now."""
        async with self._request("get node"):
            return _view(await self._client.get(Node, self.node))

    async def watch_node(self, version: str) -> AsyncIterator[NodeView]:
        """Each change of the Node object since that version, until it should be read anew.

        Raises:
            ClusterError: The watch broke; GONE: the version is too old.
        """
        watch = self._client.watch(
            Node,
            fields={"metadata.name": self.node},
            server_timeout=WATCH_PERIOD,
            resource_version=version,
        )
        # The client would wait without end on a connection that died silently, so a watch is not trusted for longer.
        end = asyncio.get_running_loop().time() + WATCH_PERIOD + _GRACE
        async with aclosing(cast(AsyncGenerator[tuple[str, Node]], watch)) as changes:
            while True:
                try:
                    async with asyncio.timeout_at(end):
                        kind, node = await anext(changes)
                except TimeoutError:
                    return
                except Exception as error:
                    raise self._failed("watch node", error) from error
                if kind in {"ADDED", "MODIFIED"}:
                    yield _view(node)

    async def apply_node(self, metadata: Mapping[str, Any], manager: str) -> None:
        """Server-side apply of labels or annotations: takes away what this manager set before and is not here now.

        Raises:
            ClusterError: CONFLICT where another manager holds a field with another value; `held` says which.
        """
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node, **metadata}}
        async with self._request("patch node"):
            await self._client.patch(Node, self.node, body, patch_type=PatchType.APPLY, field_manager=manager)

    async def patch_condition(self, condition: Mapping[str, Any], manager: str) -> None:
        """Sets one condition in the node's status and leaves the others alone."""
        body = {"status": {"conditions": [dict(condition)]}}
        async with self._request("patch node status"):
            await self._client.patch(Node.Status, self.node, body, field_manager=manager)

    async def apply_feature(self, name: str, spec: Mapping[str, Any], manager: str) -> None:
        """Server-side apply of this node's NodeFeature object in the pod's own namespace; it is ours whole."""
        body = {
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeature",
            "metadata": {"name": name, "labels": {"nfd.node.kubernetes.io/node-name": self.node}},
            "spec": spec,
        }
        async with self._request("patch nodefeature"):
            await self._client.patch(
                NodeFeature, name, body, patch_type=PatchType.APPLY, field_manager=manager, force=True
            )

    async def pod_uid(self, namespace: str, name: str) -> str:
        """UID of a pod."""
        async with self._request("get pod"):
            pod = await self._client.get(Pod, name, namespace=namespace)
        return (pod.metadata and pod.metadata.uid) or ""

    async def create_event(self, event: Mapping[str, Any]) -> None:
        """Creates an Event object."""
        async with self._request("create event"):
            await self._client.create(convert(event, Event))

    async def _before(self, request: Request) -> None:
        """Waits before a watch where the last ones were over at once, as behind a proxy that holds no stream."""
        if "watch" in request.url.params:
            await asyncio.sleep(self._pace.pause(asyncio.get_running_loop().time()))

    @asynccontextmanager
    async def _request(self, what: str) -> AsyncIterator[None]:
        """Turns every failure into a ClusterError, and counts."""
        try:
            async with asyncio.timeout(self._deadline):
                yield
        except Exception as error:
            raise self._failed(what, error) from error
        self._ledger.count("cluster_requests", what, "success")

    def _failed(self, what: str, error: Exception) -> ClusterError:
        failure = _failure(what, error)
        self._ledger.count("cluster_requests", what, failure.trouble)
        return failure


def _view(node: Any) -> NodeView:
    metadata, status = node.metadata, node.status
    conditions = (status and status.conditions) or ()
    return NodeView(
        version=metadata.resourceVersion or "",
        labels=dict(metadata.labels or {}),
        conditions={one.type: one.to_dict() for one in conditions},
    )


def _failure(what: str, error: Exception) -> ClusterError:
    if isinstance(error, TimeoutError | TimeoutException):
        return ClusterError(f"{what}: the Kubernetes API does not answer in time", Trouble.SLOW)
    if isinstance(error, ApiError):
        status = error.status
        code = status.code or 0
        held = {cause.field or "": cause.message or "" for cause in (status.details and status.details.causes) or ()}
        return ClusterError(f"{what}: {status.message or status.reason or code}", _by_code(code), held)
    if isinstance(error, HTTPStatusError):
        code = error.response.status_code
        return ClusterError(f"{what}: the Kubernetes API answers {code}", _by_code(code))
    if isinstance(error, HTTPError | OSError):
        why = str(error) or type(error).__name__
        return ClusterError(f"{what}: the Kubernetes API cannot be reached: {why}", Trouble.ABSENT)
    # What the client library itself trips over, such as an answer that is no JSON.
    return ClusterError(f"{what}: the answer makes no sense: {type(error).__name__}: {error}", Trouble.GARBAGE)


def _by_code(code: int) -> Trouble:
    return _BY_CODE.get(code, Trouble.ABSENT if code >= _SERVER_ERROR else Trouble.REFUSED)
