"""The door to the cluster: opened when the configuration asks for something of it, closed when it no longer does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from deviceplugin.config.document import Config, LabelSink
from deviceplugin.daemon.labelling import labels_of
from deviceplugin.model.errors import ClusterError, KubeletError
from deviceplugin.model.health import Transition
from deviceplugin.rules.label import without_timestamp
from deviceplugin.rules.label.sink import sink

if TYPE_CHECKING:
    from deviceplugin.cluster.api import Api
    from deviceplugin.cluster.events import EventReporter
    from deviceplugin.cluster.keep import Keeper
    from deviceplugin.cluster.standing import Standing
    from deviceplugin.daemon.supervisor import Daemon

log = logging.getLogger(__name__)

LIBRARY = "lightkube"
RETRY = 60.0
"""Seconds until a door that could not be opened is tried again."""
CONDITION_RESYNC = 300.0
"""Seconds between two heartbeats of the node condition."""
_EARLY = 100


class Wanted(Struct, frozen=True):
    """What of the door is switched on."""

    node: str = ""
    config_label: bool = False
    labels: LabelSink = LabelSink.OFF
    events: bool = False
    condition: bool = False

    @classmethod
    def of(cls, config: Config) -> Wanted:
        """Reads it from the configuration."""
        cluster, labels = config.cluster, sink(config)
        return cls(
            cluster.node_name,
            cluster.config_label,
            labels if labels in {LabelSink.NODE, LabelSink.NODE_FEATURE} else LabelSink.OFF,
            cluster.events,
            cluster.condition,
        )

    @property
    def anything(self) -> bool:
        """Whether the door is needed at all."""
        return self.config_label or self.events or self.condition or self.labels is not LabelSink.OFF


class ClusterDoor:
    """Holds the tasks of the door."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._reporter: EventReporter | None = None
        self._keepers: list[Keeper[Mapping[str, str]] | Keeper[Standing]] = []
        self._early: deque[Transition] = deque(maxlen=_EARLY)
        self._said: set[str] = set()

    def turned(self, transition: Transition) -> None:
        """Takes in a change of health."""
        if self._reporter is not None:
            self._reporter.tell(transition)
        elif self._daemon.config.cluster.events:
            self._early.append(transition)

    async def run(self) -> None:
        """Until cancelled: opens, closes and opens anew as the configuration says."""
        wanted, task = Wanted(), None
        try:
            async for _ in self._daemon.board.follow():
                now = Wanted.of(self._daemon.config)
                if now != wanted:
                    await _end(task)
                    wanted, task = now, asyncio.create_task(self._open(now)) if now.anything else None
                for keeper in self._keepers:
                    keeper.changed()
        finally:
            await _end(task)

    async def _open(self, wanted: Wanted) -> None:
        while wanted.node:
            try:
                await self._serve(wanted)
            except Exception:
                # Whatever the door trips over, the plugin's work goes on.
                log.exception("the door to the cluster has a fault of its own, it is opened anew; please report this")
                self._daemon.ledger.count("cluster_requests", "door", "fault")
            finally:
                self._reporter, self._keepers = None, []
            await asyncio.sleep(RETRY)
        self._say(
            "the door to the cluster stays closed: this node's name is not known; set NODE_NAME from spec.nodeName"
        )

    async def _serve(self, wanted: Wanted) -> None:
        if find_spec(LIBRARY) is None:
            self._say(
                "the door to the cluster stays closed: it is not installed; install gpu-device-plugin[cluster], or "
                "switch off what needs it (cluster.*, labels.publish)"
            )
            return
        try:
            api = await asyncio.to_thread(self._connect, wanted.node)
        except ClusterError as error:
            self._daemon.ledger.count("cluster_requests", "connect", error.trouble)
            self._say(f"the door to the cluster stays closed for now: {error}")
            return
        async with api, asyncio.TaskGroup() as group:
            for task in self._tasks(api, wanted):
                group.create_task(task)

    def _connect(self, node: str) -> Api:
        from deviceplugin.cluster.api import Api

        return Api(node, self._daemon.ledger)

    def _tasks(self, api: Api, wanted: Wanted) -> list[Coroutine[None, None, None]]:
        from deviceplugin.cluster.events import EventReporter
        from deviceplugin.cluster.keep import Keeper
        from deviceplugin.cluster.labels import way
        from deviceplugin.cluster.pauses import Pauses
        from deviceplugin.cluster.selection import LabelWatch
        from deviceplugin.cluster.standing import standing, write

        daemon = self._daemon
        tasks: list[Coroutine[None, None, None]] = []
        keepers: list[Keeper[Mapping[str, str]] | Keeper[Standing]] = []
        if wanted.config_label:
            pauses = Pauses("choosing the configuration by node label")
            tasks.append(LabelWatch(api, daemon.reloading.choose, pauses).run())
        if wanted.labels is not LabelSink.OFF:
            publisher = way(api, feature=wanted.labels is LabelSink.NODE_FEATURE)
            pauses = Pauses("publishing node labels")
            keepers.append(Keeper(self._labels, publisher.publish, pauses, mark=without_timestamp))
        if wanted.condition:

            async def put(now: Standing) -> None:
                await write(api, now, time.time())

            pauses = Pauses("writing the node condition")
            keepers.append(Keeper(lambda: standing(daemon.board.current), put, pauses, resync=CONDITION_RESYNC))
        if wanted.events:
            self._reporter = EventReporter(api, self._holders, daemon.ledger, Pauses("telling events"))
            while self._early:
                self._reporter.tell(self._early.popleft())
            tasks.append(self._reporter.run())
        self._keepers = keepers
        return tasks + [keeper.run() for keeper in keepers]

    def _labels(self) -> Mapping[str, str] | None:
        daemon = self._daemon
        return labels_of(daemon.board.current, daemon.config, daemon.world.host_root)

    async def _holders(self, uuid: str) -> Sequence[tuple[str, str]]:
        """Who holds a device, asked of the kubelet at that moment; nobody where it does not answer."""
        from deviceplugin.kubelet.podresources import PodResources
        from deviceplugin.rules.attribute import attribute

        path = self._daemon.config.kubelet.pod_resources
        if not path:
            return ()
        try:
            async with PodResources(Path(path)) as client:
                holdings = await client.holdings()
        except KubeletError:
            return ()
        attribution = attribute(self._daemon.board.current.node, holdings)
        holders = attribution.cards.get(uuid, ()) or attribution.instances.get(uuid, ())
        return [(holder.namespace, holder.pod) for holder in holders]

    def _say(self, sentence: str) -> None:
        if sentence not in self._said:
            log.warning("%s", sentence)
        self._said.add(sentence)


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
