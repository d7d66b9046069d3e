import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.fake_kubelet import FakeKubelet, Pod
from tests.fake_kubelet.scripted_plugin import ScriptedPlugin, listed
from tests.waiting import wait_until

GPU = "nvidia.com/gpu"
EIGHT = [f"g{n}" for n in range(8)]


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path / "dp", pod_resources=tmp_path / "pr" / "kubelet.sock") as running:
        yield running
    assert not running.violations


@pytest.fixture
def plugin(kubelet: FakeKubelet, tmp_path: Path) -> Iterator[ScriptedPlugin]:
    """A plugin whose socket the kubelet's cleaning does not reach."""
    sub = kubelet.folder / "sub"
    sub.mkdir()
    with ScriptedPlugin(sub / "a.sock", GPU, listed(EIGHT)) as serving:
        yield serving


def register(plugin: ScriptedPlugin, kubelet: FakeKubelet) -> None:
    plugin.register(kubelet.socket, endpoint="sub/a.sock")


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        return True


def own_threads() -> int:
    names = ("fake-kubelet-kubelet.sock", "fake-kubelet-watch", "fake-kubelet-restarter")
    return sum(thread.name.startswith(names) for thread in threading.enumerate())


def test_a_stop_takes_the_socket_away_and_drops_connections(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    register(plugin, kubelet)
    kubelet.wait_for(GPU, healthy=8)
    kubelet.stop()
    assert not kubelet.running
    assert not kubelet.socket.exists()
    assert (kubelet.resources, kubelet.streams) == ({}, {})
    wait_until(lambda: plugin.open_streams == 0, what="the stream to end")
    kubelet.stop()


def test_a_kill_leaves_the_socket_file_with_nobody_behind_it(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    register(plugin, kubelet)
    kubelet.wait_for(GPU, healthy=8)
    before = kubelet.socket.stat().st_ino
    kubelet.kill()
    assert kubelet.socket.stat().st_ino == before
    assert not listens(kubelet.socket)
    wait_until(lambda: plugin.open_streams == 0, what="the stream to end")
    kubelet.start()
    assert listens(kubelet.socket)


def test_a_second_start_is_refused(kubelet: FakeKubelet) -> None:
    with pytest.raises(RuntimeError, match="runs already"):
        kubelet.start()


def test_what_needs_a_running_kubelet_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="does not run"):
        FakeKubelet(tmp_path / "dp").admit(Pod("a"))


def test_a_restart_forgets_lists_and_asks_nobody(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    register(plugin, kubelet)
    kubelet.wait_for(GPU, healthy=8)
    kubelet.restart()
    view = kubelet.resources[GPU]
    assert (view.capacity, view.stream_open, view.frames) == (0, False, ())
    assert len(plugin.requests("ListAndWatch")) == 1
    register(plugin, kubelet)
    kubelet.wait_for(GPU, healthy=8, streams=1)
    assert len(kubelet.registrations) == 2


def test_a_replaced_folder_is_another_folder_with_the_same_pods(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    register(plugin, kubelet)
    kubelet.wait_for(GPU, healthy=8)
    kubelet.admit(Pod("a", containers={"main": {GPU: 2}}))
    before = kubelet.folder.stat().st_ino
    kubelet.replace_folder()
    assert kubelet.folder.stat().st_ino != before
    assert not plugin.socket.exists()
    assert listens(kubelet.socket)
    assert len(kubelet.pods["a"]["main"].all_ids) == 2


def test_fault_version_refused(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.faults.refuse_version = True
    with pytest.raises(grpc.RpcError, match="not supported"):
        register(plugin, kubelet)
    kubelet.faults.refuse_version = False
    register(plugin, kubelet)
    kubelet.wait_for(GPU, healthy=8)


def test_fault_silence_lasts_as_long_as_the_caller_waits(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.faults.silent = True
    with pytest.raises(grpc.RpcError) as caught:
        plugin.register(kubelet.socket, timeout=0.1)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert not plugin.calls
    assert not kubelet.registrations


def test_a_silent_kubelet_can_be_stopped(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.faults.silent = True
    caught: list[grpc.StatusCode] = []

    def call() -> None:
        try:
            register(plugin, kubelet)
        except grpc.RpcError as error:
            caught.append(error.code())

    caller = threading.Thread(target=call)
    caller.start()
    wait_until(lambda: own_threads() >= 1, what="the call to arrive")
    kubelet.stop()
    caller.join()
    assert caught
    assert caught[0] in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}


def test_fault_listandwatch_never_comes(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.faults.never_watch = True
    register(plugin, kubelet)
    assert len(kubelet.registrations) == 1
    assert [name for name, _ in plugin.calls] == ["GetDevicePluginOptions"]
    assert not kubelet.streams
    assert not kubelet.resources[GPU].stream_open


def test_fault_no_socket(tmp_path: Path) -> None:
    kubelet = FakeKubelet(tmp_path / "dp")
    kubelet.faults.no_socket = True
    with kubelet:
        assert not kubelet.socket.exists()
        kubelet.faults.no_socket = False
        kubelet.restart()
        assert listens(kubelet.socket)


def test_fault_restarts_in_a_row_after_a_register(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.faults.restarts_after_register = (0.0, 0.02, 0.02)
    register(plugin, kubelet)
    wait_until(lambda: kubelet.lives == 4, what="three restarts")
    register(plugin, kubelet)
    kubelet.wait_for(GPU, healthy=8, streams=1)
    assert kubelet.lives == 4


def test_a_stop_ends_a_row_of_restarts(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.faults.restarts_after_register = (60.0,)
    register(plugin, kubelet)
    kubelet.stop()
    assert kubelet.lives == 1


def test_an_admission_held_up_by_the_plugin_ends_with_the_kubelet(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    register(plugin, kubelet)
    kubelet.wait_for(GPU, healthy=8)
    held = threading.Event()
    plugin.script.preference = lambda _request: ["late"] if held.wait(30) else []
    failures: list[str] = []

    def admit() -> None:
        try:
            kubelet.admit(Pod("a", containers={"main": {GPU: 1}}))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            failures.append(repr(error))

    caller = threading.Thread(target=admit)
    caller.start()
    wait_until(lambda: plugin.requests("GetPreferredAllocation"), what="the call")
    kubelet.restart()
    caller.join()
    held.set()
    assert "UnexpectedAdmissionError" in failures[0]
    assert not kubelet.pods


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_hundred_lives_leave_nothing_behind(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    def live() -> None:
        kubelet.start()
        register(plugin, kubelet)
        kubelet.wait_for(GPU, healthy=8)
        end = kubelet.kill if kubelet.lives % 2 else kubelet.stop
        end()
        assert own_threads() == 0

    kubelet.stop()
    for _ in range(5):
        live()
    wait_until(lambda: plugin.open_streams == 0, what="the plugin's streams to end")
    before = open_files()
    for _ in range(100):
        live()
    wait_until(lambda: open_files() <= before, what=f"no more than {before} open files")
