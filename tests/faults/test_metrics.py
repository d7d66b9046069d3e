"""M1 to M3 of the faults, and what H6 and R14 say of the port: seen on a running plugin."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_kubelet import Pod
from tests.node import GPU
from tests.seen import Seen, seeing

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[Seen]:
    with seeing(tmp_path) as one:
        yield one


def shared(tmp_path: Path, replicas: int) -> str:
    """A configuration of shared GPUs; its path."""
    path = tmp_path / "shared.yaml"
    path.write_text(
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
        f"    - name: nvidia.com/gpu\n      replicas: {replicas}\n"
    )
    return str(path)


def test_M1_a_pod_is_named_on_its_gpus_until_it_is_gone(seen: Seen) -> None:
    seen.node.wait_healthy(8, timeout=30)
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


def test_M1_pods_on_a_shared_gpu_have_one_series_each(tmp_path: Path) -> None:
    with seeing(tmp_path, "t4x1", [f"--config-file={shared(tmp_path, 4)}"]) as one:
        one.node.wait_healthy(4)
        for name in ("a", "b", "c"):
            one.node.kubelet.admit(Pod(name, containers={"main": {GPU: 1}}))
        one.wait(lambda: len(one.samples("gpu_power_watts", resource=GPU)) == 3, "a series for each pod")
        assert len(one.samples("gpu_power_watts")) == 3


def test_M1_a_pod_on_a_mig_instance_is_named_on_it_and_on_its_card(tmp_path: Path) -> None:
    with seeing(tmp_path, "dgx-a100-8-mig-mixed", ["--mig-strategy=mixed"]) as seen:
        resource = "nvidia.com/mig-4g.20gb"
        seen.node.wait_healthy(1, resource=resource)
        seen.node.kubelet.admit(Pod("small", containers={"main": {resource: 1}}))
        seen.wait(lambda: seen.samples("gpu_mig_memory_total_bytes", pod="small"), "the pod's series")
        (instance,) = seen.samples("gpu_mig_memory_total_bytes", pod="small")
        assert 'mig_profile="4g.20gb"' in instance
        assert len(seen.samples("gpu_temperature_celsius", pod="small")) == 1


def test_M2_a_driver_that_hangs_holds_up_neither_scrape_nor_allocation(seen: Seen) -> None:
    seen.node.wait_healthy(8, timeout=30)
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


def test_R14_probes_over_http_follow_the_kubelet_and_no_bad_gpu_restarts_anything(seen: Seen) -> None:
    seen.node.wait_healthy(8, timeout=30)
    seen.wait(lambda: seen.get("/readyz") == "ok\n", "readiness")
    seen.node.control("xid", "3", "79")
    seen.node.wait_healthy(7, 1, timeout=30)
    assert (seen.get("/healthz"), seen.get("/readyz")) == ("ok\n", "ok\n")
    seen.node.kubelet.stop()
    seen.wait(lambda: GPU in seen.get("/readyz"), "a plugin that is not ready")
    assert seen.get("/healthz") == "ok\n"
    seen.wait(lambda: 0 in seen.samples("gpu_device_plugin_registered", resource=GPU).values(), "the metric")
    seen.node.kubelet.start()
    seen.wait(lambda: seen.get("/readyz") == "ok\n", "readiness")


def test_H6_an_unhealthy_gpu_is_told_alike_in_log_metric_and_page(seen: Seen) -> None:
    seen.node.wait_healthy(8, timeout=30)
    seen.node.control("xid", "3", "79")
    seen.node.wait_healthy(7, 1, timeout=30)
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


def resident(pid: int) -> float:
    """MiB of memory of a process."""
    match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert match
    return int(match[1]) / 1024


@pytest.mark.slow
def test_M3_ten_thousand_scrapes_leave_memory_flat(seen: Seen) -> None:
    def scrape(number: int) -> None:
        for _ in range(number):
            seen.get("/metrics")

    scrape(1000)
    before = resident(seen.node.plugin.pid)
    scrape(10_000)
    assert resident(seen.node.plugin.pid) - before < 1
