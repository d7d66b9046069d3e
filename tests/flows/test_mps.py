"""MPS through both processes: the plugin, and `gpu-device-plugin mps` with a pretend control program."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_kubelet import AdmissionFailed, Pod
from tests.fake_mps.node import ROOT, MpsNode
from tests.node import GPU
from tests.waiting import wait_until


@pytest.fixture
def node(tmp_path: Path) -> Iterator[MpsNode]:
    with MpsNode(tmp_path) as node:
        node.share(4)
        yield node


def modes(node: MpsNode) -> int:
    """Cards in EXCLUSIVE_PROCESS mode."""
    return node.control("show").count("compute mode 3")


def reasons(node: MpsNode) -> str:
    return node.command("health", "ready", f"--control-socket={node.control_socket()}", check=False).stdout


def test_cards_are_unhealthy_until_the_control_daemon_runs_and_pods_then_reach_it(node: MpsNode) -> None:
    node.plugin.start()
    node.wait_healthy(0, 32)
    assert f"MPS of {GPU}" in reasons(node)
    with pytest.raises(AdmissionFailed):
        node.kubelet.admit(Pod("early", containers={"main": {GPU: 1}}))
    node.mps.start()
    node.wait_healthy(32)
    wait_until(lambda: "ready: yes" in reasons(node), what="readiness")
    assert modes(node) == 8
    grant = node.kubelet.admit(Pod("one", containers={"main": {GPU: 1}}))["main"]
    assert grant.envs["CUDA_MPS_PIPE_DIRECTORY"] == f"/mps/{GPU}/pipe"
    assert {mount.container_path: mount.host_path for mount in grant.mounts} == {
        f"/mps/{GPU}/pipe": f"{ROOT}/{GPU}/pipe",
        "/dev/shm": f"{ROOT}/shm",
    }
    assert (node.mps_root / GPU / "pipe" / "control").exists()


def test_at_its_end_the_daemons_go_the_modes_are_default_and_the_plugin_is_not_ready(node: MpsNode) -> None:
    node.plugin.start()
    node.mps.start()
    node.wait_healthy(32)
    pid = node.control_program.pid(node.mps_root)
    assert node.mps.stop() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert modes(node) == 0
    assert list(node.mps_root.rglob("ready.json")) == []
    node.wait_healthy(0, 32)
    assert "Traceback" not in node.mps.log


def test_a_change_of_limits_is_followed_without_a_new_daemon(node: MpsNode) -> None:
    node.plugin.start()
    node.mps.start()
    node.wait_healthy(32)
    pid = node.control_program.pid(node.mps_root)
    node.share(8, memoryLimit="4Gi", activeThreadPercentage=30)
    node.wait_healthy(64)
    assert node.control_program.pid(node.mps_root) == pid
    assert node.control_program.orders()[-9:-1] == [
        f"set_default_device_pinned_mem_limit {index} 4096M" for index in range(8)
    ]
    assert node.control_program.orders()[-1] == "set_default_active_thread_percentage 30"
    assert json.loads((node.mps_root / GPU / "ready.json").read_text())["config"]


def test_a_resource_that_is_shared_no_more_loses_its_daemon_and_its_cards_are_open(node: MpsNode) -> None:
    node.plugin.start()
    node.mps.start()
    node.wait_healthy(32)
    node.configure("version: v1\n")
    node.wait_healthy(8)
    wait_until(lambda: modes(node) == 0, what="the default compute mode")
    assert list(node.mps_root.rglob("ready.json")) == []
    node.share(2)
    node.wait_healthy(16)


def test_a_daemon_that_is_killed_comes_back(node: MpsNode) -> None:
    node.plugin.start()
    node.mps.start()
    node.wait_healthy(32)
    os.kill(node.control_program.pid(node.mps_root), signal.SIGKILL)
    node.mps.wait_for_log("the control daemon ended by itself")
    node.mps.wait_for_log("the control daemon runs", count=2)
    node.wait_healthy(32)


def test_two_resources_have_a_daemon_each(node: MpsNode) -> None:
    node.configure(
        f"flags: {{mpsRoot: {ROOT}}}\nsharing: {{mps: {{resources: [\n"
        "  {name: gpu, rename: small, replicas: 10, devices: [0, 1]},\n"
        "  {name: gpu, rename: large, replicas: 2, devices: [2]}]}}\n"
    )
    node.plugin.start()
    node.mps.start()
    node.wait_healthy(20, resource="nvidia.com/small")
    node.wait_healthy(2, resource="nvidia.com/large")
    node.wait_healthy(5)
    assert node.control_program.orders("nvidia.com/small")[-1] == "set_default_active_thread_percentage 10"
    assert node.control_program.orders("nvidia.com/large")[1:] == [
        "set_default_device_pinned_mem_limit 2 40779M",
        "set_default_active_thread_percentage 50",
    ]
    assert modes(node) == 3


def test_without_anything_to_share_it_idles_and_follows_the_configuration(node: MpsNode) -> None:
    node.configure("version: v1\n")
    node.mps.start()
    node.mps.wait_for_log("no resource of this node is shared by MPS")
    node.share(2)
    node.mps.wait_for_log("the control daemon runs")
    node.configure("sharing: {mps: {resources: [{nam: gpu}]}}\n")
    node.mps.wait_for_log("configuration refused, the present one stays in force")
    assert (node.mps_root / GPU / "ready.json").exists()
    assert node.mps.stop() == 0


def test_a_configuration_that_does_not_fit_the_node_ends_it_with_2_and_says_where(node: MpsNode) -> None:
    node.share(4, memoryLimit="90Gi")
    assert node.mps.start().wait() == 2
    assert "config.yaml:2:" in node.mps.log
    assert "lower it, or write none" in node.mps.log
    assert "Traceback" not in node.mps.log


def test_a_driver_that_comes_late_is_waited_for_if_told_to(node: MpsNode) -> None:
    node.control("driver", "absent")
    assert node.mps.start().wait() == 1
    assert "--fail-on-init-error=false" in node.mps.log
    node.mps.start("--fail-on-init-error=false", "--rescan-interval=200ms")
    node.mps.wait_for_log("the driver cannot be used, looking again")
    node.control("driver", "present")
    node.mps.wait_for_log("the control daemon runs")


def test_cards_can_be_reset_while_it_runs(node: MpsNode) -> None:
    node.mps.start()
    node.mps.wait_for_log("the control daemon runs")
    node.control("reset", "3")
    node.mps.signal(signal.SIGHUP)
    wait_until(lambda: modes(node) == 8, what="the mode of the card that was reset")


def test_a_missing_program_is_named(node: MpsNode) -> None:
    node.control_program.program.unlink()
    node.mps.start()
    node.mps.wait_for_log("nvidia-cuda-mps-control is neither on PATH nor below")


def test_mount_shm_needs_an_mps_root(node: MpsNode) -> None:
    done = node.command("mps", "mount-shm", check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "flags.mpsRoot is empty" in done.stderr


def test_mount_shm_mounts_a_tmpfs_once(node: MpsNode) -> None:
    mount = f"{sys.executable} -m deviceplugin mps mount-shm --mps-root={ROOT} --host-root={node.root}"
    # In a mount namespace of its own, as user namespaces let anybody have one.
    done = node.run(["unshare", "-rm", "sh", "-c", f"{mount} && {mount} && stat -f -c %T {node.mps_root}/shm"])
    assert done.stdout == "tmpfs\n"
    assert f"{node.mps_root}/shm: mounted\n" in done.stderr
    assert f"{node.mps_root}/shm: mounted already\n" in done.stderr
