import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from tests.fake_kubelet import FakeKubelet, Options
from tests.fake_kubelet.names import is_extended_resource_name
from tests.fake_kubelet.scripted_plugin import ScriptedPlugin, listed
from tests.waiting import wait_until

GPU = "nvidia.com/gpu"
EIGHT = [f"g{n}" for n in range(8)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "dp"


@pytest.fixture
def kubelet(folder: Path) -> Iterator[FakeKubelet]:
    with FakeKubelet(folder, dial_timeout=2.0) as running:
        yield running
    assert not running.violations


@pytest.fixture
def plugin(kubelet: FakeKubelet) -> Iterator[ScriptedPlugin]:
    with ScriptedPlugin(kubelet.folder / "a.sock", GPU, listed(EIGHT)) as serving:
        yield serving


@pytest.fixture
def second(kubelet: FakeKubelet) -> Iterator[ScriptedPlugin]:
    with ScriptedPlugin(kubelet.folder / "b.sock", GPU, listed(EIGHT[:4])) as serving:
        yield serving


def refusal(register: Callable[[], None]) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        register()
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    return caught.value.details() or ""


@pytest.mark.parametrize(
    "name", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "a.b/C_d.e", "x/" + "n" * 63, "nvidia.com/gpu.shared"]
)
def test_extended_resource_names(name: str) -> None:
    assert is_extended_resource_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "gpu",
        "kubernetes.io/gpu",
        "node.kubernetes.io/gpu",
        "requests.nvidia.com/gpu",
        "nvidia.com/",
        "/gpu",
        "NVIDIA.com/gpu",
        "nvidia.com/gpu/a",
        "nvidia.com/gpu-",
        "nvidia..com/gpu",
        "nvidia.com/mig-1g.10gb+me",
        "x/" + "n" * 64,
        "d" * 250 + "/gpu",
    ],
)
def test_names_that_are_none(name: str) -> None:
    assert not is_extended_resource_name(name)


def test_the_list_of_a_registered_plugin_is_what_the_node_has(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    plugin.send(listed(EIGHT, sick=["g3"], nodes={"g0": 1}))
    plugin.register(kubelet.socket)
    view = kubelet.wait_for(GPU, healthy=7, unhealthy=1, streams=1)
    assert (view.capacity, view.allocatable, view.endpoint) == (8, 7, "a.sock")
    assert view.unhealthy == {"g3"}
    assert (view.devices["g0"].numa, view.devices["g1"].numa) == (1, None)
    (registration,) = kubelet.registrations
    assert (registration.resource, registration.endpoint) == (GPU, "a.sock")
    assert registration.options == Options(preferred_allocation=True)


def test_every_frame_replaces_the_whole_list(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    plugin.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=8)
    plugin.send(listed(["x"]))
    view = kubelet.wait_for(GPU, healthy=1)
    assert set(view.devices) == {"x"}
    assert [len(frame.devices) for frame in view.frames] == [8, 1]
    assert view.frames[0].time < view.frames[1].time


def test_options_are_asked_for_before_register_is_answered(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    plugin.script.errors["GetDevicePluginOptions"] = (grpc.StatusCode.INTERNAL, "not today")
    assert "INTERNAL: not today" in refusal(lambda: plugin.register(kubelet.socket))
    assert [name for name, _ in plugin.calls] == ["GetDevicePluginOptions"]
    assert not kubelet.registrations
    assert not kubelet.resources


def test_a_plugin_that_does_not_listen_is_refused(folder: Path) -> None:
    with FakeKubelet(folder, dial_timeout=0.1) as kubelet:
        with ScriptedPlugin(folder / "a.sock", GPU, listed(EIGHT)) as plugin:
            why = refusal(lambda: plugin.register(kubelet.socket, endpoint="nobody.sock"))
        assert f"cannot connect to the plugin at {folder}/nobody.sock" in why
        assert kubelet.refusals == [why]


def test_other_versions_and_names_are_refused(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    assert "'v1alpha'" in refusal(lambda: plugin.register(kubelet.socket, version="v1alpha"))
    plugin.resource = "gpu"
    assert "not an extended resource name" in refusal(lambda: plugin.register(kubelet.socket))
    assert not plugin.calls


@pytest.mark.parametrize(("version", "kept"), [("1.24", True), ("1.32", False), ("1.36", False)])
def test_old_kubelets_keep_the_options_of_register(folder: Path, version: str, *, kept: bool) -> None:
    with (
        FakeKubelet(folder, version=version) as kubelet,
        ScriptedPlugin(folder / "a.sock", GPU, listed(EIGHT)) as plugin,
    ):
        said = wire.DevicePluginOptions(pre_start_required=True)
        plugin.register_options = said
        plugin.register(kubelet.socket)
        (registration,) = kubelet.registrations
        assert registration.options == (
            Options(pre_start_required=True) if kept else Options(preferred_allocation=True)
        )
        assert "Register said" in kubelet.violations[0]


@pytest.mark.parametrize(("version", "left"), [("1.32", set()), ("1.24", set()), ("1.36", {"notes", "link"})])
def test_the_folder_is_cleaned_at_start(folder: Path, version: str, left: set[str]) -> None:
    with FakeKubelet(folder, version=version) as kubelet:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o750
        (folder / "notes").write_text("mine")
        (folder / "link").symlink_to("notes")
        (folder / "sub").mkdir()
        (folder / "sub" / "kept.sock").write_text("")
        with ScriptedPlugin(folder / "a.sock", GPU, listed(EIGHT)) as plugin:
            plugin.register(kubelet.socket)
            kubelet.wait_for(GPU, healthy=8)
            kubelet.restart()
            names = {entry.name for entry in folder.iterdir()}
    assert names == {"kubelet.sock", "kubelet_internal_checkpoint", "sub", *left}
    assert (folder / "sub" / "kept.sock").exists()


def test_a_stream_that_ends_makes_all_unhealthy_and_is_not_opened_again(
    kubelet: FakeKubelet, plugin: ScriptedPlugin
) -> None:
    plugin.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=8)
    plugin.end_streams()
    view = kubelet.wait_for(GPU, healthy=0, unhealthy=8, streams=0)
    assert not view.stream_open
    assert len(plugin.requests("ListAndWatch")) == 1
    plugin.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=8, streams=1)


def test_a_resource_without_stream_is_dropped_after_a_time(folder: Path) -> None:
    with (
        FakeKubelet(folder, drop_after=0.1) as kubelet,
        ScriptedPlugin(folder / "a.sock", GPU, listed(EIGHT)) as plugin,
    ):
        plugin.register(kubelet.socket)
        kubelet.wait_for(GPU, healthy=8)
        kubelet.cut_stream(GPU)
        wait_until(lambda: GPU not in kubelet.resources, what="the resource to go")


def test_a_list_over_four_mebibytes_ends_the_stream(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    plugin.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=8)
    fits = listed([f"{n:0100}" for n in range(35_000)])
    plugin.send(fits)
    kubelet.wait_for(GPU, healthy=35_000)
    plugin.send(listed([f"{n:0100}" for n in range(40_000)]))
    kubelet.wait_for(GPU, healthy=0, unhealthy=35_000, streams=0)


def test_frames_of_a_replaced_registration_still_count(
    kubelet: FakeKubelet, plugin: ScriptedPlugin, second: ScriptedPlugin
) -> None:
    plugin.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=8)
    second.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=4, streams=2)
    assert [stream.endpoint for stream in kubelet.streams[GPU]] == ["a.sock", "b.sock"]
    plugin.send(listed(["old"]))
    assert set(kubelet.wait_for(GPU, healthy=1).devices) == {"old"}


def test_the_end_of_an_earlier_stream_cuts_the_newest_connection(
    kubelet: FakeKubelet, plugin: ScriptedPlugin, second: ScriptedPlugin
) -> None:
    plugin.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=8)
    second.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=4, streams=2)
    plugin.end_streams()
    kubelet.wait_for(GPU, healthy=0, unhealthy=4, streams=0)
    wait_until(lambda: second.open_streams == 0, what="the newcomer to be cut off")
    second.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=4, streams=1)


def test_a_cut_ends_the_newest_stream_only_and_the_socket_stays(
    kubelet: FakeKubelet, plugin: ScriptedPlugin, second: ScriptedPlugin
) -> None:
    identity = kubelet.socket.stat().st_ino
    plugin.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=8)
    second.register(kubelet.socket)
    kubelet.wait_for(GPU, healthy=4, streams=2)
    kubelet.cut_stream(GPU)
    kubelet.wait_for(GPU, healthy=0, streams=1)
    assert kubelet.streams[GPU][0].endpoint == "a.sock"
    assert kubelet.socket.stat().st_ino == identity
    with pytest.raises(LookupError, match="no open connection"):
        kubelet.cut_stream(GPU)


def test_a_list_that_breaks_the_api_is_held_against_the_plugin(folder: Path) -> None:
    with (
        FakeKubelet(folder) as kubelet,
        ScriptedPlugin(folder / "a.sock", GPU, listed(["a", "a", "b"], nodes={"b": -1})) as plugin,
    ):
        plugin.register(kubelet.socket)
        kubelet.wait_for(GPU, healthy=2)
        odd = wire.ListAndWatchResponse(devices=[wire.Device(ID="c", health="well")])
        plugin.send(odd.SerializeToString())
        kubelet.wait_for(GPU, healthy=0, unhealthy=1, streams=1)
        assert kubelet.violations == [
            "nvidia.com/gpu: id 'a' is listed 2 times",
            "nvidia.com/gpu: 'b' is on NUMA nodes (-1,)",
            "nvidia.com/gpu: 'c' has health 'well'",
        ]
