"""What the plugin asks of the API server, and what the chart permits it: the same, switch by switch."""

from pathlib import Path
from typing import Any

import pytest

from tests.charting.helm import Rendered, render
from tests.fake_api import FakeApi
from tests.fake_kubelet import Pod
from tests.node import GPU, FakeNode
from tests.waiting import NotYet, wait_until

NODE = "worker-1"
SWITCHES = ("CLUSTER_CONFIG_LABEL", "CLUSTER_EVENTS", "CLUSTER_CONDITION", "LABELS_PUBLISH")

CASES: list[tuple[str, dict[str, Any], set[tuple[str, str]]]] = [
    ("configLabel", {"cluster": {"configLabel": True}}, {("get", "nodes"), ("watch", "nodes")}),
    ("events", {"cluster": {"events": True}}, {("create", "events"), ("get", "pods")}),
    (
        "condition",
        {"cluster": {"condition": True}},
        {("get", "nodes"), ("patch", "nodes"), ("patch", "nodes/status")},
    ),
    ("labels on the node", {"labels": {"publish": "node"}}, {("patch", "nodes")}),
    ("labels as a feature", {"labels": {"publish": "node-feature"}}, {("patch", "nodefeatures")}),
]


def permitted(rendered: Rendered) -> set[tuple[str, str]]:
    return {
        (verb, resource)
        for role in rendered.all("ClusterRole") + rendered.all("Role")
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize(("values", "needed"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_switch_asks_for_what_it_is_permitted(
    values: dict[str, Any], needed: set[tuple[str, str]], tmp_path: Path
) -> None:
    rendered = render(values)
    with FakeApi() as api:
        api.books.add("nodes", NODE, metadata={"labels": {}})
        api.books.add("pods", "busy", namespace="default", metadata={"uid": "4711"})
        switches = {name: text for name, text in rendered.env.items() if name in SWITCHES}
        environment = {"KUBECONFIG": str(api.kubeconfig(tmp_path)), "NODE_NAME": NODE, **switches}
        options = ["--health-interval=200ms", "--metrics-interval=200ms"]
        with FakeNode(tmp_path, arguments=options, environment=environment) as node:
            node.plugin.start()
            node.wait_healthy(8)
            grant = node.kubelet.admit(Pod("busy", containers={"main": {GPU: 8}}))["main"]
            assert len(grant.all_ids) == 8
            node.control("xid", "3", "79")
            node.wait_healthy(7, 1)

            def asked() -> set[tuple[str, str]]:
                return {(one.verb, one.resource) for one in list(api.requests)}

            wait_until(
                lambda: needed <= asked() or NotYet(f"{asked()}\n{node.plugin.log}"), what="every request of the switch"
            )
            node.plugin.stop()
            assert asked() <= permitted(rendered)
            # A server-side apply of an object that is not there yet needs `create` too, which no request shows.
            assert permitted(rendered) - asked() <= {("create", "nodefeatures")}
