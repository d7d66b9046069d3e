"""The objects of a pretend cluster, with versions, managers of fields, and a history that watches read."""

import copy
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fake_api.refusal import Refusal, bad, invalid, missing

Key = tuple[str, str, str]
"""Plural, namespace (empty for nodes), name."""

NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
LABEL_NAME = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
KINDS = {"nodes": "Node", "pods": "Pod", "events": "Event", "nodefeatures": "NodeFeature"}
OWNED_MAPS = ("labels", "annotations")


class Books:
    """All objects. Every method may be called from any thread."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._objects: dict[Key, dict[str, Any]] = {}
        self._owners: dict[Key, dict[str, set[str]]] = {}
        self._history: list[tuple[int, str, Key, dict[str, Any]]] = []
        self._version = 100
        self._oldest = 0

    def add(self, plural: str, name: str, namespace: str = "", **content: Any) -> dict[str, Any]:
        """Puts an object there, as another client would."""
        key = (plural, namespace, name)
        metadata = {"name": name, "uid": f"uid-of-{name}", **content.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        found = {"apiVersion": "v1", "kind": KINDS[plural], "metadata": metadata, **content}
        with self.changed:
            return self._put(key, found, "ADDED")

    def get(self, plural: str, name: str, namespace: str = "") -> dict[str, Any]:
        """A copy of an object."""
        with self.changed:
            return copy.deepcopy(self._find((plural, namespace, name)))

    def all(self, plural: str) -> list[dict[str, Any]]:
        """Copies of all objects of a kind, oldest first."""
        with self.changed:
            return [copy.deepcopy(found) for (kind, _, _), found in self._objects.items() if kind == plural]

    def delete(self, plural: str, name: str, namespace: str = "") -> None:
        """Takes an object away."""
        with self.changed:
            key = (plural, namespace, name)
            gone = self._objects.pop(key)
            self._note("DELETED", key, gone)

    def label(self, node: str, name: str, value: str | None, manager: str = "kubectl") -> None:
        """Sets or takes away one label of a node in another manager's name."""
        with self.changed:
            key = ("nodes", "", node)
            found = copy.deepcopy(self._find(key))
            labels = found["metadata"].setdefault("labels", {})
            owned = self._owners.setdefault(key, {})
            field = f".metadata.labels.{name}"
            for fields in owned.values():
                fields.discard(field)
            if value is None:
                labels.pop(name, None)
            else:
                labels[name] = value
                owned.setdefault(manager, set()).add(field)
            self._put(key, found, "MODIFIED")

    def owners(self, plural: str, name: str, namespace: str = "") -> dict[str, set[str]]:
        """Fields by manager."""
        with self.changed:
            return copy.deepcopy(self._owners.get((plural, namespace, name), {}))

    def forget_history(self) -> None:
        """Makes every version so far too old to watch from."""
        with self.changed:
            self._oldest = self._version + 1
            self._version += 1

    def create(self, plural: str, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST."""
        name = str(body.get("metadata", {}).get("name", ""))
        _check(plural, namespace, name, body)
        with self.changed:
            if (plural, namespace, name) in self._objects:
                raise Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')
            return self._put((plural, namespace, name), dict(copy.deepcopy(body)), "ADDED")

    def apply(self, key: Key, body: Mapping[str, Any], manager: str, *, force: bool) -> dict[str, Any]:
        """PATCH by server-side apply, of labels and annotations, and of the whole spec."""
        plural, namespace, name = key
        _check(plural, namespace, name, body)
        with self.changed:
            new = key not in self._objects
            if new and plural != "nodefeatures":
                raise missing(f'{plural} "{name}"')
            found = {"metadata": {"name": name}} if new else copy.deepcopy(self._find(key))
            wanted = _fields(body)
            owners = self._owners.setdefault(key, {})
            self._refuse_conflicts(found, wanted, {m: f for m, f in owners.items() if m != manager}, force=force)
            for other, fields in owners.items():
                if other != manager:
                    fields -= {field for field in wanted if _value(found, field) != wanted[field]}
            others = set().union(*(fields for other, fields in owners.items() if other != manager))
            for field in owners.get(manager, set()) - wanted.keys() - others:
                _drop(found, field)
            for field, value in wanted.items():
                _set(found, field, value)
            owners[manager] = set(wanted)
            found |= {"apiVersion": body["apiVersion"], "kind": body["kind"]}
            return self._put(key, found, "ADDED" if new else "MODIFIED")

    def merge_status(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """PATCH of a node's status by strategic merge: conditions merge by type."""
        if set(body) - {"status", "apiVersion", "kind", "metadata"} or set(body.get("status", {})) - {"conditions"}:
            raise bad(f"this server merges conditions only, not {body}")
        with self.changed:
            found = copy.deepcopy(self._find(("nodes", "", name)))
            conditions = found.setdefault("status", {}).setdefault("conditions", [])
            for one in body["status"]["conditions"]:
                if one.get("status") not in {"True", "False", "Unknown"} or not one.get("type"):
                    raise invalid("Node", f"condition {one}")
                known = [other for other in conditions if other["type"] == one["type"]]
                if known:
                    known[0].update(one)
                else:
                    conditions.append(dict(one))
            return self._put(("nodes", "", name), found, "MODIFIED")

    def since(self, version: int, key: Key) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """What happened to an object after a version; the lock must be held.

        Raises:
            Refusal: 410, the version is too old.
        """
        if version < self._oldest:
            raise Refusal(410, "Expired", f"too old resource version: {version} ({self._oldest})")
        for number, kind, where, found in self._history:
            if number > version and where == key:
                yield number, kind, found

    @property
    def version(self) -> int:
        """The newest version."""
        return self._version

    def _refuse_conflicts(
        self, found: dict[str, Any], wanted: dict[str, Any], owners: dict[str, set[str]], *, force: bool
    ) -> None:
        causes = [
            {"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": field}
            for manager, fields in owners.items()
            for field in sorted(fields & wanted.keys())
            if _value(found, field) != wanted[field]
        ]
        if causes and not force:
            raise Refusal(409, "Conflict", f"Apply failed with {len(causes)} conflicts", causes)

    def _find(self, key: Key) -> dict[str, Any]:
        if key not in self._objects:
            raise missing(f'{key[0]} "{key[2]}"')
        return self._objects[key]

    def _put(self, key: Key, found: dict[str, Any], kind: str) -> dict[str, Any]:
        before = self._objects.get(key)
        if before is not None and _plain(before) == _plain(found):
            return copy.deepcopy(before)
        self._objects[key] = found
        self._note(kind, key, found)
        return copy.deepcopy(found)

    def _note(self, kind: str, key: Key, found: dict[str, Any]) -> None:
        self._version += 1
        found["metadata"]["resourceVersion"] = str(self._version)
        self._history.append((self._version, kind, key, copy.deepcopy(found)))
        self.changed.notify_all()


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in found["metadata"].items() if name != "resourceVersion"}
    return {**found, "metadata": metadata}


def _check(plural: str, namespace: str, name: str, body: Mapping[str, Any]) -> None:
    metadata = body.get("metadata", {})
    if body.get("kind") != KINDS[plural] or not body.get("apiVersion"):
        raise bad(f"apiVersion and kind of {body.get('kind')!r} do not fit {plural}")
    if metadata.get("name") != name or not NAME.fullmatch(name):
        raise bad(f"the name {metadata.get('name')!r} does not fit {name!r}, or is none")
    if namespace and metadata.get("namespace", namespace) != namespace:
        raise bad("the namespace of the provided object does not match the namespace sent on the request")
    for label, value in metadata.get("labels", {}).items():
        if not LABEL_NAME.fullmatch(label) or not LABEL_VALUE.fullmatch(value):
            raise invalid(plural, f"label {label}={value!r}")
    if plural == "events":
        _check_event(namespace, body)
    if plural == "nodefeatures" and set(body.get("spec", {}).get("features", {})) < {
        "attributes",
        "flags",
        "instances",
    }:
        raise invalid(plural, "spec.features needs attributes, flags and instances")


def _check_event(namespace: str, event: Mapping[str, Any]) -> None:
    about = event.get("involvedObject", {})
    if about.get("namespace", "default") != namespace:
        raise invalid("Event", "involvedObject.namespace: does not match event.namespace")
    if event.get("type") not in {"Normal", "Warning"} or not event.get("reason"):
        raise invalid("Event", "type and reason are needed")
    if len(event.get("message", "")) > 1024:
        raise invalid("Event", "message: can have at most 1024 bytes")


def _fields(body: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        f".metadata.{kind}.{name}": value
        for kind in OWNED_MAPS
        for name, value in body.get("metadata", {}).get(kind, {}).items()
    }
    return fields | ({".spec": body["spec"]} if "spec" in body else {})


def _split(field: str) -> tuple[str, str]:
    _, _, kind, name = field.split(".", 3)
    return kind, name


def _value(found: Mapping[str, Any], field: str) -> Any:
    if field == ".spec":
        return found.get("spec")
    kind, name = _split(field)
    return found["metadata"].get(kind, {}).get(name)


def _set(found: dict[str, Any], field: str, value: Any) -> None:
    if field == ".spec":
        found["spec"] = value
    else:
        kind, name = _split(field)
        found["metadata"].setdefault(kind, {})[name] = value


def _drop(found: dict[str, Any], field: str) -> None:
    kind, name = _split(field)
    found["metadata"].get(kind, {}).pop(name, None)
