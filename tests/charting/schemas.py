"""Schemas of Kubernetes 1.26 to 1.37, strict: a field that the API does not know is an error."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

VERSIONS = tuple(f"1.{minor}" for minor in range(26, 38))
NEWEST = VERSIONS[-1]


def problems(thing: Mapping[str, Any], version: str = NEWEST) -> list[str]:
    """What the API server of this version would find wrong with the shape of an object of its own kinds."""
    return _told(_core(version, thing["kind"], thing["apiVersion"]), thing)


def custom_problems(thing: Mapping[str, Any]) -> list[str] | None:
    """The same by the CustomResourceDefinition in the folder that CRD_DIR names; None where there is none for it."""
    schema = _definitions().get((thing["apiVersion"], thing["kind"]))
    return None if schema is None else _told(jsonschema.Draft202012Validator(schema), thing)


def is_core(thing: Mapping[str, Any]) -> bool:
    """Whether Kubernetes itself has the schema."""
    group = thing["apiVersion"].rpartition("/")[0]
    if "." in group and not group.endswith(".k8s.io"):
        return False
    try:
        _core(NEWEST, thing["kind"], thing["apiVersion"])
    except FileNotFoundError:
        return False
    return True


def _told(validator: jsonschema.Draft202012Validator, thing: Mapping[str, Any]) -> list[str]:
    name = f"{thing['kind']} {thing.get('metadata', {}).get('name', '')}"
    return [f"{name}: {error.json_path}: {error.message}" for error in validator.iter_errors(thing)]


@cache
def _core(version: str, kind: str, api_version: str) -> jsonschema.Draft202012Validator:
    folder = f"kubernetes-json-schema/v{version}.0-local-strict"
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    schema = schema_contents(f"{folder}/{kind.lower()}-{group}.json", version)
    registry = Resource.from_contents(schema) @ _definitions_of(folder, version)
    return jsonschema.Draft202012Validator(schema, registry=registry)


@cache
def _definitions_of(folder: str, version: str) -> Registry[Any]:
    return Resource.from_contents(schema_contents(f"{folder}/_definitions.json", version)) @ Registry()


def crd_folder() -> Path | None:
    """Where CRD_DIR points, if there is such a folder."""
    folder = Path(os.environ.get("CRD_DIR", ""))
    return folder if os.environ.get("CRD_DIR") and folder.is_dir() else None


@cache
def _definitions() -> dict[tuple[str, str], Any]:
    folder = crd_folder()
    if folder is None:
        return {}
    return dict(_read(folder))


def _read(folder: Path) -> Iterator[tuple[tuple[str, str], Any]]:
    for path in sorted(folder.glob("*.yaml")):
        for crd in yaml.safe_load_all(path.read_text()):
            if not crd or crd.get("kind") != "CustomResourceDefinition":
                continue
            for version in crd["spec"]["versions"]:
                schema = _closed(version["schema"]["openAPIV3Schema"])
                schema["properties"].update(apiVersion={}, kind={}, metadata={"type": "object"})
                yield (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]), schema


def _closed(schema: Any) -> Any:
    """A structural schema with the API server's habits: unknown fields are errors, nullable and int-or-string hold."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: _closed(value) if key != "properties" else value for key, value in schema.items()}
    if "properties" in schema:
        out["properties"] = {name: _closed(value) for name, value in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            out.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        out.pop("type", None)
    if schema.get("nullable") and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    return out
