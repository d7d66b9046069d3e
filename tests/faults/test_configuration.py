"""Faults of configuration, one test per line C1 to C4, and what users' own set-ups do: folders, names, conflicts."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deviceplugin import cli
from tests.fake_kubelet import Pod
from tests.node import GPU, ROOT, FakeNode
from tests.ports import scrape
from tests.waiting import wait_until


def replicas(count: int) -> str:
    return f"sharing: {{timeSlicing: {{resources: [{{name: {GPU}, replicas: {count}}}]}}}}\n"


class ConfigMap:
    """A ConfigMap volume as the kubelet keeps it: files are links through `..data`, which is swapped by a rename."""

    def __init__(self, folder: Path, **files: str) -> None:
        self.folder = folder
        self._serial = 0
        folder.mkdir()
        self.swap(**files)

    def swap(self, **files: str) -> None:
        """What the kubelet does when the ConfigMap changes."""
        self._serial += 1
        old = (self.folder / "..data").resolve() if self._serial > 1 else None
        fresh = self.folder / f"..2026_12_01_{self._serial}"
        fresh.mkdir()
        for name, text in files.items():
            (fresh / f"{name}.yaml").write_text(text)
            link = self.folder / f"{name}.yaml"
            if not link.is_symlink():
                link.symlink_to(f"..data/{name}.yaml")
        temporary = self.folder / "..data_tmp"
        temporary.symlink_to(fresh.name)
        temporary.rename(self.folder / "..data")
        for link in self.folder.glob("*.yaml"):
            if not link.exists():
                link.unlink()
        if old is not None:
            shutil.rmtree(old)


@pytest.fixture
def mounted(tmp_path: Path) -> ConfigMap:
    return ConfigMap(tmp_path / "volume", config=replicas(2))


@pytest.fixture
def node(tmp_path: Path, mounted: ConfigMap) -> Iterator[FakeNode]:
    with FakeNode(tmp_path, arguments=[f"--config-file={mounted.folder}/config.yaml"]) as node:
        yield node


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[FakeNode]:
    with FakeNode(
        tmp_path, arguments=[f"--config-file={tmp_path}/config.yaml", "--metrics-address=127.0.0.1:0"]
    ) as node:
        yield node


def test_C1_a_swapped_configmap_is_noticed_validated_and_applied_without_closing_streams(
    node: FakeNode, mounted: ConfigMap
) -> None:
    node.plugin.start()
    node.wait_healthy(16)
    began = node.kubelet.resources[GPU]
    mounted.swap(config="sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicaz: 4}]}}\n")
    node.plugin.wait_for_log("configuration refused, the present one stays in force")
    node.plugin.wait_for_log("volume/config.yaml:1:60: sharing.timeSlicing.resources[0].replicaz")
    assert node.status()["config"]["reloads"]["refused"] >= 1
    assert "success" not in node.status()["config"]["reloads"]
    assert "replicaz" in node.status()["config"]["refused"]
    node.wait_healthy(16)
    mounted.swap(config=replicas(4))
    node.wait_healthy(32)
    assert node.status()["config"]["reloads"]["success"] == 1
    assert not node.status()["config"]["refused"]
    mounted.swap(config=replicas(4) + "flags: {plugin: {deviceListStrategy: volume-mounts}}\n")
    node.plugin.wait_for_log("configuration in force", count=3)
    after = node.kubelet.resources[GPU]
    assert after.endpoint == began.endpoint, "the stream that was open stays open"
    assert [len(frame.devices) for frame in after.frames] == [16, 32], "a list is sent only if it differs"
    assert node.kubelet.admit(Pod("one", containers={"main": {GPU: 1}}))["main"].mounts


def test_C1_a_configmap_that_vanishes_and_comes_back_changes_nothing_meanwhile(
    node: FakeNode, mounted: ConfigMap
) -> None:
    node.plugin.start()
    node.wait_healthy(16)
    mounted.swap()
    node.plugin.wait_for_log("mount the configuration file there, or name another")
    node.wait_healthy(16)
    mounted.swap(config=replicas(3))
    node.wait_healthy(24)


def test_C2_five_reloads_during_start_are_one_start_one_stream_and_the_newest_configuration(
    node: FakeNode, mounted: ConfigMap
) -> None:
    node.plugin.start()
    status = Path(f"/proc/{node.plugin.pid}/status")
    wait_until(lambda: _catches(status, signal.SIGHUP), what="a process that does not die of SIGHUP", interval=0.001)
    for count in range(3, 8):
        mounted.swap(config=replicas(count))
        node.plugin.signal(signal.SIGHUP)
    node.wait_healthy(8 * 7)
    node.kubelet.wait_for(GPU, healthy=8 * 7, streams=1)
    assert len(node.kubelet.registrations) == 1
    assert node.plugin.running
    assert node.kubelet.violations == []


def _catches(status: Path, number: signal.Signals) -> bool:
    line = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt:"))
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


MISSPELT = {
    "flags: {migStrategie: none}": "config.yaml:1:9: flags.migStrategie: is not known here; did you mean migStrategy?",
    "flag: {migStrategy: none}": "did you mean flags?",
    "health: {fatal: [79], ingored: [13]}": "did you mean ignored?",
    "sharing: {mps: {resource: []}}": "did you mean resources?",
    "resources: {gpus: [{patern: '*', name: a}]}": "did you mean pattern?",
}


@pytest.mark.parametrize("text", MISSPELT)
def test_C3_a_misspelt_key_is_named_with_file_line_path_and_the_nearest_one(plain: FakeNode, text: str) -> None:
    plain.configure(text)
    assert plain.plugin.start().wait() == 2
    assert MISSPELT[text] in plain.plugin.log
    done = plain.command("check-config", str(plain.config_file), check=False)
    assert done.returncode == 2
    assert MISSPELT[text] in done.stderr


def test_C3_a_key_that_upstream_knows_and_nobody_acts_on_is_warned_about(plain: FakeNode) -> None:
    plain.configure("version: v1\nflags:\n  plugin:\n    deviceListStrategy: volume-mounts\n  nvidiaCDIHookPath: /a\n")
    done = plain.command("check-config", str(plain.config_file), check=False)
    known = [text for text in (done.stdout, done.stderr) if "config.yaml:5:" in text]
    assert known, (done.stdout, done.stderr)
    idle = plain.command("config", f"--config-file={plain.config_file}", "--kube-api-qps=5", check=False)
    assert "no effect" in idle.stdout + idle.stderr or idle.returncode == 2


def test_C4_log_metric_and_config_output_say_source_and_content_hash(plain: FakeNode) -> None:
    plain.configure(replicas(2))
    plain.plugin.start()
    plain.wait_healthy(16)
    line = next(line for line in plain.plugin.log.splitlines() if "configuration in force" in line)
    facts = dict(word.split("=", 1) for word in line.split() if "=" in word)
    assert facts["source"] == str(plain.config_file)
    plain.plugin.wait_for_log("metrics and status page")
    port = next(word for word in plain.plugin.log.split() if word.startswith("port=")).partition("=")[2]
    metrics = scrape(f"127.0.0.1:{port}")
    info = next(line for line in metrics.splitlines() if "config_info{" in line)
    assert f'hash="{facts["hash"]}"' in info
    assert f'source="{plain.config_file}"' in info
    words = [word for word in plain.plugin.command if word.startswith("--") and not word.startswith("--driver")]
    printed = plain.command("config", "--json", *words)
    shown = json.loads(printed.stdout)
    assert (shown["hash"], shown["source"]) == (facts["hash"], facts["source"])
    assert plain.command("config", *words).stdout.startswith(f"# hash {facts['hash']}, from {plain.config_file}\n")


def test_C4_a_dry_run_prints_resources_and_counts_for_a_configuration_and_a_machine(plain: FakeNode) -> None:
    plain.configure("flags: {migStrategy: mixed}\n")
    del plain.environment["FAKE_NVML_ROOT"]
    machine = "--driver=fake:dgx-a100-8-mig-mixed"
    done = plain.command("resources", "--json", f"--config-file={plain.config_file}", machine)
    said = json.loads(done.stdout)
    assert said["config"]["source"] == str(plain.config_file)
    assert {name: resource["count"] for name, resource in said["resources"].items()} == {
        "nvidia.com/mig-1g.5gb": 19,
        "nvidia.com/mig-1g.5gb.me": 1,
        "nvidia.com/mig-2g.10gb": 4,
        "nvidia.com/mig-3g.20gb": 4,
        "nvidia.com/mig-4g.20gb": 1,
        "nvidia.com/mig-7g.40gb": 1,
    }
    assert [out["reason"] for out in said["left_out"]] == ["partial-compute-instance"] * 2


# several configurations


def test_a_name_chooses_one_of_several_and_its_content_is_followed(tmp_path: Path) -> None:
    volume = ConfigMap(tmp_path / "volume", default=replicas(2), train="version: v1\n", serve=replicas(6))
    with FakeNode(tmp_path, arguments=[f"--config-dir={volume.folder}"]) as node:
        node.plugin.start("--config-name=serve")
        node.wait_healthy(48)
        volume.swap(default=replicas(3), train="version: v1\n", serve=replicas(5))
        node.wait_healthy(40)
        assert f"source={volume.folder}/serve.yaml" in node.plugin.log
        volume.swap(default=replicas(3), train="version: v1\n")
        node.plugin.wait_for_log("--config-name serve: no such configuration in")
        node.wait_healthy(40)
        node.plugin.restart()
        node.wait_healthy(24)
        assert f"source={volume.folder}/default.yaml" in node.plugin.log


def test_without_a_default_of_several_the_names_are_listed(tmp_path: Path) -> None:
    volume = ConfigMap(tmp_path / "volume", a="version: v1\n", b="version: v1\n")
    with FakeNode(tmp_path, arguments=[f"--config-dir={volume.folder}"]) as node:
        assert node.plugin.start().wait() == 2
        assert "there are: a.yaml, b.yaml" in node.plugin.log
        assert node.plugin.start("--config-name=a.yml").wait() == 2
        assert "did you mean a.yaml?" in node.plugin.log


# conflicts


def test_an_index_that_moves_under_the_index_strategy_is_warned_about(plain: FakeNode) -> None:
    plain.configure("flags: {plugin: {deviceIDStrategy: index}}\n")
    plain.plugin.start()
    plain.wait_healthy(8)
    assert "an index may mean another GPU after a reboot or when one is lost; uuid never does" in plain.plugin.log
    plain.control("swap", "1", "6")
    plain.plugin.signal(signal.SIGHUP)
    plain.plugin.wait_for_log("GPU 6 was GPU 1 before: under deviceIDStrategy index a container that starts again")
    plain.plugin.wait_for_log("GPU 1 was GPU 6 before")


CONFLICTS = {
    "flags: {migStrategy: mixed, mpsRoot: /a}\nsharing: {mps: {resources: [{name: gpu, replicas: 2}]}}": (
        "does not work under migStrategy mixed"
    ),
    "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}": "needs flags.mpsRoot",
    "flags: {mpsRoot: /a}\nsharing:\n  mps: {resources: [{name: gpu, replicas: 2}]}\n"
    "  timeSlicing: {resources: [{name: gpu, replicas: 2}]}": "cannot be given together with sharing.timeSlicing",
    "flags: {deviceDiscoveryStrategy: tegra}": "tegra devices are not served by this plugin",
}


@pytest.mark.parametrize("text", CONFLICTS)
def test_what_cannot_be_combined_is_refused_at_load_with_the_remedy(plain: FakeNode, text: str) -> None:
    plain.configure(text)
    assert plain.plugin.start().wait() == 2
    assert CONFLICTS[text] in plain.plugin.log
    assert str(plain.config_file) in plain.plugin.log


# upstream's programs


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder of programs as an image has them: one program, and NVIDIA's names as links to it."""
    folder = tmp_path / "image"
    folder.mkdir()
    program = folder / "gpu-device-plugin"
    program.write_text(f"#!{shutil.which('python3', path=str(ROOT / '.venv' / 'bin'))}\n{PROGRAM}")
    program.chmod(0o755)
    for name in cli.PROGRAM_ALIASES:
        (folder / name).symlink_to(program.name)
    return folder


PROGRAM = "import sys\nfrom deviceplugin.cli import main\nsys.exit(main())\n"


def test_nvidia_device_plugin_serves_with_upstream_s_flags(plain: FakeNode, image: Path) -> None:
    plain.configure("version: v1\n")
    words = plain.plugin.command[plain.plugin.command.index("serve") + 1 :]
    plain.plugin.command = [str(image / "nvidia-device-plugin"), "--pass-device-specs=true", *words]
    plain.plugin.environment["PYTHONPATH"] = str(ROOT)
    plain.plugin.start()
    plain.wait_healthy(8)
    assert plain.kubelet.admit(Pod("one", containers={"main": {GPU: 1}}))["main"].devices


def test_gpu_feature_discovery_labels_once(plain: FakeNode, image: Path) -> None:
    plain.environment["PYTHONPATH"] = str(ROOT)
    words = [str(image / "gpu-feature-discovery"), "--oneshot", "--output-file=-", f"--driver=fake:{plain.machine}"]
    labels = plain.run(words).stdout.splitlines()
    assert "nvidia.com/gpu.count=8" in labels


def test_mps_control_daemon_takes_upstream_s_action(plain: FakeNode, image: Path) -> None:
    plain.environment["PYTHONPATH"] = str(ROOT)
    done = plain.run([str(image / "mps-control-daemon"), "mount-shm"], check=False)
    assert (done.returncode, "flags.mpsRoot is empty" in done.stderr) == (2, True)
    assert plain.run([str(image / "mps-control-daemon"), "version"]).stdout.startswith("gpu-device-plugin ")
    assert "Run the MPS control daemons" in plain.run([str(image / "mps-control-daemon"), "--help"]).stdout
