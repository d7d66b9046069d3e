"""The chart's values: NVIDIA's are all known, each does something or says why not, and anything else is refused."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from deviceplugin.config.options import OPTIONS
from tests.charting.cases import MPS, TIME_SLICED
from tests.charting.helm import CHART, Rendered, defaults, refusal, render
from tests.charting.places import merged, nest, variables
from tests.charting.upstream import DEFAULTS, GIVEN

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
BY_THE_CHART = {
    "CONFIG_DIR": "config.name and config.map mount it",
    "CONFIG_FILE": "config.name and config.map are the way",
    "CONFIG_NAME": "chosen by config.default and the node label",
    "DEFAULT_CONFIG": "config.default",
    "FALLBACK_STRATEGIES": "config.fallbackStrategies",
    "NODE_NAME": "a field of the pod",
    "KUBELET_SOCKET": "kubelet.devicePlugins",
    "POD_RESOURCES_SOCKET": "kubelet.podResources",
    "PLUGINS_REGISTRY": "kubelet.pluginsRegistry",
    "STATE_DIR": "daemon.stateDir",
    "METRICS_ADDRESS": "metrics.enabled and metrics.port",
    "METRICS_PODS": "metrics.pods",
    "METRICS_TLS_CERT": "metrics.tlsSecret",
    "METRICS_TLS_KEY": "metrics.tlsSecret",
    "METRICS_TLS_CLIENT_CA": "metrics.clientCA",
    "METRICS_BASIC_AUTH_FILE": "metrics.basicAuthSecret",
    "LABELS_PUBLISH": "labels.publish and gfd.enabled",
    "MPS_ROOT": "mps.root",
    "CLUSTER_CONFIG_LABEL": "cluster.configLabel",
    "CLUSTER_EVENTS": "cluster.events",
    "CLUSTER_CONDITION": "cluster.condition",
}
OUT_OF_THE_CHART = {
    "DRIVER": "a pretend driver has no place in a cluster",
    "HOST_ROOT": "the driver's root and /dev are mounted one by one",
    "CONTROL_SOCKET": "the probes' own folder",
    "DRIVER_ROOT_CTR_PATH": "mounted at /driver-root",
    "GFD_ONESHOT": "a pod that ends would be started again",
    "GFD_OUTPUT_FILE": "the folder that node-feature-discovery reads",
    "GFD_MACHINE_TYPE_FILE": "the node's own",
    "USE_NODE_FEATURE_API": "labels.publish=node-feature",
    "RESTART_ON_DEVICE_UNHEALTHY": "no effect",
}


def settings(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every section of the schema that lists its keys."""
    if schema.get("additionalProperties") is False and "properties" in schema:
        yield path, schema
        for name, inner in schema["properties"].items():
            yield from settings(inner, f"{path}.{name}".removeprefix("."))


def keys(values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        here = f"{path}.{name}".removeprefix(".")
        if isinstance(value, dict) and value:
            yield from keys(value, here)
        else:
            yield here


def test_a_values_file_that_copies_all_of_nvidias_defaults_renders() -> None:
    rendered = render(DEFAULTS)
    assert rendered.env["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert rendered.pod["affinity"] == DEFAULTS["affinity"]
    assert rendered.container["securityContext"] == render().container["securityContext"]


@pytest.mark.parametrize("key", GIVEN)
def test_each_of_nvidias_keys_does_something_or_says_why_not(key: str) -> None:
    value, others = GIVEN[key]
    before, after = render(others), render(merged(others, nest(key, value)))
    said = [line for line in after.notes.splitlines() if line.startswith("- ") and line not in before.notes]
    assert after.objects != before.objects or any(key in line for line in said)


def test_every_key_of_nvidias_is_tried() -> None:
    tried = {*GIVEN, "allowDefaultNamespace"}
    for key in keys(DEFAULTS):
        assert any(key == known or key.startswith(f"{known}.") for known in tried), key


@pytest.mark.parametrize("section", dict(settings(SCHEMA)))
def test_a_key_that_nobody_knows_is_refused(section: str) -> None:
    key = f"{section}.unheardOf".removeprefix(".")
    assert "additional properties 'unheardOf' not allowed" in refusal(nest(key, 1))


def test_every_value_is_in_the_schema_and_every_key_of_the_schema_has_a_value() -> None:
    sections = dict(settings(SCHEMA))
    listed = {
        f"{path}.{name}".removeprefix(".") for path, section in sections.items() for name in section["properties"]
    }
    leaves = listed - set(sections) - {"global", "devicePlugin.containers.main.env"}
    written = set(keys(defaults()))
    raw = yaml.safe_load((CHART / "values.yaml").read_text())
    written |= set(keys(raw))
    missing = {key for key in leaves if not any(w == key or w.startswith(f"{key}.") for w in written)}
    assert missing == set()


def test_every_option_of_the_program_can_be_set_by_a_value() -> None:
    table = variables()
    for option in OPTIONS:
        if option.idle or not option.variables:
            continue
        reached = {*table.values(), *BY_THE_CHART, *OUT_OF_THE_CHART}
        assert reached & set(option.variables), f"no value sets {option.variables[0]}"
    known = {variable for option in OPTIONS for variable in option.variables}
    assert {*table.values(), *BY_THE_CHART, *OUT_OF_THE_CHART} <= known


def test_an_upgrade_of_nvidias_release_finds_its_own_daemonset() -> None:
    daemonset = render(name="nvdp").one("DaemonSet")
    assert daemonset["metadata"]["name"] == "nvdp-nvidia-device-plugin"
    selector = daemonset["spec"]["selector"]["matchLabels"]
    assert selector == {"app.kubernetes.io/name": "nvidia-device-plugin", "app.kubernetes.io/instance": "nvdp"}
    assert selector.items() <= daemonset["spec"]["template"]["metadata"]["labels"].items()


def test_variables_of_ones_own_win() -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, {"name": "LOG_LEVEL", "value": "debug"}]
    rendered = render({"devicePlugin": {"containers": {"main": {"env": env}}}, "log": {"level": "error"}})
    assert rendered.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert rendered.env["LOG_LEVEL"] == "debug"
    names = [variable["name"] for variable in rendered.container["env"]]
    assert sorted(names) == sorted(set(names))


def selector_of(rendered: Rendered, name_ends: str) -> dict[str, str]:
    found = [d for d in rendered.all("DaemonSet") if d["metadata"]["name"].endswith(name_ends)]
    selector: dict[str, str] = found[0]["spec"]["selector"]["matchLabels"]
    return selector


def test_the_mps_daemons_pods_are_not_the_plugins() -> None:
    rendered = render({"config": {"map": {"default": MPS, "sliced": TIME_SLICED}}})
    mps, plugin = selector_of(rendered, "-mps"), selector_of(rendered, "-nvidia-device-plugin")
    assert not plugin.items() <= mps.items()
    for daemonset in rendered.all("DaemonSet"):
        labels = daemonset["spec"]["template"]["metadata"]["labels"]
        assert daemonset["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_one_container_without_init_or_side_cars() -> None:
    rendered = render({"config": {"map": {"default": TIME_SLICED, "b": "{}"}}, "gfd": {"enabled": True}})
    assert len(rendered.all("DaemonSet")) == 1
    assert len(rendered.pod["containers"]) == 1
    assert "initContainers" not in rendered.pod


def test_it_runs_on_every_node_and_only_a_runtime_class_keeps_it_to_some() -> None:
    assert render().pod["tolerations"] == [{"operator": "Exists"}]
    assert "affinity" not in render().pod
    assert "affinity" not in render({"runtimeClassName": "nvidia", "affinity": {}}).pod
    assert "affinity" not in render({"runtimeClassName": "nvidia", "nodeSelector": {"a": "b"}}).pod
    affinity = json.dumps(render({"runtimeClassName": "nvidia"}).pod["affinity"])
    assert "nvidia.com/gpu.present" in affinity
    assert "pci-10de" in affinity


def test_updates_never_put_two_plugins_on_a_node() -> None:
    assert render().one("DaemonSet")["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0


def test_probes_ask_the_plugin_itself() -> None:
    container = render().container
    assert container["livenessProbe"]["exec"]["command"] == ["gpu-device-plugin", "health", "live"]
    assert container["readinessProbe"]["exec"]["command"] == ["gpu-device-plugin", "health", "ready"]
    assert render().mounts["/run/gpu-device-plugin"] == ("", True)


def test_labels_only_serves_nothing() -> None:
    rendered = render({"devicePlugin": {"enabled": False}, "gfd": {"enabled": True}})
    assert rendered.container["args"] == ["labels"]
    assert set(rendered.mounts) == {"/etc/kubernetes/node-feature-discovery/features.d"}
    assert "only publishes node labels" in rendered.notes


@pytest.mark.parametrize(("word", "text"), [("on", "on"), (True, "on"), ("off", "off"), (False, "off")])
def test_on_and_off_mean_the_same_without_quotes(word: object, text: str) -> None:
    rendered = render({"metrics": {"pods": word}})
    assert rendered.env["METRICS_PODS"] == text
    assert ("/var/lib/kubelet/pod-resources" in rendered.mounts) == (text == "on")
    if text == "off":
        assert render({"labels": {"publish": word}, "gfd": {"enabled": True}}).env["LABELS_PUBLISH"] == "off"


def test_nothing_wanted_is_nothing_installed() -> None:
    assert render({"devicePlugin": {"enabled": False}}).objects == ()


DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ({"repository": "r/p", "tag": "1.0"}, "r/p:1.0"),
        ({"repository": "r/p", "tag": 12}, "r/p:12"),
        ({"repository": "r/p", "tag": DIGEST}, f"r/p@{DIGEST}"),
        ({"repository": f"r/p@{DIGEST}"}, f"r/p@{DIGEST}"),
    ],
)
def test_an_image_is_named_by_tag_or_digest(image: dict[str, Any], text: str) -> None:
    assert render({"image": image}).container["image"] == text


@pytest.mark.parametrize("name", ["g" * 70, "a" * 50 + "-" * 20 + "b", "a" * 43 + "---" + "b" * 40])
@pytest.mark.parametrize("key", ["fullnameOverride", "nameOverride"])
def test_names_too_long_end_where_a_name_may_end(key: str, name: str) -> None:
    rendered = render({key: name, "config": {"map": {"a": "{}"}}, "cluster": {"events": True}})
    names = [o["metadata"]["name"] for o in rendered.objects]
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", one) for one in names), names
    assert len({(o["kind"], o["metadata"]["name"]) for o in rendered.objects}) == len(rendered.objects)
