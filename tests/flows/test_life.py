"""The plugin as its own process between a pretend driver and a pretend kubelet: what an operator sees of its life."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_kubelet import AdmissionFailed, FakeKubelet, Pod
from tests.node import GPU, FakeNode
from tests.waiting import wait_until


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FakeNode]:
    with FakeNode(tmp_path, "hgx-h100-8", [f"--config-file={tmp_path / 'config.yaml'}"]) as node:
        node.configure("version: v1\n")
        yield node


def ids(node: FakeNode, resource: str = GPU) -> set[str]:
    return set(node.kubelet.resources[resource].devices)


def test_eight_gpus_register_and_pods_get_them(node: FakeNode) -> None:
    node.plugin.start()
    node.wait_healthy(8)
    grant = node.kubelet.admit(Pod("one", containers={"main": {GPU: 1}}))["main"]
    assert grant.envs == {"NVIDIA_VISIBLE_DEVICES": grant.ids[GPU][0]}
    quad = node.kubelet.admit(Pod("four", containers={"main": {GPU: 4}}))["main"]
    assert len(set(quad.envs["NVIDIA_VISIBLE_DEVICES"].split(","))) == 4
    with pytest.raises(AdmissionFailed, match="4 wanted, 3 free"):
        node.kubelet.admit(Pod("too-much", containers={"main": {GPU: 4}}))
    assert node.kubelet.violations == []
    assert all(device.numa in (0, 1) for device in node.kubelet.resources[GPU].devices.values())


def test_an_unhealthy_id_is_refused_with_its_reason(node: FakeNode) -> None:
    node.plugin.start()
    node.wait_healthy(8)
    node.control("xid", "3", "79")
    node.wait_healthy(7, 1)
    sick = next(iter(node.kubelet.resources[GPU].unhealthy))
    assert "xid-79" in node.plugin.log
    done = node.command("resources", "--json", f"--driver=fake:{node.machine}")
    assert sick in done.stdout


def test_a_restart_keeps_ids_and_pods_keep_what_they_have(node: FakeNode) -> None:
    node.plugin.start()
    node.wait_healthy(8)
    before = ids(node)
    held = node.kubelet.admit(Pod("one", containers={"main": {GPU: 2}}))["main"].all_ids
    assert node.plugin.stop() == 0
    wait_until(lambda: not node.kubelet.resources[GPU].healthy, what="the kubelet to see the stream end")
    node.plugin.start()
    node.wait_healthy(8)
    assert ids(node) == before
    assert node.kubelet.restart_container("one", "main").all_ids == held


def test_sigterm_ends_it_within_a_second_and_leaves_nothing(node: FakeNode) -> None:
    node.plugin.start()
    node.wait_healthy(8)
    began = time.monotonic()
    assert node.plugin.stop() == 0
    assert time.monotonic() - began < 1
    assert [path.name for path in node.kubelet_folder.iterdir() if path.name.startswith("nvidia")] == []
    assert not node.control_socket().exists()
    assert "Traceback" not in node.plugin.log


def test_a_kubelet_restart_is_answered(node: FakeNode) -> None:
    node.plugin.start()
    node.wait_healthy(8)
    node.kubelet.restart()
    node.kubelet.wait_for(GPU, healthy=8, streams=1)


def test_sighup_takes_a_new_configuration_and_unchanged_streams_stay(node: FakeNode) -> None:
    node.plugin.start()
    node.wait_healthy(8)
    before = node.kubelet.resources[GPU]
    node.configure("version: v1\nflags: {plugin: {deviceIDStrategy: index}}\n")
    node.plugin.signal(signal.SIGHUP)
    node.plugin.wait_for_log("configuration in force", count=2)
    grant = node.kubelet.admit(Pod("one", containers={"main": {GPU: 1}}))["main"]
    assert grant.envs["NVIDIA_VISIBLE_DEVICES"] in set("01234567")
    after = node.kubelet.resources[GPU]
    assert (after.endpoint, len(after.frames)) == (before.endpoint, len(before.frames))


def test_a_changed_file_is_taken_over_and_a_bad_one_changes_nothing(node: FakeNode) -> None:
    node.plugin.start()
    node.wait_healthy(8)
    node.configure("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n")
    node.wait_healthy(32)
    node.configure("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replica: 2}]}}\n")
    node.plugin.wait_for_log("configuration refused, the present one stays in force")
    assert "did you mean" in node.plugin.log
    assert len(node.kubelet.resources[GPU].healthy) == 32
    node.configure("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n")
    node.wait_healthy(16)
    assert {id_.split("::")[1] for id_ in ids(node)} == {"0", "1"}


def test_fewer_replicas_keep_the_ids_that_remain_while_pods_run(node: FakeNode) -> None:
    node.configure("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 8}]}}\n")
    node.plugin.start()
    node.wait_healthy(64)
    before, endpoint = ids(node), node.kubelet.resources[GPU].endpoint
    node.kubelet.admit(Pod("one", containers={"main": {GPU: 1}}))
    node.configure("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n")
    node.wait_healthy(32)
    assert ids(node) < before
    assert node.kubelet.resources[GPU].endpoint == endpoint


def test_a_resource_that_is_renamed_away_is_emptied_first(node: FakeNode) -> None:
    node.plugin.start()
    node.wait_healthy(8)
    node.configure("resources: {gpus: [{pattern: '*', name: h100}]}\n")
    node.wait_healthy(8, resource="nvidia.com/h100")
    wait_until(lambda: not node.kubelet.resources[GPU].devices, what="an empty list of the old name")


def test_liveness_and_readiness_are_told_apart(node: FakeNode) -> None:
    socket = f"--control-socket={node.control_socket()}"
    assert node.command("health", "live", socket, check=False).returncode == 1
    node.plugin.start()
    node.wait_healthy(8)
    wait_until(lambda: node.command("health", "ready", socket, check=False).returncode == 0, what="readiness")
    node.kubelet.stop()
    wait_until(lambda: node.command("health", "ready", socket, check=False).returncode == 1, what="not ready")
    assert node.command("health", "live", socket).stdout == "live: yes\n"
    node.kubelet.start()
    wait_until(lambda: node.command("health", "ready", socket, check=False).returncode == 0, what="ready again")


def test_release_lets_a_gpu_be_reset_and_answers_go_on_from_memory(node: FakeNode) -> None:
    socket = f"--control-socket={node.control_socket()}"
    node.plugin.start("--health-quiet-period=1s", "--health-interval=100ms")
    node.wait_healthy(8)
    node.control("xid", "3", "79")
    node.wait_healthy(7, 1)
    with pytest.raises(AssertionError, match="in use"):
        node.control("reset", "3")
    node.command("release", socket)
    node.control("reset", "3")
    assert len(node.kubelet.admit(Pod("meanwhile", containers={"main": {GPU: 2}}))["main"].all_ids) == 2
    node.command("release", "--end", socket)
    node.wait_healthy(8)


def test_a_driver_that_knows_no_recovery_action_takes_the_operators_word_for_a_reset(tmp_path: Path) -> None:
    with FakeNode(tmp_path, "dgx1-v100-8", ["--health-quiet-period=1s", "--health-interval=100ms"]) as node:
        socket = f"--control-socket={node.control_socket()}"
        node.plugin.start()
        node.wait_healthy(8)
        node.control("xid", "3", "79")
        node.wait_healthy(7, 1)
        assert "give it together with --end" in node.command("release", "--reset", "3", socket, check=False).stderr
        node.command("release", socket)
        node.control("reset", "3")
        nobody = node.command("release", "--end", "--reset", "8", socket, check=False)
        assert (nobody.returncode, nobody.stderr) == (
            1,
            "error: there is no GPU 8; name its index, UUID or PCI id\n",
        )
        node.command("release", "--end", "--reset", "3", socket)
        node.wait_healthy(8)


BAD = {
    "flags: {migStrategie: none}": "config.yaml:1:9: flags.migStrategie",
    "flags: [": "config.yaml:",
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: two}]}}": "must be a whole number",
    "sharing:\n  timeSlicing:\n    resources: [{name: gpu, replicas: 60000}]": "7960 or fewer",
    "sharing: {timeSlicing: {resources: [{name: gpu, devices: [0], replicas: 2}, {name: gpu, replicas: 3}]}}": "is in",
}


@pytest.mark.parametrize("text", BAD)
def test_a_configuration_that_cannot_work_ends_with_2_and_says_where(node: FakeNode, text: str) -> None:
    node.configure(text)
    assert node.plugin.start().wait() == 2
    errors = [line for line in node.plugin.log.splitlines() if line.startswith("error: ")]
    assert any(BAD[text] in line for line in errors), node.plugin.log
    assert all(str(node.config_file) in line for line in errors)
    assert "Traceback" not in node.plugin.log


def test_a_missing_configuration_file_ends_with_2(node: FakeNode) -> None:
    node.config_file.unlink()
    assert node.plugin.start().wait() == 2
    assert str(node.config_file) in node.plugin.log


def test_an_unknown_machine_lists_the_known_ones(node: FakeNode) -> None:
    done = node.command("resources", "--driver=fake:hgx-h100-9", check=False)
    assert done.returncode == 2
    assert "hgx-h100-8" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_kubelet_folder_that_is_absent_is_named_and_waited_for(tmp_path: Path) -> None:
    with FakeNode(tmp_path) as node:
        node.kubelet.stop()
        away = node.kubelet_folder.with_name("away")
        node.kubelet_folder.rename(away)
        node.plugin.start()
        node.plugin.wait_for_log(str(node.kubelet_folder))
        away.rename(node.kubelet_folder)
        node.kubelet.start()
        node.wait_healthy(8)


def test_a_node_without_gpus_idles_quietly_and_is_ready(tmp_path: Path) -> None:
    with FakeNode(tmp_path, "none", ["--fail-on-init-error=false"]) as node:
        node.plugin.start()
        node.plugin.wait_for_log("no GPU")
        socket = f"--control-socket={node.control_socket()}"
        wait_until(lambda: node.command("health", "ready", socket, check=False).returncode == 0, what="readiness")
        assert "WARNING daemon: the driver" not in node.plugin.log
        assert node.plugin.stop() == 0


def test_without_a_driver_failoniniterror_decides(tmp_path: Path) -> None:
    with FakeNode(tmp_path) as node:
        node.control("driver", "absent")
        assert node.plugin.start("--fail-on-init-error").wait() == 1
        assert "--fail-on-init-error=false" in node.plugin.log
        assert "looking again" not in node.plugin.log
        assert "Traceback" not in node.plugin.log
        node.plugin.start("--fail-on-init-error=false")
        node.plugin.wait_for_log("the driver cannot be used, looking again")
        socket = f"--control-socket={node.control_socket()}"
        assert node.command("health", "ready", socket, check=False).returncode == 1
        node.control("driver", "present")
        node.wait_healthy(8)


def test_a_kubelet_at_another_path_by_configuration_needs_no_restart(tmp_path: Path) -> None:
    with FakeNode(tmp_path, arguments=[f"--config-file={tmp_path / 'config.yaml'}"]) as node:
        other = node.short / "other"
        other.mkdir(mode=0o750)
        node.plugin.command = [word for word in node.plugin.command if not word.startswith("--kubelet-socket")]
        node.configure(f"kubelet: {{socket: {node.kubelet_folder / 'kubelet.sock'}}}")
        node.plugin.start()
        node.wait_healthy(8)
        with FakeKubelet(other) as moved:
            node.configure(f"kubelet: {{socket: {other / 'kubelet.sock'}}}")
            moved.wait_for(GPU, healthy=8, streams=1)
            wait_until(lambda: not node.kubelet.streams.get(GPU), what="the end of the stream at the old path")
