import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_kubelet import FakeKubelet, watcher
from tests.fake_kubelet.scripted_plugin import ScriptedPlugin, listed
from tests.waiting import wait_until

GPU = "nvidia.com/gpu"


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    return tmp_path / "reg"


@pytest.fixture
def kubelet(tmp_path: Path, registry: Path) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path / "dp", plugins_registry=registry, watch_period=0.01) as running:
        yield running


def test_a_socket_in_the_registry_is_found_and_told_of_its_success(kubelet: FakeKubelet, registry: Path) -> None:
    with ScriptedPlugin(registry / "a.sock", GPU, listed(["a", "b"])) as plugin:
        kubelet.wait_for(GPU, healthy=2)
        wait_until(lambda: plugin.statuses, what="the status")
        assert (plugin.statuses[0].plugin_registered, plugin.statuses[0].error) == (True, "")
        assert len(plugin.requests("GetInfo")) == 1


def test_a_restarted_kubelet_finds_it_again(kubelet: FakeKubelet, registry: Path) -> None:
    with ScriptedPlugin(registry / "a.sock", GPU, listed(["a", "b"])) as plugin:
        kubelet.wait_for(GPU, healthy=2)
        kubelet.restart()
        kubelet.wait_for(GPU, healthy=2, streams=1)
        assert len(plugin.requests("ListAndWatch")) == 2


def test_a_lost_stream_comes_back_only_with_a_new_socket(kubelet: FakeKubelet, registry: Path) -> None:
    with ScriptedPlugin(registry / "a.sock", GPU, listed(["a"])) as plugin:
        kubelet.wait_for(GPU, healthy=1)
        plugin.end_streams()
        kubelet.wait_for(GPU, healthy=0, unhealthy=1, streams=0)
        with ScriptedPlugin(registry / "other.sock", "x.y/z", listed(["b"])):
            kubelet.wait_for("x.y/z", healthy=1)
        assert len(plugin.requests("ListAndWatch")) == 1
    with ScriptedPlugin(registry / "a.sock", GPU, listed(["a"])):
        kubelet.wait_for(GPU, healthy=1, streams=1)


def test_a_socket_that_goes_takes_its_devices_along(kubelet: FakeKubelet, registry: Path) -> None:
    with ScriptedPlugin(registry / "a.sock", GPU, listed(["a"])) as plugin:
        kubelet.wait_for(GPU, healthy=1)
        plugin.socket.unlink()
        kubelet.wait_for(GPU, healthy=0, unhealthy=1)


def test_the_devices_may_be_served_elsewhere(kubelet: FakeKubelet, registry: Path, tmp_path: Path) -> None:
    with (
        ScriptedPlugin(tmp_path / "devices.sock", GPU, listed(["a"])) as devices,
        ScriptedPlugin(tmp_path / "door.sock", GPU, listed([])) as door,
    ):
        door.info.endpoint = str(devices.socket)
        door.socket.rename(registry / "door.sock")
        kubelet.wait_for(GPU, healthy=1)
        assert kubelet.resources[GPU].endpoint == "devices.sock"
        (registry / "door.sock").unlink()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"type": "CSIPlugin"}, "no handler for plugins of type 'CSIPlugin'"),
        ({"name": "gpu"}, "'gpu' is not an extended resource name"),
        ({"supported_versions": ["v2"]}, "device plugin API version 'v2' is not supported"),
    ],
)
def test_a_plugin_that_does_not_fit_is_told_why_once(
    kubelet: FakeKubelet, registry: Path, tmp_path: Path, change: dict[str, str], error: str
) -> None:
    with ScriptedPlugin(tmp_path / "a.sock", GPU, listed(["a"])) as plugin:
        for key in change:
            plugin.info.ClearField(key)
        plugin.info.MergeFrom(type(plugin.info)(**change))
        plugin.socket.rename(registry / "a.sock")
        wait_until(lambda: plugin.statuses, what="the status")
        assert not plugin.statuses[0].plugin_registered
        assert plugin.statuses[0].error == error
        assert not kubelet.resources
        (registry / "a.sock").unlink()


def test_hidden_files_and_plain_files_are_none_of_its_business(kubelet: FakeKubelet, registry: Path) -> None:
    (registry / "plain").write_text("")
    with ScriptedPlugin(registry / ".hidden.sock", "x.y/hidden", listed(["a"])) as hidden:
        with ScriptedPlugin(registry / "a.sock", GPU, listed(["a"])):
            kubelet.wait_for(GPU, healthy=1)
        assert not hidden.calls


def dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))


def test_a_socket_that_nobody_serves_is_tried_again(
    kubelet: FakeKubelet, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "TIMEOUT", 0.05)
    dead_socket(registry / "a.sock")
    wait_until(lambda: len(kubelet.refusals) >= 2, what="two attempts")
    assert f"plugin watcher: {registry}/a.sock: " in kubelet.refusals[0]
    with ScriptedPlugin(registry / "a.sock", GPU, listed(["a"])):
        kubelet.wait_for(GPU, healthy=1)


def test_a_kubelet_that_waits_for_an_answer_can_be_stopped(
    kubelet: FakeKubelet, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "TIMEOUT", 300.0)
    dead_socket(registry / "a.sock")
    life = kubelet._life
    wait_until(lambda: life and life._watcher and life._watcher._channel, what="the call to go out")
    kubelet.stop()
    assert not any(t.name == "fake-kubelet-plugin-watcher" for t in threading.enumerate())
