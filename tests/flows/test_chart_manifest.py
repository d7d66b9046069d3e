"""The static manifest and the kustomize overlays are what the chart renders for the same wishes.

To renew what is rendered: `python -m tests.flows.test_chart_manifest`.
"""

import copy
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from tests.charting.cases import MPS, TIME_SLICED, Values
from tests.charting.helm import ROOT, Object, render
from tests.charting.schemas import VERSIONS, problems

DAEMONSET = ROOT / "daemonset"
KUSTOMIZE = DAEMONSET / "kustomize"
MANIFEST = DAEMONSET / "nvidia-device-plugin.yaml"
MPS_OVERLAY = KUSTOMIZE / "overlays" / "mps" / "mps.yaml"
RELEASE, NAMESPACE = "nvidia-device-plugin", "kube-system"
HEAD = (
    "# Rendered from daemonset/chart. Name your image instead of localhost/gpu-device-plugin, then kubectl apply -f.\n"
)
OF_HELM = ("helm.sh/chart", "app.kubernetes.io/managed-by")

OVERLAYS: dict[str, Values] = {
    "mig-mixed": {"migStrategy": "mixed"},
    "time-slicing": {"config": {"map": {"default": TIME_SLICED}}},
    "mps": {"config": {"map": {"default": MPS}}},
    "cdi": {"deviceListStrategy": "cdi-cri", "nvidiaDriverRoot": "/"},
}


def chart(values: Values) -> list[Object]:
    """The chart's objects, without the labels that say that Helm keeps them."""
    objects = copy.deepcopy(list(render(values, RELEASE, NAMESPACE).objects))
    for thing in objects:
        for label in OF_HELM:
            thing["metadata"]["labels"].pop(label)
    return objects


def text(objects: Iterable[Object]) -> str:
    return HEAD + yaml.safe_dump_all(objects, sort_keys=False, width=1000)


def mps_objects() -> list[Object]:
    return [o for o in chart(OVERLAYS["mps"]) if o["metadata"]["name"].endswith("-mps")]


RENDERED = {
    MANIFEST: lambda: chart({}),
    KUSTOMIZE / "base" / MANIFEST.name: lambda: chart({}),
    MPS_OVERLAY: mps_objects,
}


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: str(path.relative_to(DAEMONSET)))
def test_what_is_checked_in_is_what_the_chart_renders(path: Any) -> None:
    assert path.read_text() == text(RENDERED[path]()), "run: python -m tests.flows.test_chart_manifest"


def unordered(thing: Any) -> Any:
    """Lists of named things as mappings: their order means nothing."""
    if isinstance(thing, list):
        items = [unordered(item) for item in thing]
        named = all(isinstance(item, dict) and ("mountPath" in item or "name" in item) for item in items)
        return {item.get("mountPath", item.get("name")): item for item in items} if named else items
    if isinstance(thing, dict):
        return {key: unordered(value) for key, value in thing.items()}
    return thing


def by_name(objects: Iterable[Object]) -> dict[tuple[str, str], Any]:
    return {(o["kind"], o["metadata"]["name"]): unordered(o) for o in objects}


@pytest.mark.needs("kubectl")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_what_the_chart_renders(overlay: str) -> None:
    folder = KUSTOMIZE / "overlays" / overlay
    built = subprocess.run(["kubectl", "kustomize", folder], check=True, capture_output=True, text=True)
    objects = list(yaml.safe_load_all(built.stdout))
    assert [p for version in VERSIONS for o in objects for p in problems(o, version)] == []
    assert by_name(objects) == by_name(chart(OVERLAYS[overlay]))


def _renew() -> None:
    for path, objects in RENDERED.items():
        path.write_text(text(objects()))


if __name__ == "__main__":
    _renew()
