"""Monitoring objects of the chart are the files in daemonset/monitoring, switched on one by one."""

import json

import pytest
import yaml

from tests.charting.helm import ROOT, render

MONITORING = ROOT / "daemonset" / "monitoring"


def test_the_rules_are_those_of_the_file() -> None:
    rule = render({"monitoring": {"prometheusRule": {"enabled": True, "labels": {"release": "p"}}}}).one(
        "PrometheusRule"
    )
    assert rule["spec"] == yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())["spec"]
    assert rule["metadata"]["labels"]["release"] == "p"


def test_the_pod_monitor_finds_the_pods_and_relabels_as_the_rules_expect() -> None:
    values = {"podMonitor": {"enabled": True, "endpoint": {"tlsConfig": {"insecureSkipVerify": True}}}}
    rendered = render({"monitoring": values, "metrics": {"tlsSecret": "tls"}})
    spec = rendered.one("PodMonitor")["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    (of_file,) = yaml.safe_load((MONITORING / "podmonitor.yaml").read_text())["spec"]["podMetricsEndpoints"]
    assert endpoint["relabelings"] == of_file["relabelings"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
    assert endpoint["port"] == rendered.container["ports"][0]["name"]
    labels = rendered.one("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()


def test_prometheus_is_given_the_password_that_the_plugin_asks_for() -> None:
    values = {"podMonitor": {"enabled": True, "basicAuthSecret": "scraper"}}
    rendered = render({"monitoring": values, "metrics": {"basicAuthSecret": "users"}})
    (endpoint,) = rendered.one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint["basicAuth"] == {
        "username": {"name": "scraper", "key": "username"},
        "password": {"name": "scraper", "key": "password"},
    }
    secrets = [v["secret"]["secretName"] for v in rendered.pod["volumes"] if "secret" in v]
    assert secrets == ["users"]


def test_a_password_in_an_endpoint_of_ones_own_is_left_as_it_is() -> None:
    own = {"authorization": {"type": "Basic", "credentials": {"name": "s", "key": "k"}}}
    values = {"podMonitor": {"enabled": True, "endpoint": own}}
    rendered = render({"monitoring": values, "metrics": {"basicAuthSecret": "users"}})
    (endpoint,) = rendered.one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"] == own["authorization"]
    assert "basicAuth" not in endpoint


def test_every_dashboard_is_in_the_config_map() -> None:
    data = render({"monitoring": {"dashboard": {"enabled": True}}}).one("ConfigMap")["data"]
    assert {name: json.loads(text) for name, text in data.items()} == {
        path.name: json.loads(path.read_text()) for path in MONITORING.glob("*.json")
    }


@pytest.mark.parametrize(
    ("values", "ingress", "egress"),
    [
        ({}, [{"ports": [{"port": 9400, "protocol": "TCP"}]}], []),
        ({"metrics": {"enabled": False}}, [], []),
        (
            {"cluster": {"events": True}, "metrics": {"port": 9500}},
            [{"ports": [{"port": 9500, "protocol": "TCP"}]}],
            [{"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]}],
        ),
    ],
)
def test_the_network_policy_lets_in_scrapes_and_out_what_the_cluster_door_needs(
    values: dict[str, object], ingress: list[object], egress: list[object]
) -> None:
    policy = render({**values, "networkPolicy": {"enabled": True}}).one("NetworkPolicy")["spec"]
    assert (policy["ingress"], policy["egress"]) == (ingress, egress)
    assert policy["policyTypes"] == ["Ingress", "Egress"]
