"""D1 to D3 of the faults: what the chart asks of a cluster, held against the process that it runs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench.measure import cpu
from tests.charting.cases import MATRIX, MPS
from tests.charting.helm import render
from tests.fake_api import FakeApi
from tests.node import FakeNode
from tests.ports import free_port
from tests.seen import Seen
from tests.waiting import wait_until

NODE = "worker-1"
SHARES = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 64}]}}\nversion: v1\n"
SCALE = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


@contextmanager
def deployed(home: Path, machine: str, *more: str, api: FakeApi | None = None, **values: Any) -> Iterator[FakeNode]:
    """A node whose plugin starts with the variables that the chart gives it; only paths and port are the node's own."""
    environment = render(values).env | {"NODE_NAME": NODE, "METRICS_ADDRESS": f"127.0.0.1:{free_port()}"}
    own = [f"--metrics-address={environment['METRICS_ADDRESS']}", *more]
    kubeconfig = {"KUBECONFIG": str(api.kubeconfig(home))} if api else {}
    with FakeNode(home, machine, own, environment | kubeconfig) as node:
        node.plugin.start()
        yield node


def probe(node: FakeNode, which: str) -> int:
    return node.command("health", which, f"--control-socket={node.control_socket()}", check=False).returncode


def bytes_of(quantity: str) -> int:
    """A quantity of Kubernetes as the chart writes memory."""
    return int(quantity[:-2]) * SCALE[quantity[-2:]]


def peak(pid: int) -> int:
    """Most bytes that a process ever had resident."""
    (line,) = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def test_D1_no_label_taint_or_runtime_decides_where_it_runs() -> None:
    pod = render().pod
    assert not {"nodeSelector", "affinity", "runtimeClassName"} & set(pod)
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert "initContainers" not in pod


def test_D1_a_node_without_gpus_is_idle_quiet_and_not_restarted(tmp_path: Path) -> None:
    with deployed(tmp_path, "none") as node:
        node.plugin.wait_for_log("metrics and status page")
        wait_until(lambda: probe(node, "ready") == 0, what=f"a ready plugin\n{node.plugin.log}")
        lines, used = len(node.plugin.log.splitlines()), cpu(node.plugin.pid)
        assert [probe(node, "live") for _ in range(10)] == [0] * 10
        assert len(node.plugin.log.splitlines()) == lines
        assert cpu(node.plugin.pid) - used < 0.3
        assert lines < 20
        assert "ERROR" not in node.plugin.log
        assert node.kubelet.resources == {}
        assert node.plugin.stop() == 0


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_D2_no_privilege_without_its_reason(values: Mapping[str, Any]) -> None:
    for daemonset in render(values).all("DaemonSet"):
        pod = daemonset["spec"]["template"]["spec"]
        why = daemonset["metadata"].get("annotations", {}).get("gpu-device-plugin/privilege", "")
        if values.get("securityContext"):
            continue
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["runAsUser"] == 0
            assert context["readOnlyRootFilesystem"]
            if context.get("privileged"):
                assert "privileged - " in why
                continue
            added = context["capabilities"].get("add", [])
            assert context["capabilities"]["drop"] == ["ALL"]
            assert added in ([], ["SYS_ADMIN"])
            assert bool(added) == ("SYS_ADMIN - " in why)
            assert not context["allowPrivilegeEscalation"]
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert bool(pod.get("hostPID")) == ("host PIDs - " in why)


def test_D2_by_default_there_is_nothing_to_give_a_reason_for() -> None:
    rendered = render()
    assert "add" not in rendered.container["securityContext"]["capabilities"]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(rendered.pod)
    assert not rendered.pod["automountServiceAccountToken"]
    assert not rendered.all("ClusterRole")
    assert {path for path, (_, writable) in rendered.mounts.items() if writable} == {
        "/run/gpu-device-plugin",
        "/var/lib/kubelet/device-plugins",
        "/var/lib/gpu-device-plugin",
    }


DOOR: dict[str, Any] = {
    "cluster": {"configLabel": False, "events": True, "condition": True},
    "labels": {"publish": "node"},
}


def busy(home: Path, machine: str, *more: str, api: FakeApi | None = None, **values: Any) -> int:
    """Most bytes that a process used that lists, reports a fault, is scraped and, with an API, tells the cluster."""
    home.mkdir()
    with deployed(home, machine, "--metrics-interval=0.2s", *more, api=api, **values) as node:
        node.plugin.wait_for_log("metrics and status page")
        wait_until(lambda: node.health()[0], timeout=30, what="a list")
        healthy = len(node.health()[0])
        node.control("xid", "3", "79")
        wait_until(lambda: 0 < len(node.health()[0]) < healthy, timeout=30, what="a list without GPU 3")
        if api:
            wait_until(lambda: api.books.all("events"), timeout=20, what="an event")
            wait_until(lambda: api.count("patch", "nodes"), timeout=20, what="labels")
        page = Seen(node, node.environment["METRICS_ADDRESS"])
        assert all(page.get(path) for path in ("/", "/status", "/metrics"))
        return peak(node.plugin.pid)


def test_D3_all_that_a_busy_process_uses_is_requested_and_twice_that_is_the_limit(tmp_path: Path) -> None:
    shares = tmp_path / "shares.yaml"
    shares.write_text(SHARES)
    with FakeApi() as api:
        api.books.add("nodes", NODE)
        used = busy(tmp_path / "node", "dgx2-v100-16", f"--config-file={shares}", api=api, **DOOR)
    asked = render(DOOR).container["resources"]
    assert used < bytes_of(asked["requests"]["memory"]), f"{used / SCALE['Mi']:.0f} MiB"
    assert used * 2 < bytes_of(asked["limits"]["memory"]), f"{used / SCALE['Mi']:.0f} MiB"
    assert "cpu" not in asked["limits"], "a throttled plugin is late for the kubelet"


def test_D3_the_cluster_door_costs_at_most_25_mb(tmp_path: Path) -> None:
    without = busy(tmp_path / "without", "hgx-h100-8")
    with FakeApi() as api:
        api.books.add("nodes", NODE)
        assert busy(tmp_path / "with", "hgx-h100-8", api=api, **DOOR) - without < 25_000_000


def test_D3_what_nobody_measured_has_no_limit() -> None:
    (daemon,) = [
        o for o in render({"config": {"map": {"a": MPS}}}).all("DaemonSet") if o["metadata"]["name"].endswith("-mps")
    ]
    containers = daemon["spec"]["template"]["spec"]["containers"]
    assert [c.get("resources") for c in containers] == [None], "NVIDIA's daemon grows with its clients"
