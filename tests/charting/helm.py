"""What `helm template` and `helm lint` make of the chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "daemonset" / "chart"
CONTAINER = "nvidia-device-plugin-ctr"
Object = dict[str, Any]


@dataclass(frozen=True)
class Rendered:
    """Objects in the order of their templates, and the notes printed after an installation."""

    objects: tuple[Object, ...]
    notes: str

    def all(self, kind: str) -> tuple[Object, ...]:
        return tuple(o for o in self.objects if o["kind"] == kind)

    def one(self, kind: str) -> Object:
        """The only object of this kind; of DaemonSets the plugin's."""
        found = [o for o in self.all(kind) if not o["metadata"]["name"].endswith("-mps")]
        assert len(found) == 1, f"{len(found)} objects of kind {kind}"
        return found[0]

    @property
    def pod(self) -> Object:
        pod: Object = self.one("DaemonSet")["spec"]["template"]["spec"]
        return pod

    @property
    def container(self) -> Object:
        containers = self.pod["containers"]
        assert [c["name"] for c in containers] == [CONTAINER]
        only: Object = containers[0]
        return only

    @property
    def env(self) -> dict[str, str]:
        """Variables with a text; those taken from fields of the pod are left out."""
        return {v["name"]: v["value"] for v in self.container["env"] if "value" in v}

    @property
    def mounts(self) -> dict[str, tuple[str, bool]]:
        """Path in the container -> host path (empty: none), and whether it can be written."""
        volumes = {v["name"]: v for v in self.pod.get("volumes", ())}
        return {
            m["mountPath"]: (volumes[m["name"]].get("hostPath", {}).get("path", ""), not m.get("readOnly", False))
            for m in self.container.get("volumeMounts", ())
        }


@cache
def _chart() -> helm_python.Chart:
    return helm_python.Chart.load(CHART)


def defaults() -> Object:
    """values.yaml."""
    return _chart().values


def render(values: Mapping[str, Any] | None = None, name: str = "nvdp", namespace: str = "nvidia") -> Rendered:
    """Renders the chart.

    Raises:
        helm_python.HelmError: The values are refused, by the schema or by the templates.
    """
    files = _chart().render(dict(values or {}), name=name, namespace=namespace)
    notes = next(text for path, text in files.items() if path.endswith("NOTES.txt"))
    manifests = [text for path, text in sorted(files.items()) if path.endswith(".yaml")]
    objects = [o for text in manifests for o in yaml.safe_load_all(text) if o]
    return Rendered(tuple(objects), notes)


def refusal(values: Mapping[str, Any]) -> str:
    """What Helm says about values that it refuses."""
    try:
        render(values)
    except helm_python.HelmError as error:
        return str(error)
    raise AssertionError(f"these values are accepted: {values}")


def lint(values: Mapping[str, Any] | None = None, kubernetes: str = "v1.37.0") -> list[str]:
    """Warnings and errors of `helm lint --strict`."""
    report = helm_python.lint(CHART, dict(values or {}), strict=True, kube_version=kubernetes, namespace="nvidia")
    return [f"{message['path']}: {message['error']}" for message in report["messages"] if message["severity"] > 1]
