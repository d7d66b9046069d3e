"""Every combination of values gives objects that Kubernetes takes and a configuration that the plugin takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deviceplugin.config.load import load
from tests.charting.cases import MATRIX, SINGLE, Values
from tests.charting.helm import ROOT, lint, render
from tests.charting.schemas import VERSIONS, is_core, problems

INTENDED = ("NVIDIA_VISIBLE_DEVICES=all", "for rehearsals only")
CUSTOM = {"PodMonitor", "PrometheusRule"}


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_objects_fit_every_kubernetes_from_1_26_to_1_37(values: Values) -> None:
    objects = render(values).objects
    assert {o["kind"] for o in objects if not is_core(o)} <= CUSTOM
    found = [p for version in VERSIONS for o in objects if is_core(o) for p in problems(o, version)]
    assert found == []


@pytest.mark.parametrize("values", SINGLE.values(), ids=SINGLE)
def test_helm_lint_has_nothing_to_say(values: Values) -> None:
    assert lint(values) == []


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_the_plugin_understands_its_environment(values: Values, tmp_path: Path) -> None:
    rendered = render(values)
    if not rendered.all("DaemonSet"):
        assert values == {"devicePlugin": {"enabled": False}}
        return
    folder = tmp_path / "configs"
    folder.mkdir()
    for name, text in values.get("config", {}).get("map", {"default": ""}).items():
        (folder / name).write_text(text)
    environ = {**rendered.env, "NODE_NAME": "node-1"}
    if "CONFIG_DIR" in environ:
        environ["CONFIG_DIR"] = str(folder)
    loaded = load({}, environ)
    assert [w for w in loaded.warnings if not any(word in w for word in INTENDED)] == []
    assert loaded.config.daemon.state_dir == rendered.env["STATE_DIR"]


def test_the_environment_changes_what_is_offered() -> None:
    rendered = render({"migStrategy": "mixed", "devices": {"exclude": [0]}})
    result = subprocess.run(
        [sys.executable, "-m", "deviceplugin", "resources", "--json", "--driver", "fake:hgx-h100-8"],
        env={**rendered.env, "PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(result.stdout)["resources"]["nvidia.com/gpu"]["count"] == 7
