"""Events on the node, and on the pods that hold the device, when a GPU goes bad or comes back."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from deviceplugin.cluster.api import Api
from deviceplugin.cluster.pauses import Pauses
from deviceplugin.cluster.standing import timestamp
from deviceplugin.ledger import Ledger
from deviceplugin.model.errors import ClusterError, Trouble
from deviceplugin.model.health import Transition, Verdict

COMPONENT = "gpu-device-plugin"
NODE_NAMESPACE = "default"
"""Where events about objects without a namespace are kept."""
WAITING = 100
"""Transitions that wait at most; of a flood the newest are told."""
PATIENCE = 300.0
"""Seconds after which an event is too old to be news."""
_LONGEST = 1024

_REASONS: Mapping[Verdict, tuple[str, str]] = {
    Verdict.UNHEALTHY: ("Warning", "GPUUnhealthy"),
    Verdict.RANK_LAST: ("Warning", "GPURankedLast"),
    Verdict.HEALTHY: ("Normal", "GPUHealthy"),
}
"""Verdict -> type and reason."""


class Target(Struct, frozen=True):
    """The object an event is about."""

    kind: str
    name: str
    uid: str
    namespace: str = ""


def event(transition: Transition, target: Target, node: str) -> dict[str, Any]:
    """The Event object (core/v1). An event about a node carries the node's name as UID, where kubectl looks for it."""
    kind, reason = _REASONS[transition.to]
    gpu = f"GPU {transition.gpu_index} ({transition.uuid}, {transition.pci})"
    at = timestamp(transition.at)
    namespace = target.namespace or NODE_NAMESPACE
    about = {"apiVersion": "v1", "kind": target.kind, "name": target.name, "uid": target.uid}
    return {
        "metadata": {"name": f"{target.name[:200]}.{secrets.token_hex(8)}", "namespace": namespace},
        "involvedObject": about | ({"namespace": target.namespace} if target.namespace else {}),
        "type": kind,
        "reason": reason,
        "message": f"{gpu}: {transition.reason}: {transition.detail}"[:_LONGEST],
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
    }


Holders = Callable[[str], Awaitable[Sequence[tuple[str, str]]]]
"""UUID of a device -> namespace and name of the pods that hold it."""


class EventReporter:
    """Tells transitions one after the other.

    Args:
        api: The door.
        holders: Who holds a device.
        ledger: Counts `cluster_events` by outcome.
        pauses: Between attempts.
    """

    def __init__(self, api: Api, holders: Holders, ledger: Ledger, pauses: Pauses) -> None:
        self._api = api
        self._holders = holders
        self._ledger = ledger
        self._pauses = pauses
        self._waiting: deque[Transition] = deque()
        self._more = asyncio.Event()

    def tell(self, transition: Transition) -> None:
        """Takes in a transition; one that only adds or ends one of several causes is no news."""
        if transition.before is transition.to:
            return
        if len(self._waiting) == WAITING:
            self._waiting.popleft()
            self._ledger.count("cluster_events", "dropped")
        self._waiting.append(transition)
        self._more.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                await self._report(self._waiting.popleft())

    async def _report(self, transition: Transition) -> None:
        node = self._api.node
        await self._send(transition, Target("Node", node, node))
        for namespace, name in await self._holders(transition.uuid):
            await self._send(transition, Target("Pod", name, "", namespace))

    async def _send(self, transition: Transition, target: Target) -> None:
        while True:
            try:
                uid = target.uid or await self._api.pod_uid(target.namespace, target.name)
                named = Target(target.kind, target.name, uid, target.namespace)
                await self._api.create_event(event(transition, named, self._api.node))
            except ClusterError as error:
                # A pod that is gone needs no event; what the API refuses now it refuses again.
                if error.trouble is Trouble.MISSING:
                    self._ledger.count("cluster_events", "dropped")
                    return
                await asyncio.sleep(self._pauses.failed(error))
                if error.trouble in {Trouble.REFUSED, Trouble.FORBIDDEN} or time.time() > transition.at + PATIENCE:
                    self._ledger.count("cluster_events", "dropped")
                    return
            else:
                self._pauses.worked()
                self._ledger.count("cluster_events", "sent")
                return
