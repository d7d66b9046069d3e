"""What a running plugin shows by option and in odd surroundings."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_kubelet import Pod
from tests.node import GPU, FakeNode
from tests.ports import free_port
from tests.seen import Seen, seeing
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


def test_pods_can_be_left_out(tmp_path: Path) -> None:
    with seeing(tmp_path, "t4x1", ["--metrics-pods=off"]) as seen:
        seen.node.wait_healthy(1)
        seen.node.kubelet.admit(Pod("train", containers={"main": {GPU: 1}}))
        seen.wait(lambda: "allocations_total" in seen.get("/metrics"), "the allocation")
        assert 'pod="' not in seen.get("/metrics")
        assert "podresources_up" not in seen.get("/metrics")


def test_a_kubelet_without_pod_resources_is_a_state(tmp_path: Path) -> None:
    with seeing(tmp_path, "t4x1", [f"--pod-resources-socket={tmp_path / 'none'}"]) as seen:
        seen.wait(lambda: "gpu_device_plugin_podresources_up 0.0\n" in seen.get("/metrics"), "the state")
        assert seen.samples("gpu_temperature_celsius")
        assert seen.status()["resources"][0]["allocated"] is None


def test_dcgm_names_are_there_on_demand_and_tell_the_last_xid(tmp_path: Path) -> None:
    with seeing(tmp_path, "t4x1", ["--metrics-dcgm-names"]) as seen:
        assert seen.samples("DCGM_FI_DEV_GPU_TEMP", modelName="Tesla T4", device="nvidia0")
        for xid in (79, 31):
            seen.node.control("xid", "0", str(xid))
            seen.wait(lambda: seen.samples("gpu_device_plugin_xid_total", xid=str(xid)), "the Xid")  # noqa: B023 - used at once
        assert list(seen.samples("DCGM_FI_DEV_XID_ERRORS").values()) == [31]


def test_a_configuration_that_is_refused_shows(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with FakeNode(tmp_path, "t4x1") as node:
        config = node.configure("version: v1\n")
        node.plugin.start(f"--config-file={config}", f"--metrics-address={address}", "--metrics-interval=0.2s")
        node.plugin.wait_for_log("metrics and status page", timeout=30)
        seen = Seen(node, address)
        seen.wait(lambda: seen.value("gpu_device_plugin_config_last_reload_successful") == 1, "a good configuration")
        node.configure("version: v1\nflag: {}\n")
        seen.wait(lambda: seen.value("gpu_device_plugin_config_last_reload_successful") == 0, "a refused one")
        assert "flag" in seen.status()["config"]["refused"]
        node.configure("version: v1\nflags: {}\nhealth: {quietPeriod: 30s}\n")
        seen.wait(lambda: seen.value("gpu_device_plugin_config_last_reload_successful") == 1, "a mended one")
        assert seen.status()["config"]["reloads"]["success"] >= 1


def test_the_terminal_shows_the_running_plugin(tmp_path: Path) -> None:
    with seeing(tmp_path, "t4x1") as seen:
        seen.node.wait_healthy(1)
        shown = seen.node.command("status", f"--control-socket={seen.node.control_socket()}").stdout
    assert "1 x Tesla T4" in shown
    assert "streaming" in shown


def test_what_the_kubelet_does_shows_without_waiting_for_a_sample(tmp_path: Path) -> None:
    with seeing(tmp_path, "t4x1", ["--metrics-interval=1h", "--metrics-pods=off"]) as seen:
        seen.wait(lambda: 1 in seen.samples("gpu_device_plugin_streams", resource=GPU).values(), "the stream")
        seen.node.kubelet.stop()
        seen.wait(lambda: 0 in seen.samples("gpu_device_plugin_registered", resource=GPU).values(), "its end")
        assert seen.status()["resources"][0]["streams"] == 0
        seen.node.kubelet.start()
        seen.wait(lambda: 1 in seen.samples("gpu_device_plugin_registered", resource=GPU).values(), "its return")


def test_the_first_lists_do_not_wait_for_the_web_door() -> None:
    code = "import sys, deviceplugin.cli, deviceplugin.daemon; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "deviceplugin.daemon.showing" in loaded
    assert {"prometheus_client", "http.server", "deviceplugin.web.metrics"}.isdisjoint(loaded)


def test_a_port_can_be_opened_and_shut_by_the_configuration(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with FakeNode(tmp_path, "t4x1") as node:
        config = node.configure('version: v1\nmetrics: {address: ""}\n')
        node.plugin.command.remove("--metrics-address=")  # flags would win over the file
        node.plugin.start(f"--config-file={config}")
        node.wait_healthy(1)
        ask = ("status", f"--control-socket={node.control_socket()}")
        wait_until(lambda: "1 x Tesla T4" in node.command(*ask, check=False).stdout, what="the status")
        node.configure(f'version: v1\nmetrics: {{address: "{address}"}}\n')
        seen = Seen(node, address)
        seen.wait(lambda: opened(seen) and seen.samples("gpu_device_plugin_registered", resource=GPU), "the port")
        node.configure('version: v1\nmetrics: {address: ""}\n')
        seen.wait(lambda: not opened(seen), "the port's end")


def opened(seen: Seen) -> bool:
    try:
        return "gpu_" in seen.get("/metrics")
    except OSError:
        return False


BROKEN = """
import sys
import deviceplugin.daemon.{module} as module
from deviceplugin.cli import main

async def run(self):
    raise ZeroDivisionError("a bug in {part}")

module.{run} = run
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "run", "part"),
    [
        ("outlets", "Outlets.run", "labels and cluster"),
        ("hardware", "Hardware.run_scans", "scanning"),
        ("hardware", "Hardware.run_reads", "reading health states"),
        ("reloading", "Reloading.run", "reloading the configuration"),
    ],
)
def test_a_bug_in_a_part_that_pods_can_do_without_is_counted_and_allocation_goes_on(
    tmp_path: Path, module: str, run: str, part: str
) -> None:
    address = f"127.0.0.1:{free_port()}"
    with FakeNode(tmp_path, "t4x1", [f"--metrics-address={address}"]) as node:
        assert node.plugin.command[:3] == [sys.executable, "-m", "deviceplugin"]
        node.plugin.command[1:3] = ["-c", BROKEN.format(module=module, run=run, part=part)]
        node.plugin.start()
        node.plugin.wait_for_log(f"{part} ended by a bug")
        node.plugin.wait_for_log("metrics and status page", timeout=30)
        seen = Seen(node, address)
        seen.wait(lambda: seen.samples("gpu_device_plugin_bugs_total", part=part), "the bug")
        node.wait_healthy(1)
        assert node.kubelet.admit(Pod("train", containers={"main": {GPU: 1}}))["main"].all_ids
