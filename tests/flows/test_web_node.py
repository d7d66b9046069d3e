"""What a running plugin shows: whose a GPU is (M1), figures over a driver that hangs (M2), in flat memory (M3)."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fake_kubelet import Pod
from tests.node import GPU, FakeNode
from tests.prometheus import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


class Seen:
    """A node whose plugin shows itself on a port."""

    def __init__(self, node: FakeNode, address: str) -> None:
        self.node = node
        self.root = f"http://{address}"

    def get(self, path: str) -> str:
        """What is at a path, whatever its status."""
        try:
            with urllib.request.urlopen(self.root + path, timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()

    def samples(self, name: str, **labels: str) -> dict[str, float]:
        """Samples of a metric with these labels: label text -> value."""
        lines = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", self.get("/metrics"), re.MULTILINE)
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return {text: float(value) for text, value in lines if all(one in text for one in wanted)}

    def value(self, name: str) -> float:
        """The value of a metric without labels."""
        match = re.search(rf"^{name} (\S+)$", self.get("/metrics"), re.MULTILINE)
        assert match, name
        return float(match[1])

    def status(self) -> dict[str, Any]:
        """The status document."""
        return dict(json.loads(self.get("/status")))

    def wait(self, predicate: Callable[[], Any], what: str) -> None:
        """Waits for something to be seen."""
        wait_until(predicate, timeout=20, what=what, interval=0.05)


@pytest.fixture
def seen(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Seen]:
    """The parameters are the machine, then further options of the plugin."""
    machine, *options = getattr(request, "param", ("hgx-h100-8",))
    address = f"127.0.0.1:{free_port()}"
    arguments = [f"--metrics-address={address}", "--metrics-interval=0.2s", *options]
    with FakeNode(tmp_path, machine, arguments) as node:
        node.plugin.start()
        node.plugin.wait_for_log("metrics and status page")
        one = Seen(node, address)
        one.wait(lambda: 'state="serving"} 1' in one.get("/metrics"), "the node's state")
        one.wait(lambda: one.status()["sample"]["at"], "the first sample")
        yield one


def shared(tmp_path: Path, replicas: int) -> str:
    """A configuration of shared GPUs; its path."""
    path = tmp_path / "shared.yaml"
    path.write_text(
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
        f"    - name: nvidia.com/gpu\n      replicas: {replicas}\n"
    )
    return str(path)


def test_a_pod_is_named_on_its_gpus_until_it_is_gone(seen: Seen) -> None:
    seen.node.wait_healthy(8)
    admitted = seen.node.kubelet.admit(Pod("train", namespace="ml", containers={"main": {GPU: 2}}))
    seen.wait(lambda: seen.samples("gpu_utilization_ratio", pod="train"), "the pod's series")
    series = seen.samples("gpu_utilization_ratio", pod="train")
    uuids = admitted["main"].envs["NVIDIA_VISIBLE_DEVICES"].split(",")
    assert len(series) == 2
    assert all(any(f'uuid="{uuid}"' in text for text in series) for uuid in uuids)
    assert all('namespace="ml"' in text and 'container="main"' in text for text in series)
    assert len(seen.samples("gpu_utilization_ratio")) == 8
    seen.node.kubelet.delete("train", namespace="ml")
    seen.wait(lambda: not seen.samples("gpu_utilization_ratio", pod="train"), "the end of the pod's series")


def test_pods_on_a_shared_gpu_have_one_series_each(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    arguments = [f"--metrics-address={address}", "--metrics-interval=0.2s", f"--config-file={shared(tmp_path, 4)}"]
    with FakeNode(tmp_path, "t4x1", arguments) as node:
        node.plugin.start()
        node.wait_healthy(4)
        node.plugin.wait_for_log("metrics and status page")
        for name in ("a", "b", "c"):
            node.kubelet.admit(Pod(name, containers={"main": {GPU: 1}}))
        one = Seen(node, address)
        one.wait(lambda: len(one.samples("gpu_power_watts", resource=GPU)) == 3, "a series for each pod")
        assert len(one.samples("gpu_power_watts")) == 3


@pytest.mark.parametrize("seen", [("dgx-a100-8-mig-mixed", "--mig-strategy=mixed")], indirect=True)
def test_a_pod_on_a_mig_instance_is_named_on_it_and_on_its_card(seen: Seen) -> None:
    resource = "nvidia.com/mig-4g.20gb"
    seen.node.wait_healthy(1, resource=resource)
    seen.node.kubelet.admit(Pod("small", containers={"main": {resource: 1}}))
    seen.wait(lambda: seen.samples("gpu_mig_memory_total_bytes", pod="small"), "the pod's series")
    (instance,) = seen.samples("gpu_mig_memory_total_bytes", pod="small")
    assert 'mig_profile="4g.20gb"' in instance
    assert len(seen.samples("gpu_temperature_celsius", pod="small")) == 1


@pytest.mark.parametrize("seen", [("t4x1", "--metrics-pods=off")], indirect=True)
def test_pods_can_be_left_out(seen: Seen) -> None:
    seen.node.wait_healthy(1)
    seen.node.kubelet.admit(Pod("train", containers={"main": {GPU: 1}}))
    seen.wait(lambda: "allocations_total" in seen.get("/metrics"), "the allocation")
    assert 'pod="' not in seen.get("/metrics")
    assert "podresources_up" not in seen.get("/metrics")


def test_a_kubelet_without_pod_resources_is_a_state(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    options = [f"--metrics-address={address}", "--metrics-interval=0.2s", f"--pod-resources-socket={tmp_path / 'none'}"]
    with FakeNode(tmp_path, "t4x1", options) as node:
        node.plugin.start()
        node.plugin.wait_for_log("metrics and status page")
        one = Seen(node, address)
        one.wait(lambda: "gpu_device_plugin_podresources_up 0\n" in one.get("/metrics"), "the state")
        one.wait(lambda: one.samples("gpu_temperature_celsius"), "the figures")


def test_a_driver_that_hangs_holds_up_neither_scrape_nor_allocation(seen: Seen) -> None:
    seen.node.wait_healthy(8)
    seen.node.control("hang", "nvml*")
    try:
        seen.wait(lambda: seen.value("gpu_device_plugin_sample_age_seconds") > 1, "figures that grow old")
        seen.wait(
            lambda: seen.samples("gpu_device_plugin_nvml_call_age_seconds", thread="nvml-probe"), "the call's age"
        )
        ages = seen.samples("gpu_device_plugin_nvml_call_age_seconds", thread="nvml-probe")
        assert max(ages.values()) > 0.5
        assert len(seen.samples("gpu_utilization_ratio")) == 8
        assert seen.get("/healthz") == "ok\n"
        admitted = seen.node.kubelet.admit(Pod("train", containers={"main": {GPU: 1}}))
        assert admitted["main"].envs["NVIDIA_VISIBLE_DEVICES"].startswith("GPU-")
    finally:
        seen.node.control("release")
    seen.wait(lambda: seen.value("gpu_device_plugin_sample_age_seconds") < 1, "fresh figures")


def test_probes_follow_the_kubelet_and_health_does_not_restart_anything(seen: Seen) -> None:
    seen.node.wait_healthy(8)
    seen.wait(lambda: seen.get("/readyz") == "ok\n", "readiness")
    seen.node.control("xid", "3", "79")
    seen.node.wait_healthy(7, 1)
    assert (seen.get("/healthz"), seen.get("/readyz")) == ("ok\n", "ok\n")
    seen.node.kubelet.stop()
    seen.wait(lambda: GPU in seen.get("/readyz"), "a plugin that is not ready")
    assert seen.get("/healthz") == "ok\n"
    seen.wait(lambda: 0 in seen.samples("gpu_device_plugin_registered", resource=GPU).values(), "the metric")
    seen.node.kubelet.start()
    seen.wait(lambda: seen.get("/readyz") == "ok\n", "readiness")


def test_an_unhealthy_gpu_is_told_alike_in_log_metric_and_page(seen: Seen) -> None:
    seen.node.wait_healthy(8)
    seen.node.control("xid", "3", "79")
    seen.node.wait_healthy(7, 1)
    seen.wait(lambda: seen.samples("gpu_device_plugin_unhealthy", reason="xid-79"), "the metric")
    (unhealthy,) = seen.samples("gpu_device_plugin_unhealthy", reason="xid-79")
    assert seen.samples("gpu_device_plugin_health_transitions_total", to="unhealthy", reason="xid-79")
    assert list(seen.samples("gpu_device_plugin_xid_total", xid="79").values()) == [1]
    (shown,) = [one for one in seen.status()["transitions"] if one["reason"] == "xid-79"]
    (line,) = [line for line in seen.node.plugin.log.splitlines() if "reason=xid-79" in line]
    assert shown["uuid"] in unhealthy
    for told in (shown["uuid"], shown["pci"], shown["rule"], "xid=79"):
        assert told in line
    assert seen.node.status()["transitions"][-1]["reason"] == "xid-79"


@pytest.mark.parametrize("seen", [("t4x1", "--metrics-dcgm-names")], indirect=True)
def test_dcgm_names_are_there_on_demand(seen: Seen) -> None:
    assert seen.samples("DCGM_FI_DEV_GPU_TEMP", modelName="Tesla T4", device="nvidia0")


def test_a_configuration_that_is_refused_shows(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with FakeNode(tmp_path, "t4x1") as node:
        config = node.configure("version: v1\n")
        node.plugin.start(f"--config-file={config}", f"--metrics-address={address}", "--metrics-interval=0.2s")
        node.plugin.wait_for_log("metrics and status page")
        one = Seen(node, address)
        one.wait(lambda: one.value("gpu_device_plugin_config_last_reload_successful") == 1, "a good configuration")
        node.configure("version: v1\nflag: {}\n")
        one.wait(lambda: one.value("gpu_device_plugin_config_last_reload_successful") == 0, "a refused one")
        assert "flag" in one.status()["config"]["refused"]
        node.configure("version: v1\nflags: {}\nhealth: {quietPeriod: 30s}\n")
        one.wait(lambda: one.value("gpu_device_plugin_config_last_reload_successful") == 1, "a mended one")
        assert one.status()["config"]["reloads"]["success"] >= 1


def resident(pid: int) -> float:
    """MiB of memory of a process."""
    match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert match
    return int(match[1]) / 1024


def test_thousands_of_scrapes_leave_memory_flat(seen: Seen) -> None:
    def scrape(number: int) -> None:
        for _ in range(number):
            seen.get("/metrics")

    scrape(500)
    before = resident(seen.node.plugin.pid)
    scrape(2500)
    assert resident(seen.node.plugin.pid) - before < 1
