"""A real Prometheus scrapes a running node: dashboard, alerts and metrics as their users get them."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.fake_kubelet import Pod
from tests.node import GPU, FakeNode
from tests.ports import free_port, scrape
from tests.prometheus import Prometheus
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs("prometheus", "promtool"), pytest.mark.timeout(180)]

MONITORING = Path(__file__).parents[2] / "daemonset" / "monitoring"
RUNBOOKS = (MONITORING.parents[1] / "docs" / "runbooks.md").read_text()
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
RULES: dict[str, Any] = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())["spec"]
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]


class Scraped(NamedTuple):
    node: FakeNode
    address: str
    prometheus: Prometheus


def promtool(*words: str, text: str | None = None, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["promtool", *words], input=text, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A node where pods hold GPUs and one GPU has had an Xid, and a Prometheus that has scraped it for a while."""
    home = tmp_path_factory.mktemp("scraped")
    address = f"127.0.0.1:{free_port()}"
    arguments = [f"--metrics-address={address}", "--metrics-interval=0.2s"]
    with FakeNode(home, "hgx-h100-8", arguments) as node:
        node.plugin.start()
        node.wait_healthy(8, timeout=30)
        with Prometheus(home, [address], RULES) as prometheus:
            admit(node, "train-0", 4)
            settled(prometheus, "sum(gpu_device_plugin_allocated_devices) == 4")
            node.control("load", "0", "0.7")
            node.control("xid", "3", "79")
            node.wait_healthy(7, 1, timeout=30)
            admit(node, "train-1", 2)
            settled(prometheus, "sum(gpu_device_plugin_allocated_devices) == 6")
            settled(prometheus, "count_over_time(gpu_device_plugin_xid_total[1m]) >= 3")
            settled(prometheus, 'rate(gpu_device_plugin_preferred_allocation_total{size="2"}[10s])')
            yield Scraped(node, address, prometheus)


def admit(node: FakeNode, name: str, gpus: int) -> None:
    node.kubelet.admit(Pod(name, namespace="research", containers={"main": {GPU: gpus}}))


def settled(prometheus: Prometheus, expression: str) -> None:
    wait_until(lambda: prometheus.query(expression), timeout=30, what=expression)


def test_prometheus_takes_the_scrape(scraped: Scraped) -> None:
    (target,) = scraped.prometheus.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_promtool_finds_nothing_to_say_about_the_scrape(scraped: Scraped) -> None:
    checked = promtool("check", "metrics", text=scrape(scraped.address))
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(("title", "expression"), QUERIES, ids=[f"{title} {n}" for n, (title, _) in enumerate(QUERIES)])
def test_every_query_of_the_dashboard_has_data(scraped: Scraped, title: str, expression: str) -> None:
    ready = expression.replace("$node", ".*").replace("$__rate_interval", "10s").replace("$__range", "1m")
    assert "$" not in ready
    series = wait_until(lambda: scraped.prometheus.query(ready), timeout=15, what=f"data of {title}: {ready}")
    assert all(one["value"][1] != "NaN" or "histogram_quantile" in ready for one in series)


def test_dashboard_queries_name_only_metrics_that_there_are(scraped: Scraped) -> None:
    known = set(scraped.prometheus.get("label/__name__/values"))
    named = {name for _, query in QUERIES for name in re.findall(r"\bgpu_\w+", query)}
    assert named - known == set()


def test_the_dashboard_has_what_a_fleet_asks_for() -> None:
    titles = {panel["title"] for panel in PANELS}
    assert {"Allocation", "Health", "TP groups by NVLink domains spanned", "Free blocks", "SM utilisation"} <= titles
    lined = [panel for panel in PANELS if panel["fieldConfig"]["defaults"]["custom"].get("thresholdsStyle")]
    assert lined
    for panel in lined:
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"] == 0.4


def test_panels_do_not_overlap() -> None:
    places: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24
                assert places.setdefault((x, y), panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_an_xid_raises_its_alert_in_prometheus(scraped: Scraped) -> None:
    wait_until(lambda: ("GpuUnhealthy", "pending") in scraped.prometheus.alerts(), what="the alert")
    (unhealthy,) = scraped.prometheus.query('gpu_device_plugin_unhealthy{reason="xid-79"}')
    assert unhealthy["metric"]["uuid"].startswith("GPU-")


def test_alerts_on_a_sound_plugin_stay_quiet(scraped: Scraped) -> None:
    names = {name for name, _ in scraped.prometheus.alerts()}
    assert names <= {"GpuUnhealthy", "GpuAllocatedButIdle", "GpuUtilizationLow"}


def test_a_pod_that_is_gone_leaves_no_series(scraped: Scraped) -> None:
    admit(scraped.node, "short", 1)
    settled(scraped.prometheus, 'gpu_utilization_ratio{pod="short"}')
    scraped.node.kubelet.delete("short", namespace="research")
    wait_until(lambda: not scraped.prometheus.query('gpu_utilization_ratio{pod="short"}'), what="the end of its series")


def rules_folder(folder: Path) -> Path:
    (folder / "rules.yaml").write_text(yaml.safe_dump(RULES))
    (folder / "alerts.test.yaml").write_text((MONITORING / "alerts.test.yaml").read_text())
    return folder


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    checked = promtool("check", "rules", "rules.yaml", folder=rules_folder(tmp_path))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_fires_when_it_should_and_not_else(tmp_path: Path) -> None:
    done = promtool("test", "rules", "alerts.test.yaml", folder=rules_folder(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_each_alert_has_cases_and_a_runbook(alert: dict[str, Any]) -> None:
    cases = yaml.safe_load((MONITORING / "alerts.test.yaml").read_text())["tests"]
    mine = [one for case in cases for one in case["alert_rule_test"] if one["alertname"] == alert["alert"]]
    assert any(one.get("exp_alerts") for one in mine)
    assert any(not one.get("exp_alerts") for one in mine)
    assert alert["annotations"]["runbook_url"] == f"docs/runbooks.md#{alert['alert'].lower()}"
    assert f"\n## {alert['alert']}\n" in RUNBOOKS


def test_no_runbook_is_left_without_its_alert() -> None:
    assert set(re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE)) == {alert["alert"] for alert in ALERTS}
