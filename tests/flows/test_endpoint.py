"""One endpoint against the strict kubelet, on real sockets, when all goes well."""

import time
from pathlib import Path

import grpc
import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Registration
from deviceplugin.kubelet.endpoint import Endpoint, Wiring
from deviceplugin.kubelet.settings import EndpointSettings
from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.ledger import Phase
from deviceplugin.model.errors import KubeletError
from tests.fake_kubelet import AdmissionFailed, FakeKubelet, Pod
from tests.fake_kubelet.connection import Connection
from tests.flows.running import GPU, QUICK, RULES, Plugin, descriptors, offering, shares, with_sick
from tests.waiting import wait_until


def test_a_registered_plugin_lists_its_devices_and_admits_a_pod(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, offering(gpu=shares())) as plugin:
        view = kubelet.wait_for(GPU, healthy=8, unhealthy=0, streams=1)
        assert view.devices["GPU-5"].numa == 1
        admitted = kubelet.admit(Pod("train", containers={"main": {GPU: 2}}))
        assert admitted["main"].envs == {"NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1"}
        assert plugin.endpoint().phase is Phase.STREAMING
        assert plugin.endpoint().trouble == ""
    assert not kubelet.violations


def test_the_socket_is_named_after_the_resource_with_a_random_token(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, offering(gpu=shares(), mig_1g_10gb=shares())):
        kubelet.wait_for(GPU, streams=1)
        kubelet.wait_for("nvidia.com/mig-1g-10gb", streams=1)
        names = {r.resource: r.endpoint for r in kubelet.registrations}
    first, second = names[GPU], names["nvidia.com/mig-1g-10gb"]
    assert first.startswith("nvidia-gpu-")
    assert second.startswith("nvidia-mig-1g-10gb-")
    assert len(first) == len("nvidia-gpu-01234567.sock")


def test_a_change_of_health_goes_out_and_a_change_of_nothing_does_not(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, offering(gpu=shares())) as plugin:
        kubelet.wait_for(GPU, healthy=8, streams=1)
        for _ in range(20):
            plugin.publish(offering(gpu=shares()))
        plugin.publish(with_sick(plugin.snapshot, "GPU-3"))
        view = kubelet.wait_for(GPU, healthy=7, unhealthy=1, streams=1)
        assert view.unhealthy == {"GPU-3"}
        assert len(view.frames) == 2
        plugin.publish(offering(gpu=shares()))
        assert len(kubelet.wait_for(GPU, healthy=8, unhealthy=0).frames) == 3
    assert len(kubelet.registrations) == 1


def test_a_resource_that_vanishes_sends_an_empty_list_and_the_others_notice_nothing(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, offering(gpu=shares(), small=shares())) as plugin:
        kubelet.wait_for(GPU, healthy=8, streams=1)
        kubelet.wait_for("nvidia.com/small", healthy=8, streams=1)
        gone = plugin.socket("nvidia.com/small")
        plugin.publish(offering(gpu=shares()))
        view = kubelet.wait_for("nvidia.com/small", healthy=0, streams=0)
        assert [len(frame.devices) for frame in view.frames] == [8, 0]
        wait_until(lambda: not gone.exists(), what="the socket file to go")
        assert len(kubelet.resources[GPU].frames) == 1
        assert kubelet.resources[GPU].stream_open


def test_leaving_ends_the_streams_and_removes_the_sockets_within_300_ms(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, offering(gpu=shares(), small=shares())) as plugin:
        kubelet.wait_for(GPU, streams=1)
        kubelet.wait_for("nvidia.com/small", streams=1)
        began = time.monotonic()
        plugin.leave()
        assert time.monotonic() - began < 0.3
        assert not list(tmp_path.glob("nvidia-*"))
        view = kubelet.wait_for(GPU, streams=0)
        assert [len(frame.devices) for frame in view.frames] == [8]
        wait_until(lambda: kubelet.resources[GPU].unhealthy, what="the kubelet to mark the devices")
    assert plugin.notes.events[-1][0] == "phase"
    assert plugin.notes.count("opened") == plugin.notes.count("closed") == 2


def test_the_kubelet_that_comes_later_has_the_list_within_100_ms(tmp_path: Path) -> None:
    with Plugin(tmp_path, offering(gpu=shares())) as plugin:
        wait_until(lambda: plugin.endpoint().socket_path, what="the endpoint to serve")
        taken = []
        for _ in range(5):
            with FakeKubelet(tmp_path) as kubelet:
                appeared = kubelet.socket.stat().st_mtime
                view = kubelet.wait_for(GPU, healthy=8, streams=1)
                taken.append(view.frames[0].time - time.monotonic() + time.time() - appeared)
            wait_until(lambda: plugin.endpoint().phase is Phase.SERVING, what="the endpoint to notice")
    assert sorted(taken)[2] < 0.1, taken


def test_every_container_of_one_call_is_answered(tmp_path: Path) -> None:
    with Plugin(tmp_path, offering(gpu=shares()), replace(QUICK, kubelet_socket=None)) as plugin:
        wait_until(lambda: plugin.endpoint().socket_path, what="the endpoint to serve")
        with grpc.insecure_channel(f"unix:{plugin.socket()}") as channel:
            allocate = channel.unary_unary(
                "/v1beta1.DevicePlugin/Allocate",
                wire.AllocateRequest.SerializeToString,
                wire.AllocateResponse.FromString,
            )
            wanted = [wire.ContainerAllocateRequest(devices_ids=ids) for ids in (["GPU-0"], ["GPU-2", "GPU-1"])]
            answer = allocate(wire.AllocateRequest(container_requests=wanted), timeout=5)
            prefer = channel.unary_unary(
                "/v1beta1.DevicePlugin/GetPreferredAllocation",
                wire.PreferredAllocationRequest.SerializeToString,
                wire.PreferredAllocationResponse.FromString,
            )
            asked = [
                wire.ContainerPreferredAllocationRequest(available_deviceIDs=["GPU-5", "GPU-4"], allocation_size=1)
            ] * 2
            preferred = prefer(wire.PreferredAllocationRequest(container_requests=asked), timeout=5)
    assert [c.envs["NVIDIA_VISIBLE_DEVICES"] for c in answer.container_responses] == ["GPU-0", "GPU-1,GPU-2"]
    assert [list(c.deviceIDs) for c in preferred.container_responses] == [["GPU-4"], ["GPU-4"]]
    assert plugin.notes.count("preferred", GPU, 1, 1, True) == 2


def test_refusals_reach_the_kubelet_with_status_and_words(tmp_path: Path) -> None:
    snapshot = with_sick(offering(gpu=shares()), "GPU-1")
    with Plugin(tmp_path, snapshot, replace(QUICK, kubelet_socket=None)) as plugin:
        wait_until(lambda: plugin.endpoint().socket_path, what="the endpoint to serve")
        kubelet = Connection(GPU, plugin.socket(), authority="localhost")
        try:
            for ids, code, words in (
                (["GPU-99"], grpc.StatusCode.INVALID_ARGUMENT, "GPU-99 is no device of nvidia.com/gpu"),
                (["GPU-1"], grpc.StatusCode.FAILED_PRECONDITION, "GPU-1 is unhealthy: xid-79"),
            ):
                with pytest.raises(grpc.RpcError) as refused:
                    kubelet.allocate(ids)
                assert refused.value.code() is code
                assert refused.value.details() == words
            with pytest.raises(grpc.RpcError) as refused:
                kubelet.preferred(["GPU-0"], [], 0)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            kubelet.pre_start(["GPU-0"])
        finally:
            kubelet.close()
    assert plugin.notes.count("allocated", GPU, False) == 2
    assert plugin.notes.count("preferred-refused", GPU) == 1


def test_an_allocation_of_a_resource_no_longer_offered_is_refused(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, offering(gpu=shares())) as plugin:
        kubelet.wait_for(GPU, streams=1)

        async def vanish_without_stopping() -> None:
            plugin.board.publish(offering())

        plugin.call(vanish_without_stopping())
        kubelet.wait_for(GPU, healthy=0, streams=1)
        connection = Connection(GPU, plugin.socket(), authority="localhost")
        try:
            with pytest.raises(grpc.RpcError) as refused:
                connection.allocate(["GPU-0"])
        finally:
            connection.close()
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert refused.value.details() == "nvidia.com/gpu is no longer offered by this node"


def test_an_unhealthy_device_fails_admission_with_its_reason(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, offering(gpu=shares(1))) as plugin:
        kubelet.wait_for(GPU, healthy=1, streams=1)
        plugin.publish(with_sick(plugin.snapshot, "GPU-0"))
        kubelet.wait_for(GPU, healthy=0, unhealthy=1)
        with pytest.raises(AdmissionFailed):
            kubelet.admit(Pod("train", containers={"main": {GPU: 1}}))


def test_without_a_kubelet_socket_it_serves_and_registers_nowhere(tmp_path: Path) -> None:
    with Plugin(tmp_path, offering(gpu=shares()), replace(QUICK, kubelet_socket=None)) as plugin:
        wait_until(lambda: plugin.endpoint().socket_path, what="the endpoint to serve")
        plugin.call(plugin.endpoint().ping())
        wait_until(lambda: plugin.endpoint().phase is Phase.SERVING, what="the phase")
    assert not plugin.notes.count("failed")


def test_ping_tells_a_served_endpoint_from_one_that_is_not(tmp_path: Path) -> None:
    with Plugin(tmp_path / "absent", offering(gpu=shares())) as plugin:
        wait_until(lambda: plugin.notes.count("failed", GPU, "not-served"), what="the failure to serve")
        plugin.call(plugin.endpoint().ping())  # a missing folder is no fault of the process
        (tmp_path / "absent").mkdir()
        wait_until(lambda: plugin.endpoint().socket_path, what="the endpoint to serve")
        plugin.call(plugin.endpoint().ping())
        fresh = Endpoint(GPU, plugin.board, plugin.settings, Wiring(RULES))
        with pytest.raises(KubeletError, match="not served: starting"):
            plugin.call(fresh.ping())


def test_ping_fails_when_nobody_answers_at_the_own_socket(tmp_path: Path) -> None:
    with Plugin(tmp_path, offering(gpu=shares()), replace(QUICK, kubelet_socket=None)) as plugin:
        wait_until(lambda: plugin.endpoint().socket_path, what="the endpoint to serve")
        own = plugin.endpoint()._server
        assert own is not None
        own.path = tmp_path / "elsewhere.sock"
        with pytest.raises(KubeletError, match=r"elsewhere.sock: the own socket does not answer: UNAVAILABLE"):
            plugin.call(plugin.endpoint().ping())


def test_by_the_plugin_watcher_the_kubelet_finds_the_socket(tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    watcher = replace(QUICK, registration=Registration.WATCHER, kubelet_socket=None)
    registry.mkdir()
    with (
        FakeKubelet(tmp_path / "plugins", plugins_registry=registry) as kubelet,
        Plugin(registry, offering(gpu=shares()), watcher) as plugin,
    ):
        kubelet.wait_for(GPU, healthy=8, streams=1)
        wait_until(lambda: plugin.endpoint().phase is Phase.STREAMING, what="the stream")
        before = plugin.socket()
        kubelet.cut_stream(GPU)
        wait_until(lambda: plugin.endpoint().socket_path not in {None, before}, what="a new socket")
        kubelet.wait_for(GPU, healthy=8, streams=1)
        assert not before.exists()
        kubelet.restart()
        kubelet.wait_for(GPU, healthy=8, streams=1)


def test_settings_follow_the_configuration() -> None:
    from deviceplugin.config.document import Kubelet

    assert EndpointSettings.of(Kubelet()) == EndpointSettings()
    assert EndpointSettings.of(Kubelet(socket="/run/k/other.sock")).kubelet_path == Path("/run/k/other.sock")
    assert EndpointSettings.of(Kubelet(socket="")).kubelet_path is None
    by_watcher = EndpointSettings.of(Kubelet(registration=Registration.WATCHER, plugins_registry="/run/reg"))
    assert (by_watcher.folder, by_watcher.kubelet_path) == (Path("/run/reg"), None)


def test_a_hundred_replicas_of_eight_cards_reach_the_kubelet_with_one_sick_card(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, offering(gpu=shares(8, 100))) as plugin:
        kubelet.wait_for(GPU, healthy=800, streams=1)
        plugin.publish(with_sick(plugin.snapshot, "GPU-7"))
        view = kubelet.wait_for(GPU, healthy=700, unhealthy=100)
        assert {id_.split("::")[0] for id_ in view.unhealthy} == {"GPU-7"}


def test_descriptors_of_the_process_stay_after_an_endpoint(tmp_path: Path) -> None:
    with FakeKubelet(tmp_path) as kubelet:
        with Plugin(tmp_path, offering(gpu=shares())):
            kubelet.wait_for(GPU, streams=1)
        kubelet.wait_for(GPU, streams=0)
        before = descriptors()
        for _ in range(3):
            with Plugin(tmp_path, offering(gpu=shares())):
                kubelet.wait_for(GPU, streams=1)
            kubelet.wait_for(GPU, streams=0)
        wait_until(lambda: descriptors() <= before + 1, what="descriptors to be closed")
