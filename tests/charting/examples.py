"""The examples: their objects, the pods in them, and what machines of the catalogue offer to such pods."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deviceplugin.cli import main
from tests.charting.helm import ROOT

EXAMPLES = ROOT / "daemonset" / "examples"
CONFIGS = EXAMPLES / "config"
MACHINES = ("hgx-h100-8", "hgx-h100-8-mig-1g", "l40s-8", "h100-nvl-8-pairs", "dgx-a100-8-mig-mixed", "two-boards-16")
"""Machines of the catalogue, one of each kind that an example is for."""
Object = dict[str, Any]


@dataclass(frozen=True)
class Example:
    """One object in a file."""

    path: Path
    thing: Object

    def __str__(self) -> str:
        name = self.thing.get("metadata", {}).get("name", "")
        return f"{self.path.relative_to(EXAMPLES)}:{self.thing['kind']}:{name}".rstrip(":")


def objects() -> list[Example]:
    """Everything that is given to a cluster; the plugin's own configuration files are not objects."""
    return [
        Example(path, thing)
        for path in sorted(EXAMPLES.rglob("*.yaml"))
        if CONFIGS not in path.parents
        for thing in yaml.safe_load_all(path.read_text())
    ]


def pods(thing: Object) -> Iterator[Object]:
    """Pod specifications that an object makes."""
    spec = thing.get("spec", {})
    if thing["kind"] == "Pod":
        yield spec
    templates = [spec, *spec.get("tasks", ())] if isinstance(spec, dict) else []
    for holder in templates:
        if "template" in holder:
            yield holder["template"]["spec"]


def gpu_requests(pod: Object) -> dict[str, int]:
    """Resources of ours that the pod's containers want, together."""
    wanted: dict[str, int] = {}
    for container in pod["containers"]:
        for name, count in container.get("resources", {}).get("limits", {}).items():
            if name.startswith("nvidia.com/"):
                wanted[name] = wanted.get(name, 0) + int(count)
    return wanted


@dataclass(frozen=True)
class Offer:
    """What a machine offers under a configuration, and its labels."""

    machine: str
    config: str
    resources: Mapping[str, int]
    labels: Mapping[str, str]

    def fits(self, pod: Object) -> bool:
        """Whether the pod could run there, by itself."""
        counts = all(self.resources.get(name, 0) >= count for name, count in gpu_requests(pod).items())
        return counts and self.selected(pod.get("nodeSelector", {})) and self.admitted(pod)

    def selected(self, selector: Mapping[str, str]) -> bool:
        return all(self.labels.get(name) == value for name, value in selector.items())

    def admitted(self, pod: Object) -> bool:
        """By required node affinity: any term, every expression of it."""
        node = pod.get("affinity", {}).get("nodeAffinity", {})
        terms = node.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")
        return terms is None or any(all(map(self._holds, term["matchExpressions"])) for term in terms)

    def _holds(self, expression: Mapping[str, Any]) -> bool:
        value = self.labels.get(expression["key"])
        values: Sequence[str] = expression.get("values", ())
        match expression["operator"]:
            case "In":
                return value in values
            case "Exists":
                return value is not None
            case "Gt":
                return value is not None and int(value) > int(values[0])
        raise AssertionError(f"operator {expression['operator']} is not known here")


def offers() -> Iterator[Offer]:
    """Every machine under every configuration of the examples and under none; each is asked once, when it is needed."""
    for config in ("", *sorted(path.stem for path in CONFIGS.glob("*.yaml"))):
        for machine in MACHINES:
            yield _offer(machine, config)


@cache
def _offer(machine: str, config: str) -> Offer:
    options = [f"--driver=fake:{machine}", *([f"--config-file={CONFIGS / config}.yaml"] if config else [])]
    printed = _printed("resources", "--json", *options)
    if printed is None:
        return Offer(machine, config, {}, {})
    labels = _printed("labels", "--oneshot", "--output=-", *options) or ""
    pairs = (line.partition("=") for line in labels.splitlines())
    counts = {name: entry["count"] for name, entry in json.loads(printed)["resources"].items()}
    return Offer(machine, config, counts, {name: value for name, _, value in pairs})


def _printed(*words: str) -> str | None:
    """What a subcommand prints; None where the machine cannot be configured so (exit code 2)."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = main(words)
    assert code in {0, 2}, f"gpu-device-plugin {' '.join(words)} ended with {code}"
    return out.getvalue() if code == 0 else None
