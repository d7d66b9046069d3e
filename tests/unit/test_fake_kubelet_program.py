import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from tests.fake_kubelet import FakeKubelet, Pod
from tests.fake_kubelet.__main__ import main, obey
from tests.fake_kubelet.scripted_plugin import ScriptedPlugin, listed
from tests.waiting import wait_until

GPU = "nvidia.com/gpu"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path / "dp") as running:
        yield running


@pytest.fixture
def plugin(kubelet: FakeKubelet) -> Iterator[ScriptedPlugin]:
    frame = listed(["a", "b"], sick=["b"], nodes={"a": 1})
    with ScriptedPlugin(kubelet.folder / "a.sock", GPU, frame) as serving:
        serving.register(kubelet.socket)
        kubelet.wait_for(GPU, healthy=1)
        yield serving


def said(kubelet: FakeKubelet, line: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert obey(kubelet, line.split())
    return capsys.readouterr().out


def test_commands(kubelet: FakeKubelet, plugin: ScriptedPlugin, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(kubelet, "resources", capsys).splitlines() == [
        "nvidia.com/gpu: capacity 2, allocatable 1, streaming from a.sock",
        "  a  Healthy  NUMA 1",
        "  b  Unhealthy",
    ]
    assert said(kubelet, "streams", capsys) == "nvidia.com/gpu  a.sock  1 lists\n"
    assert said(kubelet, "admit train nvidia.com/gpu=1", capsys) == "train/main\n  nvidia.com/gpu: a\n"
    assert said(kubelet, "pods", capsys) == said(kubelet, "start train", capsys)
    assert "0 free" in said(kubelet, "admit more nvidia.com/gpu=1", capsys)
    assert said(kubelet, "delete train", capsys) == ""
    assert said(kubelet, "", capsys) == ""
    assert "no pod train" in said(kubelet, "delete train", capsys)
    assert "takes one word" in said(kubelet, "start", capsys)
    assert "RESOURCE=N" in said(kubelet, "admit train", capsys)
    said(kubelet, "cut nvidia.com/gpu", capsys)
    kubelet.wait_for(GPU, healthy=0)
    assert "no stream" in said(kubelet, "resources", capsys)
    said(kubelet, "restart", capsys)
    assert kubelet.lives == 2
    assert "quit" in said(kubelet, "what", capsys)
    assert not obey(kubelet, ["quit"])
    assert kubelet.running
    assert not obey(kubelet, ["kill"])
    assert not kubelet.running


def test_all_that_a_container_gets_is_shown(
    kubelet: FakeKubelet, plugin: ScriptedPlugin, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin.script.answer = wire.ContainerAllocateResponse(
        envs={"A": "1"},
        mounts=[wire.Mount(container_path="/c", host_path="/h", read_only=True)],
        devices=[wire.DeviceSpec(container_path="/dev/x", host_path="/dev/y", permissions="rw")],
        annotations={"k": "v"},
        cdi_devices=[wire.CDIDevice(name="nvidia.com/gpu=0")],
    )
    with ScriptedPlugin(kubelet.folder / "m.sock", "x.y/z", listed(["z"])) as other:
        other.script.answer = wire.ContainerAllocateResponse(envs={"A": "1"}, annotations={"k": "w"})
        other.register(kubelet.socket)
        kubelet.wait_for("x.y/z", healthy=1)
        shown = said(kubelet, "admit train nvidia.com/gpu=1 x.y/z=1", capsys).splitlines()
    assert set(shown) >= {
        "train/main",
        "  nvidia.com/gpu: a",
        "  x.y/z: z",
        "  A=1",
        "  mount /h at /c read-only",
        "  device /dev/y at /dev/x rw",
        "  cdi nvidia.com/gpu=0",
    }
    assert "wins over" in shown[-1]


def test_the_constant_plugin_serves_and_leaves_at_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fake_kubelet.echo_plugin", "--folder", str(tmp_path / "dp")]
    with FakeKubelet(tmp_path / "dp") as kubelet:
        ballast = ["--devices", "8", "--replicas", "2", "--imports", "json"]
        with subprocess.Popen([*command, *ballast], cwd=ROOT, stdout=subprocess.PIPE, text=True) as echo:
            kubelet.wait_for(GPU, healthy=16)
            grant = kubelet.admit(Pod("a", containers={"main": {GPU: 2}}))["main"]
            assert grant.envs == {"NVIDIA_VISIBLE_DEVICES": "GPU-00000000-0000-4000-8000-000000000000::0"}
            kubelet.admit(
                Pod("b", containers={"main": {GPU: 3}}, init_containers={"i": {GPU: 1}}),
            )
            echo.send_signal(signal.SIGTERM)
            kubelet.wait_for(GPU, healthy=0, streams=0)
            assert echo.wait(timeout=10) == 0
        assert not kubelet.violations
        assert [entry.name for entry in (tmp_path / "dp").glob("echo-*")] == []


def test_the_program_runs_until_it_is_told_to_quit(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fake_kubelet", "--folder", str(tmp_path / "dp")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        out, _ = program.communicate("resources\nquit\n", timeout=20)
    assert program.returncode == 0
    assert out.splitlines()[0].endswith(f"kubelet starts in {tmp_path / 'dp'}")
    assert out.splitlines()[-1].endswith("kubelet ended")
    assert not (tmp_path / "dp" / "kubelet.sock").exists()


def test_a_signal_ends_the_program_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fake_kubelet", "--folder", str(tmp_path / "dp")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as program:
        wait_until((tmp_path / "dp" / "kubelet.sock").exists, what="its socket")
        program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=10) == 0
    assert not (tmp_path / "dp" / "kubelet.sock").exists()


def test_an_unknown_version_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fake_kubelet", "--folder", "x", "--version", "0.9"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "'0.9'" in capsys.readouterr().err
