"""Which pod has which devices, kept in a checkpoint file over restarts."""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from tests.fake_kubelet.model import CHECKPOINT_NAME, UNKNOWN, Admitted, Grant, Pod, ResourceView

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """Devices of one resource that one container holds, with their NUMA nodes and the stored answer."""

    pod: Key
    container: str
    resource: str
    nodes: Mapping[str, tuple[int, ...]]
    answer: bytes

    @property
    def ids(self) -> tuple[str, ...]:
        """Device ids, in the order in which Allocate got them."""
        return tuple(self.nodes)


class Books:
    """Pods and entries; every change is on disk before the call returns."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / CHECKPOINT_NAME
        self.pods: dict[Key, Pod] = {}
        self.entries: list[Entry] = []
        self.registered: dict[str, tuple[str, ...]] = {}
        if self._file.exists():
            self._load(json.loads(self._file.read_text()))

    def _load(self, kept: dict[str, Any]) -> None:
        for pod in kept["pods"]:
            known = Pod(**pod)
            self.pods[known.key] = known
        for item in kept["entries"]:
            self.entries.append(
                Entry(
                    pod=(item["namespace"], item["pod"]),
                    container=item["container"],
                    resource=item["resource"],
                    nodes={id_: tuple(nodes) for id_, nodes in item["devices"].items()},
                    answer=base64.b64decode(item["answer"]),
                )
            )
        self.registered = {name: tuple(ids) for name, ids in kept["registered"].items()}

    def save(self) -> None:
        """Writes the checkpoint, whole or not at all."""
        kept = {
            "pods": [
                {
                    "name": pod.name,
                    "namespace": pod.namespace,
                    "containers": _plain(pod.containers),
                    "init_containers": _plain(pod.init_containers),
                }
                for pod in self.pods.values()
            ],
            "entries": [
                {
                    "namespace": entry.pod[0],
                    "pod": entry.pod[1],
                    "container": entry.container,
                    "resource": entry.resource,
                    "devices": entry.nodes,
                    "answer": base64.b64encode(entry.answer).decode(),
                }
                for entry in self.entries
            ],
            "registered": self.registered,
        }
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(kept, indent=1))
        fresh.replace(self._file)

    def in_use(self, resource: str) -> frozenset[str]:
        """Ids of a resource that some pod holds."""
        return frozenset(id_ for e in self.entries if e.resource == resource for id_ in e.ids)

    def of(self, pod: Key, container: str | None = None) -> list[Entry]:
        """Entries of a pod, or of one of its containers."""
        return [e for e in self.entries if e.pod == pod and container in {None, e.container}]

    def admitted(self, pod: Pod) -> Admitted:
        """A pod with what its containers hold."""
        names = (*pod.init_containers, *pod.containers)
        return Admitted(pod, {name: merge(self.of(pod.key, name)) for name in names})

    def health(self, pod: Key, views: Mapping[str, ResourceView]) -> dict[str, str]:
        """Health of what a pod holds, by device id."""
        found = {}
        for entry in self.of(pod):
            listed = views[entry.resource].devices if entry.resource in views else {}
            found.update({id_: listed[id_].health if id_ in listed else UNKNOWN for id_ in entry.ids})
        return found

    def drop(self, pod: Key) -> None:
        """Forgets a pod and frees its devices."""
        self.pods.pop(pod, None)
        self.entries = [entry for entry in self.entries if entry.pod != pod]


def merge(entries: Iterable[Entry]) -> Grant:
    """What a container gets from the answers for its resources: where two differ, the earlier one wins."""
    ids: dict[str, tuple[str, ...]] = {}
    words: dict[tuple[str, str], str] = {}
    mounts: dict[str, wire.Mount] = {}
    devices: dict[str, wire.DeviceSpec] = {}
    cdi: dict[str, None] = {}
    conflicts: list[str] = []
    for entry in entries:
        ids[entry.resource] = entry.ids
        answer = wire.ContainerAllocateResponse.FromString(entry.answer)
        for kind, pairs in (("env", answer.envs), ("annotation", answer.annotations)):
            for key, value in pairs.items():
                if words.setdefault((kind, key), value) != value:
                    conflicts.append(f"{kind} {key}: {words[kind, key]!r} wins over {value!r}")
        for mount in answer.mounts:
            mounts.setdefault(mount.container_path, mount)
        for spec in answer.devices:
            devices.setdefault(spec.container_path, spec)
        cdi.update(dict.fromkeys(item.name for item in answer.cdi_devices))
    return Grant(
        ids=ids,
        envs={key: value for (kind, key), value in words.items() if kind == "env"},
        mounts=tuple(mounts.values()),
        devices=tuple(devices.values()),
        annotations={key: value for (kind, key), value in words.items() if kind == "annotation"},
        cdi=tuple(cdi),
        conflicts=tuple(conflicts),
    )


def _plain(containers: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    return {name: dict(wanted) for name, wanted in containers.items()}
