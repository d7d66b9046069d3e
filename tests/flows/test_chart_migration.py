"""A values file written for NVIDIA's chart, kept: the pod that this chart makes of it serves what it served there."""

import tomllib
from pathlib import Path
from typing import Any

import helm_python
import yaml

from tests.charting.helm import CHART, ROOT, render
from tests.charting.schemas import VERSIONS, problems
from tests.charting.upstream import DEFAULTS
from tests.fake_api import FakeApi
from tests.fake_kubelet import Pod
from tests.node import GPU, FakeNode

NODE = "worker-1"
LABEL = "nvidia.com/device-plugin.config"

USERS: dict[str, Any] = yaml.safe_load("""
config:
  default: sliced
  map:
    sliced: |-
      version: v1
      flags:
        migStrategy: none
        failOnInitError: true
        nvidiaDriverRoot: /
        plugin:
          passDeviceSpecs: false
          deviceListStrategy: envvar
          deviceIDStrategy: uuid
      sharing:
        timeSlicing:
          renameByDefault: false
          resources:
          - name: nvidia.com/gpu
            replicas: 4
    whole: |-
      version: v1
      flags:
        migStrategy: mixed
gfd:
  enabled: true
nfd:
  worker:
    tolerations: [{operator: Exists}]
podAnnotations: {team: platform}
tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
""")


def test_values_and_defaults_of_nvidias_give_objects_that_fit() -> None:
    rendered = render({**DEFAULTS, **USERS})
    assert [p for v in VERSIONS for o in rendered.objects for p in problems(o, v)] == []
    assert rendered.pod["automountServiceAccountToken"] is True
    assert "nfd: this chart installs no node-feature-discovery" in rendered.notes


def test_the_node_label_chooses_and_unknown_names_change_nothing(tmp_path: Path) -> None:
    rendered = render(USERS)
    configs = tmp_path / "configs"
    configs.mkdir()
    for name, text in rendered.one("ConfigMap")["data"].items():
        (configs / name).write_text(text)
    kept = {k: v for k, v in rendered.env.items() if not k.startswith(("NVIDIA_", "METRICS_", "STATE_", "LABELS_"))}
    with FakeApi() as api:
        api.books.add("nodes", NODE, metadata={"labels": {}})
        environment = {
            **kept,
            "CONFIG_DIR": str(configs),
            "NODE_NAME": NODE,
            "KUBECONFIG": str(api.kubeconfig(tmp_path)),
        }
        with FakeNode(tmp_path, environment=environment) as node:
            node.plugin.start()
            node.wait_healthy(32)
            grant = node.kubelet.admit(Pod("mine", containers={"main": {GPU: 1}}))["main"]
            assert grant.all_ids[0].endswith(("::0", "::1", "::2", "::3"))
            api.books.label(NODE, LABEL, "unheard-of")
            node.plugin.wait_for_log("unheard-of")
            node.wait_healthy(32)
            api.books.label(NODE, LABEL, "whole")
            node.wait_healthy(8)
            assert node.plugin.stop() == 0


def test_one_version_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert {chart["version"], chart["appVersion"]} == {project}
    assert f"ARG VERSION={project}\n" in (ROOT / "daemonset" / "Dockerfile").read_text()


def test_a_packaged_chart_has_its_monitoring_files(tmp_path: Path) -> None:
    values = {"monitoring": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}}
    archive = helm_python.Chart.load(CHART).save(tmp_path)
    files = helm_python.Chart.load(archive).render(values, name="nvdp", namespace="nvidia")
    packed = [o for text in files.values() if "kind: " in text for o in yaml.safe_load_all(text) if o]
    by_kind = {(o["kind"], o["metadata"]["name"]): o for o in packed}
    assert by_kind == {(o["kind"], o["metadata"]["name"]): o for o in render(values).objects}
