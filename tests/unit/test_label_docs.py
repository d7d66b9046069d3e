"""docs/labels.md and docs/cluster.md against what is published and asked for."""

import re
from pathlib import Path

import pytest

from deviceplugin.cluster.events import _REASONS
from deviceplugin.cluster.labels import FEATURE
from deviceplugin.cluster.labels import MANAGER as LABELS_MANAGER
from deviceplugin.cluster.standing import ANNOTATION, CONDITION
from deviceplugin.cluster.standing import MANAGER as HEALTH_MANAGER
from deviceplugin.config.document import LabelSink
from deviceplugin.config.names import CONFIG_LABEL as LABEL

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "labels"
DOC = (ROOT / "docs" / "labels.md").read_text()
CLUSTER = (ROOT / "docs" / "cluster.md").read_text()


def published() -> set[str]:
    lines = (line for path in GOLDEN.glob("*.txt") for line in path.read_text().splitlines())
    keys = {line.partition("=")[0] for line in lines if "=" in line and not line.startswith(("#", "["))}
    return {re.sub(r"^mig-\d+g\.\d+gb(\.me(?=\.))?", "mig-<profile>", key) for key in keys}


def documented() -> set[str]:
    """Every label of the table; `.minor` after `cuda.driver.major` stands for `cuda.driver.minor`."""
    found: set[str] = set()
    for row in re.findall(r"^\| (`[^|]*) \|", DOC.partition("## The labels")[2], re.MULTILINE):
        before = ""
        for name in re.findall(r"`([^`]+)`", row):
            cut = before.rpartition(".")[0]
            if name.startswith(".") and before.startswith("mig-<profile>"):
                cut = "mig-<profile>"
            before = f"{cut}{name}" if name.startswith(".") else name
            found.add(before)
    return found


def test_every_label_is_documented_and_no_other() -> None:
    names = documented()
    engines = {name for name in published() if name.startswith("mig-<profile>.engines.")}
    expected = (published() - engines) | {"mig-<profile>.engines.*"}
    never_in_the_catalogue = {
        "gpu.mixed",
        "gpu.<model>.count",
        "vgpu.host-driver-version",
        "vgpu.host-driver-branch",
        "gfd.timestamp",
    }
    assert names == expected | never_in_the_catalogue


@pytest.mark.parametrize("value", list(LabelSink))
def test_every_place_is_documented(value: LabelSink) -> None:
    assert re.search(rf"^\| `{value}`", DOC, re.MULTILINE)


def test_names_in_the_cluster_are_documented() -> None:
    reasons = [reason for _, reason in _REASONS.values()]
    for name in (LABEL, ANNOTATION, CONDITION, LABELS_MANAGER, HEALTH_MANAGER, *reasons):
        assert f"`{name}`" in CLUSTER
    assert f"`{FEATURE}<node>`" in DOC


def test_every_kind_of_request_has_its_right_documented() -> None:
    source = (ROOT / "deviceplugin" / "cluster" / "api.py").read_text()
    asked = set(re.findall(r'_(?:request|failed)\("([a-z ]+)"', source))
    rights = {
        "get node": "nodes: get",
        "watch node": "nodes: get, watch",
        "patch node": "nodes: patch",
        "patch node status": "nodes/status: patch",
        "patch nodefeature": "nodefeatures.nfd.k8s-sigs.io: create, patch",
        "get pod": "pods: get",
        "create event": "events: create",
    }
    assert asked == set(rights)
    for right in rights.values():
        assert right in CLUSTER
