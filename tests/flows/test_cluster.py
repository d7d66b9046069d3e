"""The door to the cluster of a running plugin, against the pretend API server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fake_api import FakeApi
from tests.fake_kubelet import Pod
from tests.node import GPU, FakeNode
from tests.waiting import NotYet, wait_until

NODE = "worker-1"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
CONFIGS = {
    "plain": "version: v1\n",
    "shared": "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n",
}

TWICE = """sharing:
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, replicas: 2, devices: [0]}
    - {name: nvidia.com/gpu, replicas: 3, devices: [GPU-2edc9a4e-f250-5888-bcfa-41aef5d78afd]}
"""


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as api:
        api.books.add("nodes", NODE, metadata={"labels": {"kubernetes.io/hostname": NODE}})
        yield api


@contextmanager
def plugin(home: Path, api: FakeApi, *arguments: str, **more: str) -> Iterator[FakeNode]:
    environment = {"KUBECONFIG": str(api.kubeconfig(home)), "NODE_NAME": NODE, **more}
    options = ["--health-interval=200ms", "--health-quiet-period=100ms", *arguments]
    with FakeNode(home, arguments=options, environment=environment) as node:
        yield node


def labels(api: FakeApi) -> dict[str, str]:
    return dict(api.books.get("nodes", NODE)["metadata"].get("labels", {}))


def wait_label(api: FakeApi, node: FakeNode, name: str, value: str | None) -> None:
    def there() -> bool | NotYet:
        return labels(api).get(name) == value or NotYet(f"{labels(api)}\n{node.plugin.log}")

    wait_until(there, what=f"{name}={value}")


def condition(api: FakeApi) -> dict[str, Any]:
    found = api.books.get("nodes", NODE).get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == "GPUHealthy"), {})


def events(api: FakeApi, kind: str) -> list[dict[str, Any]]:
    return [one for one in api.books.all("events") if one["involvedObject"]["kind"] == kind]


def folder(home: Path) -> Path:
    configs = home / "configs"
    configs.mkdir()
    for name, text in CONFIGS.items():
        (configs / name).write_text(text)
    return configs


def test_labels_on_the_node_leave_those_of_others_alone(tmp_path: Path, api: FakeApi) -> None:
    api.books.label(NODE, "nvidia.com/gpu.present", "true", "gpu-operator")
    api.books.label(NODE, "nvidia.com/gpu.product", "by-hand", "kubectl")
    before = labels(api)
    with plugin(tmp_path, api, "--labels-publish=node", "--mig-strategy=mixed") as node:
        node.plugin.start()
        wait_label(api, node, "nvidia.com/gpu.count", "8")
        assert {name: labels(api)[name] for name in before} == before
        node.plugin.wait_for_log("label nvidia.com/gpu.product is left to its owner")
        assert 'conflict with "kubectl"' in node.plugin.log
        assert "nvidia.com/gpu.present" not in str(api.books.owners("nodes", NODE)["gpu-device-plugin-labels"])
        node.plugin.restart("--mig-strategy=none")
        wait_label(api, node, "nvidia.com/mig.strategy", None)
        assert {name: labels(api)[name] for name in before} == before
        assert not node.labels_file.exists()


def test_labels_stay_when_the_plugin_ends(tmp_path: Path, api: FakeApi) -> None:
    with plugin(tmp_path, api, "--labels-publish=node") as node:
        node.plugin.start()
        wait_label(api, node, "nvidia.com/gpu.healthy", "8")
        before = labels(api)
        node.plugin.stop()
        assert labels(api) == before


def test_a_node_feature_object_in_the_pods_namespace(tmp_path: Path, api: FakeApi) -> None:
    with plugin(tmp_path, api, "--use-node-feature-api=true") as node:
        node.plugin.start()
        wait_until(lambda: api.books.all("nodefeatures"), what="a NodeFeature")
        found = api.books.get("nodefeatures", f"nvidia-features-for-{NODE}", "gpu-system")
        assert found["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": NODE}
        assert found["spec"]["labels"]["nvidia.com/gpu.count"] == "8"
        node.control("xid", "3", "79")
        wait_until(
            lambda: api.books.all("nodefeatures")[0]["spec"]["labels"]["nvidia.com/gpu.healthy"] == "7",
            what="the label of healthy GPUs",
        )
        assert CONFIG_LABEL not in labels(api)


def test_the_node_label_chooses_the_configuration(tmp_path: Path, api: FakeApi) -> None:
    options = [f"--config-dir={folder(tmp_path)}", "--default-config=plain", "--cluster-config-label=true"]
    with plugin(tmp_path, api, *options) as node:
        node.plugin.start()
        node.wait_healthy(8)
        wait_until(lambda: api.count("watch", "nodes"), what="a watch")
        api.books.label(NODE, CONFIG_LABEL, "shared")
        node.wait_healthy(32)
        api.books.label(NODE, CONFIG_LABEL, "shaerd")
        node.plugin.wait_for_log("--config-name shaerd: no such configuration")
        node.plugin.wait_for_log("the present one stays in force")
        assert len(node.health()[0]) == 32
        api.books.label(NODE, CONFIG_LABEL, "plain")
        node.wait_healthy(8)
        api.books.label(NODE, CONFIG_LABEL, "shared")
        node.wait_healthy(32)
        api.books.label(NODE, CONFIG_LABEL, None)
        node.wait_healthy(8)


BESIDE = {
    "no configuration for nodes without the label": {},
    "a broken one": {"default": "flagz: {}\n"},
    "one that does not fit this node": {"default": TWICE},
}


@pytest.mark.parametrize("beside", BESIDE)
def test_a_labelled_node_starts_by_its_label_whatever_the_others_have(
    tmp_path: Path, api: FakeApi, beside: str
) -> None:
    configs = folder(tmp_path)
    for name, text in BESIDE[beside].items():
        (configs / name).write_text(text)
    api.books.label(NODE, CONFIG_LABEL, "shared")
    with plugin(tmp_path, api, f"--config-dir={configs}", "--cluster-config-label=true") as node:
        node.plugin.start()
        node.wait_healthy(32)
        api.books.label(NODE, CONFIG_LABEL, "plain")
        node.wait_healthy(8)


def test_a_node_without_the_label_and_without_a_configuration_says_both(tmp_path: Path, api: FakeApi) -> None:
    with plugin(tmp_path, api, f"--config-dir={folder(tmp_path)}", "--cluster-config-label=true") as node:
        assert node.plugin.start().wait() == 2
        assert "no fallback (named, single) applies; there are: plain, shared" in node.plugin.log
        assert f"nor has the node a label {CONFIG_LABEL} to choose one" in node.plugin.log
        api.fail("get", "nodes", code=403)
        assert node.plugin.start().wait() == 2
        assert f"nor can the node's label {CONFIG_LABEL} be read" in node.plugin.log


def test_a_label_rescues_a_node_from_the_configuration_it_chose_before(tmp_path: Path, api: FakeApi) -> None:
    configs, state = folder(tmp_path), tmp_path / "state"
    (configs / "twice").write_text(TWICE)
    state.mkdir()
    (state / "chosen-config").write_text("twice\n")
    options = [f"--config-dir={configs}", f"--state-dir={state}", "--cluster-config-label=true"]
    api.books.label(NODE, CONFIG_LABEL, "twice")
    with plugin(tmp_path, api, *options, "--default-config=plain") as node:
        node.plugin.start()
        node.plugin.wait_for_log("the configuration does not fit this node, what fits is served")
        node.wait_healthy(9)
        api.books.label(NODE, CONFIG_LABEL, "shared")
        node.wait_healthy(32)


def test_a_name_that_was_unknown_counts_once_the_folder_has_it(tmp_path: Path, api: FakeApi) -> None:
    configs = folder(tmp_path)
    api.books.label(NODE, CONFIG_LABEL, "later")
    options = [f"--config-dir={configs}", "--default-config=plain", "--cluster-config-label=true"]
    with plugin(tmp_path, api, *options) as node:
        node.plugin.start()
        node.plugin.wait_for_log("--config-name later: no such configuration")
        node.wait_healthy(8)
        (configs / "later").write_text(CONFIGS["shared"])
        node.wait_healthy(32)


@pytest.mark.parametrize("fallback", ["named", "single", "empty"])
def test_without_a_label_the_fallback_decides(tmp_path: Path, api: FakeApi, fallback: str) -> None:
    configs = tmp_path / "configs"
    configs.mkdir()
    names = {"named": ["default", "other"], "single": ["other"], "empty": ["one", "two"]}[fallback]
    for name in names:
        (configs / name).write_text(CONFIGS["shared"])
    options = [f"--config-dir={configs}", f"--fallback-strategies={fallback}", "--cluster-config-label=true"]
    with plugin(tmp_path, api, *options) as node:
        node.plugin.start()
        node.wait_healthy(8 if fallback == "empty" else 32)


def test_the_choice_outlives_a_restart_without_the_api(tmp_path: Path, api: FakeApi) -> None:
    options = [f"--config-dir={folder(tmp_path)}", "--default-config=plain", "--cluster-config-label=true"]
    api.books.label(NODE, CONFIG_LABEL, "shared")
    with plugin(tmp_path, api, *options) as node:
        node.plugin.start()
        node.wait_healthy(32)
        wait_until((tmp_path / "state" / "chosen-config").exists, what="the note of the choice")
        frames = len(node.kubelet.resources[GPU].frames)
        api.fail("*", "*", silent=True)
        node.plugin.restart()
        wait_until(lambda: len(node.kubelet.resources[GPU].frames) > frames, what="the list after the restart")
        assert len(node.health()[0]) == 32


def test_events_and_condition_when_a_gpu_goes_bad_and_comes_back(tmp_path: Path, api: FakeApi) -> None:
    api.books.add("pods", "training-0", "ml")
    with plugin(tmp_path, api, "--cluster-events=true", "--cluster-condition=true") as node:
        node.plugin.start()
        node.wait_healthy(8)
        node.kubelet.admit(Pod("training-0", namespace="ml", containers={"main": {GPU: 8}}))
        wait_until(lambda: condition(api).get("status") == "True", what="a healthy condition")
        since = condition(api)["lastTransitionTime"]
        node.control("xid", "3", "94")
        wait_until(lambda: events(api, "Pod"), what=f"an event on the pod\n{node.plugin.log}")
        [event] = events(api, "Node")
        assert event["reason"] == "GPUUnhealthy"
        assert event["type"] == "Warning"
        assert "xid-94" in event["message"]
        assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE}
        [event] = events(api, "Pod")
        assert event["involvedObject"]["uid"] == "uid-of-training-0"
        assert event["metadata"]["namespace"] == "ml"
        wait_until(lambda: condition(api)["status"] == "False", what="an unhealthy condition")
        assert "xid-94" in condition(api)["message"]
        wait_until(lambda: events(api, "Node")[-1]["reason"] == "GPUHealthy", what="an event of recovery")
        wait_until(lambda: condition(api)["status"] == "True", what="a healthy condition again")
        assert condition(api)["lastTransitionTime"] >= since
        wait_until(lambda: not api.books.get("nodes", NODE)["metadata"].get("annotations"), what="the annotation's end")


def test_the_annotation_names_what_is_sick(tmp_path: Path, api: FakeApi) -> None:
    with plugin(tmp_path, api, "--cluster-condition=true") as node:
        node.plugin.start()
        node.wait_healthy(8)
        node.control("xid", "3", "79")
        node.wait_healthy(7, 1)
        sick = next(iter(node.health()[1]))

        def annotation() -> Any:
            annotations = api.books.get("nodes", NODE)["metadata"].get("annotations", {})
            return json.loads(annotations.get("nvidia.com/device-plugin.unhealthy", "{}"))

        wait_until(annotation, what="the annotation")
        assert annotation()[sick][0] == "xid-79"


def test_the_library_is_not_loaded_while_nothing_is_switched_on() -> None:
    code = "import sys, deviceplugin.daemon, deviceplugin.daemon.clusterdoor; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"lightkube", "httpx2", "deviceplugin.cluster.api"} & set(done.stdout.split())


def test_nothing_is_asked_of_the_api_while_nothing_is_switched_on(tmp_path: Path, api: FakeApi) -> None:
    with plugin(tmp_path, api) as node:
        node.labels_file.parent.mkdir()
        node.plugin.start()
        wait_until(node.labels_file.exists, what="the feature file")
        node.control("xid", "3", "79")
        node.wait_healthy(7, 1)
        assert api.requests == []


def test_without_the_node_s_name_the_door_stays_closed_and_says_so(tmp_path: Path, api: FakeApi) -> None:
    with plugin(tmp_path, api, "--cluster-events=true", NODE_NAME="") as node:
        node.plugin.start()
        node.wait_healthy(8)
        node.plugin.wait_for_log("set NODE_NAME from spec.nodeName")
        assert api.requests == []


def test_labels_once_by_the_api(tmp_path: Path, api: FakeApi) -> None:
    with plugin(tmp_path, api) as node:
        words = ("labels", f"--driver=fake:{node.machine}", "--oneshot", "--labels-publish=node")
        node.command(*words)
        assert labels(api)["nvidia.com/gpu.count"] == "8"
        printed = node.command(*words, "--output=-").stdout
        assert "nvidia.com/gpu.count=8\n" in printed
        assert api.count("patch", "nodes") == 1
        api.fail("patch", "nodes", code=403)
        done = node.command(*words, check=False)
        assert done.returncode == 1
        assert 'cannot patch resource "nodes"' in done.stderr


def test_labels_by_the_api_without_the_nodes_name(tmp_path: Path, api: FakeApi) -> None:
    with plugin(tmp_path, api, NODE_NAME="") as node:
        done = node.command(
            "labels", f"--driver=fake:{node.machine}", "--oneshot", "--use-node-feature-api", check=False
        )
        assert done.returncode == 1
        assert "set NODE_NAME" in done.stderr
