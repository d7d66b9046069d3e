"""JSON schema of the file, for editors: what msgspec derives from the structs, and the spellings the loader takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import json

from deviceplugin.config.document import Config, Document
from deviceplugin.config.durations import format_duration
from deviceplugin.config.shapes import keys
from deviceplugin.config.table import BY_PATH

_DURATION = {
    "anyOf": [
        {"type": "string", "pattern": r"^(0|\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$"},
        {"type": "integer", "minimum": 0, "description": "nanoseconds"},
    ]
}

_WRITTEN = {
    "version": "Only v1.",
    "resources.gpus": "The first pattern that matches gives a GPU its resource; none: nvidia.com/gpu.",
    "resources.mig": "The same for MIG instances, by profile.",
    "resources.*.pattern": "Over the product name or MIG profile; only * is special.",
    "resources.*.name": "Resource; empty: not offered. Without a domain it is nvidia.com's.",
    "resources.*.pci": "Over the PCI bus id; only * is special.",
    "resources.*.memory": "A bound on the memory, such as >=80Gi or <24Gi.",
    "resources.*.allocationPolicy": "How shares of this resource are chosen.",
    "sharing.timeSlicing": "Several containers take turns on a device.",
    "sharing.mps": "Several containers run on a device at once, under the MPS control daemon.",
    "sharing.*.renameByDefault": "Appends .shared to the resource name.",
    "sharing.*.failRequestsGreaterThanOne": "Refuse more than one share per container; default: only under mps.",
    "sharing.*.resources": "At least one.",
    "sharing.*.resources.name": "The resource to share.",
    "sharing.*.resources.replicas": "Shares of each device; at least 2, under mps at least 1.",
    "sharing.*.resources.rename": "Name of the shares.",
    "sharing.*.resources.devices": "all, a count, or a list of index, gpu:mig index and UUID.",
    "sharing.*.resources.allocationPolicy": "How shares of this resource are chosen.",
    "sharing.*.resources.memoryLimit": "Under mps: share, none, a ratio of the share such as 0.5, or 8Gi.",
    "sharing.*.resources.activeThreadPercentage": "Under mps: 1 to 100; default: 100 / replicas.",
    "health.cordon": "GPUs and MIG instances that are taken out by hand.",
    "health.cordon.device": "UUID, index, gpu:mig index or PCI id.",
    "health.cordon.reason": "Shown wherever the device is shown as Unhealthy.",
    "health.cordon.release": "Let go of the driver as well, so that the GPU can be reset.",
}
"""Descriptions of the keys that have no option; `*` stands for both of two sections of one form."""


def schema() -> dict[str, Any]:
    """The schema (draft 2020-12) with camel-case keys, descriptions and defaults."""
    document = json.schema(Config)
    definitions = document["$defs"]
    texts = dict(_descriptions(Config, ""))
    for title, definition in definitions.items():
        for key, held in definition.get("properties", {}).items():
            definition["properties"][key] = _property(held, texts.get((title, key), ""))
    strategies = definitions["PluginFlags"]["properties"]["deviceListStrategy"]
    words = "|".join(definitions["ListStrategy"]["enum"])
    strategies["anyOf"].insert(0, {"type": "string", "pattern": f"^({words})(, *({words}))*$"})
    definitions["Config"]["properties"]["version"] = {"enum": ["v1", None], "description": _WRITTEN["version"]}
    definitions["Resources"]["properties"]["migs"] = {
        **definitions["Resources"]["properties"]["mig"],
        "description": "The same as mig.",
    }
    definitions["Replicated"]["properties"]["resources"] |= {"minItems": 1}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "gpu-device-plugin", **document}


def _property(held: dict[str, Any], text: str) -> dict[str, Any]:
    """A key's schema: null is the same as absent, and a default is spelt as in the file."""
    default = held.pop("default", None)
    if held.pop("x-duration", False):
        held = {**_DURATION}
        default = format_duration(default)
    alternatives = held.get("anyOf", [held])
    nullable = [*(each for each in alternatives if each != {"type": "null"}), {"type": "null"}]
    described = {"description": text} if text else {}
    return described | ({} if default in (None, {}) else {"default": default}) | {"anyOf": nullable}


def _descriptions(section: type[Document], path: str) -> Iterator[tuple[tuple[str, str], str]]:
    for key, held in keys(section).items():
        here = f"{path}.{key}" if path else key
        option, plain = BY_PATH.get(here), _general(here)
        yield (section.__name__, key), option.help if option else _WRITTEN.get(here, _WRITTEN.get(plain, ""))
        inner = held.shape.section or (held.shape.items.section if held.shape.items else None)
        if inner:
            yield from _descriptions(inner, here)


def _general(path: str) -> str:
    words = path.split(".")
    return ".".join((words[0], "*", *words[2:]))
