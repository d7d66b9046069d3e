"""Values that cannot be are refused: by a sentence of the templates, or by the schema."""

from typing import Any

import helm_python
import pytest

from tests.charting.cases import CDI, MPS
from tests.charting.helm import refusal, render


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"migStrategy": "mixed", "config": {"map": {"a": MPS}}}, "config.map.a shares by MPS under migStrategy mixed"),
        (
            {"config": {"map": {"a": "flags: {migStrategy: single}\n" + MPS}}},
            "config.map.a shares by MPS under migStrategy",
        ),
        (
            {"config": {"map": {"a": MPS + "  timeSlicing: {}\n"}}},
            "config.map.a has sharing.mps and sharing.timeSlicing",
        ),
        ({"deviceListStrategy": "cdi-cri"}, "set nvidiaDriverRoot to where the driver is on the host"),
        ({"deviceListStrategy": ["envvar", "cdi-annotations"]}, "set nvidiaDriverRoot"),
        ({"config": {"map": {"a": CDI}}}, "set nvidiaDriverRoot"),
        ({"config": {"name": "c"}, "deviceListStrategy": "cdi-cri"}, "set nvidiaDriverRoot"),
        ({"deviceListStrategy": []}, "deviceListStrategy is an empty list, and pods would get no GPU: name one of"),
        ({"config": {"name": "c", "map": {"a": "{}"}}}, "config.name and config.map are both given"),
        ({"config": {"default": "b", "map": {"a": "{}"}}}, "config.default b is no file of config.map (a)"),
        ({"config": {"map": {"a": "a: b: c"}}}, "config.map.a is not YAML"),
        (
            {"config": {"map": {n: f"flags: {{nvidiaDriverRoot: /{n}}}" for n in ("a", "b")}}},
            "several nvidiaDriverRoot (/a, /b)",
        ),
        ({"mps": {"enabled": True}}, "mps.enabled=true, but no file of config.map has sharing.mps"),
        ({"mps": {"enabled": True}, "config": {"name": "c"}, "migStrategy": "mixed"}, "MPS is for whole GPUs"),
        ({"mps": {"enabled": True}, "config": {"name": "c"}, "devicePlugin": {"enabled": False}}, "nobody would hand"),
        (
            {"daemon": {"stateDir": ""}, "config": {"map": {"a": MPS, "b": "{}"}}},
            "the MPS control daemon reads there which configuration",
        ),
        ({"image": {"repository": "nvcr.io/nvidia/k8s-device-plugin"}}, "is NVIDIA's own plugin"),
        ({"driver": {"access": "mounted"}, "runtimeClassName": "nvidia"}, "drop runtimeClassName"),
        ({"driver": {"access": "mounted"}, "nvidiaDriverRoot": "/opt"}, "set nvidiaDevRoot=/"),
        ({"driver": {"access": "mounted"}, "securityContext": {"runAsUser": 0}}, "add privileged: true"),
        (
            {"compatWithCPUManager": True, "nvidiaDriverRoot": "/opt", "nvidiaDevRoot": "/"},
            "nvidiaDevRoot / is outside nvidiaDriverRoot /opt",
        ),
        ({"deviceDiscoveryStrategy": "tegra"}, "stay with NVIDIA's plugin on Tegra nodes"),
        (
            {"metrics": {"enabled": False}, "monitoring": {"podMonitor": {"enabled": True}}},
            "needs metrics.enabled=true",
        ),
        (
            {"metrics": {"basicAuthSecret": "users"}, "monitoring": {"podMonitor": {"enabled": True}}},
            "metrics.basicAuthSecret users asks for a password, and Prometheus has none",
        ),
        (
            {"monitoring": {"podMonitor": {"enabled": True, "basicAuthSecret": "scraper"}}},
            "monitoring.podMonitor.basicAuthSecret scraper would be sent to a plugin that asks nobody",
        ),
        (
            {
                "metrics": {"tlsSecret": "tls", "clientCA": True},
                "monitoring": {"podMonitor": {"enabled": True, "endpoint": {"tlsConfig": {"serverName": "gpu"}}}},
            },
            "metrics.clientCA asks for a client's certificate, and Prometheus has none",
        ),
        ({"metrics": {"clientCA": True}}, "metrics.clientCA needs metrics.tlsSecret"),
        (
            {"devicePlugin": {"enableHostNetwork": True}, "updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
            "two pods on a node cannot have one metrics port",
        ),
        ({"namespaceOverride": "default"}, "set allowDefaultNamespace=true"),
        ({"migStrategy": "mixt"}, "/migStrategy"),
        ({"deviceListStrategy": "cdi"}, "/deviceListStrategy"),
        ({"gdsEnabled": "yes"}, "/gdsEnabled"),
        ({"nvidiaDriverRoot": "run/nvidia"}, "/nvidiaDriverRoot"),
        ({"fullnameOverride": "GPU_plugin"}, "/fullnameOverride"),
        ({"namespaceOverride": "Foo_Bar"}, "/namespaceOverride"),
        ({"nameOverride": "n_1"}, "/nameOverride"),
        ({"config": {"name": "A_B"}}, "/config/name"),
        ({"runtimeClassName": "Nvidia"}, "/runtimeClassName"),
        ({"config": {"map": {"a": "flags: [1]"}}}, "config.map.a: flags must be a mapping, and is [1]"),
        ({"config": {"map": {"a": "flags: {plugin: x}"}}}, 'config.map.a: flags.plugin must be a mapping, and is "x"'),
        ({"config": {"map": {"a": "sharing: mps"}}}, 'config.map.a: sharing must be a mapping, and is "mps"'),
        ({"config": {"map": {"a": "sharing: {mps: 3}"}}}, "config.map.a: sharing.mps must be a mapping, and is 3"),
        ({"config": {"map": {"a": "imex: 1"}}}, "config.map.a: imex must be a mapping, and is 1"),
        (
            {"config": {"map": {"a": "flags: {plugin: {deviceListStrategy: 5}}"}}},
            "config.map.a: flags.plugin.deviceListStrategy must be a name or a list of names, and is 5",
        ),
        ({"cluster": None}, "missing property 'cluster'"),
    ],
)
def test_values_that_cannot_be_are_refused_with_a_sentence(values: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(values)


def test_all_conflicts_are_told_at_once() -> None:
    said = refusal({"deviceListStrategy": "cdi-cri", "config": {"default": "b", "map": {"a": "{}"}}})
    assert "set nvidiaDriverRoot" in said
    assert "config.default b" in said


def test_the_default_namespace_is_taken_when_it_is_allowed() -> None:
    with pytest.raises(helm_python.HelmError, match="allowDefaultNamespace"):
        render(namespace="default")
    assert render({"allowDefaultNamespace": True}, namespace="default").one("DaemonSet")
