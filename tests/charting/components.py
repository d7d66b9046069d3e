"""Schemas of configuration files that components read, for the parts that the examples use; unknown keys are errors.

Sources: kube-scheduler Configuration (v1), Kubelet Configuration (v1beta1), descheduler's README (v1alpha2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
PERCENT: Schema = {"type": "integer", "minimum": 0, "maximum": 100}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def closed(required: str = "", **properties: Schema) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required.split(),
        "properties": {"apiVersion": TEXT, "kind": TEXT, **properties},
    }


def one_of(*words: str) -> Schema:
    return {"enum": list(words)}


def by_name(**arguments: Schema) -> Schema:
    """pluginConfig: which arguments a plugin takes."""
    return listed(
        {
            "oneOf": [
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name", "args"],
                    "properties": {"name": {"const": name}, "args": schema},
                }
                for name, schema in arguments.items()
            ]
        }
    )


_SCORING = closed(
    "type resources",
    type=one_of("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"),
    resources=listed(closed("name", name=TEXT, weight={"type": "integer", "minimum": 1, "maximum": 100})),
)
_CONSTRAINT = closed(
    "maxSkew topologyKey whenUnsatisfiable",
    maxSkew={"type": "integer", "minimum": 1},
    topologyKey=TEXT,
    whenUnsatisfiable=one_of("DoNotSchedule", "ScheduleAnyway"),
)
_PLUGINS = closed(
    enabled=listed(closed("name", name=TEXT, weight={"type": "integer", "minimum": 1})),
    disabled=listed(closed("name", name=TEXT)),
)
_SCHEDULER = closed(
    "profiles",
    profiles=listed(
        closed(
            "schedulerName",
            schedulerName=TEXT,
            plugins=closed(multiPoint=_PLUGINS, score=_PLUGINS, filter=_PLUGINS),
            pluginConfig=by_name(
                NodeResourcesFit=closed("kind scoringStrategy", scoringStrategy=_SCORING),
                PodTopologySpread=closed(
                    "kind defaultingType",
                    defaultingType=one_of("List", "System"),
                    defaultConstraints=listed(_CONSTRAINT),
                ),
            ),
        )
    ),
)
_KUBELET = closed(
    cpuManagerPolicy=one_of("none", "static"),
    reservedSystemCPUs={"type": "string", "pattern": r"^\d+(-\d+)?(,\d+(-\d+)?)*$"},
    topologyManagerPolicy=one_of("none", "best-effort", "restricted", "single-numa-node"),
    topologyManagerScope=one_of("container", "pod"),
    topologyManagerPolicyOptions={
        "type": "object",
        "additionalProperties": False,
        "properties": {"prefer-closest-numa-nodes": one_of("true", "false")},
    },
)
_NAMED = closed(enabled=listed(TEXT), disabled=listed(TEXT))
_DESCHEDULER = closed(
    "profiles",
    nodeSelector=TEXT,
    maxNoOfPodsToEvictPerNode=COUNT,
    profiles=listed(
        closed(
            "name pluginConfig plugins",
            name=TEXT,
            plugins=closed(filter=_NAMED, preEvictionFilter=_NAMED, balance=_NAMED, deschedule=_NAMED),
            pluginConfig=by_name(
                DefaultEvictor=closed(
                    nodeFit={"type": "boolean"},
                    minPodAge=TEXT,
                    labelSelector=closed(matchLabels={"type": "object"}),
                ),
                HighNodeUtilization=closed(
                    "thresholds",
                    thresholds={"type": "object", "additionalProperties": PERCENT},
                    numberOfNodes=COUNT,
                ),
            ),
        )
    ),
)

SCHEMAS: Mapping[tuple[str, str], Schema] = {
    ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"): _SCHEDULER,
    ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"): _KUBELET,
    ("descheduler/v1alpha2", "DeschedulerPolicy"): _DESCHEDULER,
}


def component_problems(thing: Mapping[str, Any]) -> list[str] | None:
    """What the component would not take; None where it is no component's configuration."""
    schema = SCHEMAS.get((thing["apiVersion"], thing["kind"]))
    if schema is None:
        return None
    found = jsonschema.Draft202012Validator(schema).iter_errors(thing)
    return [f"{thing['kind']}: {error.json_path}: {error.message}" for error in found]
