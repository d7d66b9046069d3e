from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from tests.fake_kubelet import AdmissionFailed, FakeKubelet, Grant, Pod
from tests.fake_kubelet.scripted_plugin import ScriptedPlugin, listed
from tests.waiting import wait_until

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
EIGHT = [f"g{n}" for n in range(8)]
TWO_SOCKETS = {id_: int(n >= 4) for n, id_ in enumerate(EIGHT)}


@pytest.fixture
def kubelet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path / "dp", numa_policy=getattr(request, "param", None), seed=7) as running:
        yield running


@pytest.fixture
def plugin(kubelet: FakeKubelet) -> Iterator[ScriptedPlugin]:
    sub = kubelet.folder / "sub"
    sub.mkdir()
    with ScriptedPlugin(sub / "a.sock", GPU, listed(EIGHT, nodes=TWO_SOCKETS)) as serving:
        serving.register(kubelet.socket, endpoint="sub/a.sock")
        kubelet.wait_for(GPU, healthy=8)
        yield serving


def pod(name: str, n: int, **init: int) -> Pod:
    return Pod(
        name,
        containers={"main": {GPU: n}},
        init_containers={title: {GPU: count} for title, count in init.items()},
    )


def asked(plugin: ScriptedPlugin) -> list[wire.ContainerPreferredAllocationRequest]:
    found = plugin.requests("GetPreferredAllocation")
    plugin.calls.clear()
    return [r.container_requests[0] for r in found if isinstance(r, wire.PreferredAllocationRequest)]


def given(plugin: ScriptedPlugin) -> list[list[str]]:
    found = plugin.requests("Allocate")
    return [list(r.container_requests[0].devices_ids) for r in found if isinstance(r, wire.AllocateRequest)]


def failure(admit: Callable[[], object]) -> AdmissionFailed:
    with pytest.raises(AdmissionFailed) as caught:
        admit()
    return caught.value


def test_the_plugin_is_asked_about_all_that_is_free_and_its_word_is_followed(
    kubelet: FakeKubelet, plugin: ScriptedPlugin
) -> None:
    plugin.script.preference = lambda _request: ["g5", "g6"]
    admitted = kubelet.admit(pod("a", 2))
    assert set(admitted["main"].ids[GPU]) == {"g5", "g6"}
    (request,) = asked(plugin)
    assert sorted(request.available_deviceIDs) == EIGHT
    assert (list(request.must_include_deviceIDs), request.allocation_size) == ([], 2)
    kubelet.admit(pod("b", 0))
    plugin.script.preference = lambda _request: ["g0"]
    kubelet.admit(pod("c", 1))
    (request,) = asked(plugin)
    assert sorted(request.available_deviceIDs) == ["g0", "g1", "g2", "g3", "g4", "g7"]
    assert not kubelet.violations


def test_the_plugin_is_asked_also_when_all_are_needed(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.admit(pod("a", 8))
    assert [request.allocation_size for request in asked(plugin)] == [8]


def test_ids_come_in_random_order_the_same_for_the_same_seed(tmp_path: Path) -> None:
    def orders(seed: int, folder: Path) -> tuple[list[str], list[list[str]]]:
        with (
            FakeKubelet(folder, seed=seed) as kubelet,
            ScriptedPlugin(folder / "a.sock", GPU, listed(EIGHT)) as plugin,
        ):
            plugin.register(kubelet.socket)
            kubelet.wait_for(GPU, healthy=8)
            kubelet.admit(pod("a", 8))
            order = given(plugin)
            return list(asked(plugin)[0].available_deviceIDs), order

    first = orders(1, tmp_path / "x")
    assert first == orders(1, tmp_path / "y")
    assert first != orders(2, tmp_path / "z")
    assert first[0] != EIGHT
    assert sorted(first[1][0]) == EIGHT


def test_a_plugin_without_the_option_is_not_asked(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    plugin.script.options = wire.DevicePluginOptions()
    plugin.register(kubelet.socket, endpoint="sub/a.sock")
    kubelet.wait_for(GPU, healthy=8, streams=2)
    assert len(kubelet.admit(pod("a", 3))["main"].all_ids) == 3
    assert not asked(plugin)


@pytest.mark.parametrize(
    ("answer", "law"),
    [
        (["g1"], "answered 1 ids instead of 2"),
        (["g1", "g1"], "answered an id twice"),
        (["g1", "zz"], "not available: ['zz']"),
        (["g1", "g2", "g3"], "answered 3 ids instead of 2"),
    ],
)
def test_a_bad_preference_is_held_against_the_plugin_and_topped_up(
    kubelet: FakeKubelet, plugin: ScriptedPlugin, answer: list[str], law: str
) -> None:
    plugin.script.preference = lambda _request: answer
    ids = kubelet.admit(pod("a", 2))["main"].all_ids
    assert len(set(ids)) == 2
    assert set(ids) <= set(EIGHT)
    assert set(ids) & set(answer)
    assert any(law in violation for violation in kubelet.violations)


def test_an_answer_for_no_container_fails_only_where_it_must(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    plugin.script.containers = 0
    failed = failure(lambda: kubelet.admit(pod("a", 2)))
    assert "Allocate of nvidia.com/gpu answered for no container" in failed.message
    assert kubelet.violations == [
        "nvidia.com/gpu: GetPreferredAllocation answered for no container",
        "nvidia.com/gpu: Allocate answered for 0 containers, not 1",
    ]


@pytest.mark.parametrize("call", ["GetPreferredAllocation", "Allocate"])
def test_an_error_of_the_plugin_fails_the_pod_and_frees_its_devices(
    kubelet: FakeKubelet, plugin: ScriptedPlugin, call: str
) -> None:
    plugin.script.errors[call] = (grpc.StatusCode.FAILED_PRECONDITION, "g3 is ill")
    failed = failure(lambda: kubelet.admit(pod("a", 8)))
    assert failed.reason == "UnexpectedAdmissionError"
    assert failed.code is grpc.StatusCode.FAILED_PRECONDITION
    assert f"{call}: FAILED_PRECONDITION: g3 is ill" in failed.message
    assert not kubelet.pods
    plugin.script.errors.clear()
    kubelet.admit(pod("b", 8))


def test_a_node_with_too_few_or_none_or_only_sick_devices(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.admit(pod("a", 6))
    assert "3 wanted, 2 free" in failure(lambda: kubelet.admit(pod("b", 3))).message
    nothing = Pod("c", containers={"main": {MIG: 1}})
    assert failure(lambda: kubelet.admit(nothing)).reason == f"OutOf{MIG}"
    plugin.send(listed(EIGHT, sick=EIGHT))
    kubelet.wait_for(GPU, healthy=0, unhealthy=8)
    assert "no healthy" in failure(lambda: kubelet.admit(pod("d", 1))).message


def test_devices_are_free_again_when_their_pod_is_gone(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.admit(pod("a", 8))
    assert list(kubelet.pods) == ["a"]
    kubelet.delete("a")
    assert not kubelet.pods
    kubelet.admit(pod("a", 8))
    with pytest.raises(ValueError, match="there already"):
        kubelet.admit(pod("a", 1))
    with pytest.raises(LookupError, match="no pod b in default"):
        kubelet.delete("b")


def test_init_containers_devices_are_used_again(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    admitted = kubelet.admit(pod("a", 2, first=3, second=2))
    first, second, main = (set(admitted[name].all_ids) for name in ("first", "second", "main"))
    assert second <= first
    assert main <= first
    assert len(asked(plugin)) == 1
    kubelet.admit(pod("b", 5))
    wide = kubelet.admit(Pod("c", containers={"main": {}}))
    assert wide["main"].all_ids == ()


def test_what_an_init_container_had_must_be_included(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    admitted = kubelet.admit(pod("a", 4, first=2))
    _, request = asked(plugin)
    assert sorted(request.must_include_deviceIDs) == sorted(admitted["first"].all_ids)
    assert request.allocation_size == 4
    assert sorted(request.available_deviceIDs) == EIGHT
    assert set(admitted["first"].all_ids) < set(admitted["main"].all_ids)


def test_a_must_include_that_was_left_out_is_held_against_the_plugin(
    kubelet: FakeKubelet, plugin: ScriptedPlugin
) -> None:
    answers = iter([["g0", "g1"], ["g4", "g5", "g6"]])
    plugin.script.preference = lambda _request: next(answers)
    main = kubelet.admit(pod("a", 3, first=2))["main"].all_ids
    assert {"g0", "g1"} < set(main)
    assert kubelet.violations == [
        "nvidia.com/gpu: GetPreferredAllocation left out ids that must be included: ['g0', 'g1']"
    ]


@pytest.mark.parametrize("kubelet", ["single-numa-node"], indirect=True)
def test_with_a_hint_the_plugin_is_asked_about_the_aligned_ones(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.admit(pod("a", 3))
    (request,) = asked(plugin)
    assert sorted(request.available_deviceIDs) == EIGHT[:4]
    kubelet.admit(pod("b", 4))
    assert asked(plugin) == []
    assert set(kubelet.pods["b"]["main"].all_ids) == set(EIGHT[4:])
    assert failure(lambda: kubelet.admit(pod("c", 2))).reason == "TopologyAffinityError"


@pytest.mark.parametrize("kubelet", ["best-effort"], indirect=True)
def test_more_than_the_aligned_ones_takes_them_and_asks_about_the_rest(
    kubelet: FakeKubelet, plugin: ScriptedPlugin
) -> None:
    plugin.script.preference = lambda _request: ["g0", "g1", "g2", "g7", "n1"]
    plugin.send(listed([*EIGHT, "n0", "n1"], sick=["g3", "g4", "g5", "g6"], nodes=TWO_SOCKETS))
    kubelet.wait_for(GPU, healthy=6)
    main = kubelet.admit(pod("a", 5))["main"].all_ids
    (request,) = asked(plugin)
    assert request.allocation_size == 5
    assert sorted(request.must_include_deviceIDs) == ["g0", "g1", "g2", "g7"]
    assert sorted(request.available_deviceIDs) == ["g0", "g1", "g2", "g7", "n0", "n1"]
    assert set(main) == {"g0", "g1", "g2", "g7", "n1"}
    assert not kubelet.violations


@pytest.mark.parametrize("kubelet", ["restricted"], indirect=True)
def test_restricted_spans_nodes_only_where_the_size_demands_it(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    kubelet.admit(pod("a", 1))
    plugin.script.preference = lambda _request: ["g4"]
    assert failure(lambda: kubelet.admit(Pod("x", containers={"m": {GPU: 4}, "n": {GPU: 4}}))).reason == (
        "TopologyAffinityError"
    )
    assert list(kubelet.pods) == ["a"]
    kubelet.admit(pod("b", 5))


def test_a_container_restart_gets_the_stored_answer_whatever_became_of_the_plugin(
    kubelet: FakeKubelet, plugin: ScriptedPlugin
) -> None:
    plugin.script.answer = wire.ContainerAllocateResponse(
        envs={"NVIDIA_VISIBLE_DEVICES": "g0"},
        mounts=[wire.Mount(container_path="/c", host_path="/h", read_only=True)],
        devices=[wire.DeviceSpec(container_path="/dev/x", host_path="/dev/x", permissions="rw")],
        annotations={"k": "v"},
        cdi_devices=[wire.CDIDevice(name="nvidia.com/gpu=g0"), wire.CDIDevice(name="nvidia.com/gpu=g0")],
    )
    grant = kubelet.admit(pod("a", 1))["main"]
    assert grant.envs == {"NVIDIA_VISIBLE_DEVICES": "g0"}
    assert [mount.host_path for mount in grant.mounts] == ["/h"]
    assert [spec.permissions for spec in grant.devices] == ["rw"]
    assert (grant.annotations, grant.cdi) == ({"k": "v"}, ("nvidia.com/gpu=g0",))
    plugin.end_streams()
    kubelet.restart()
    assert kubelet.restart_container("a", "main") == grant
    assert kubelet.pods["a"]["main"] == grant
    assert len(given(plugin)) == 1
    with pytest.raises(LookupError, match="no pod zz"):
        kubelet.restart_container("zz", "main")


def test_held_devices_stay_held_over_a_restart(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    held = set(kubelet.admit(pod("a", 5))["main"].all_ids)
    kubelet.kill()
    kubelet.start()
    plugin.register(kubelet.socket, endpoint="sub/a.sock")
    kubelet.wait_for(GPU, healthy=8)
    assert set(kubelet.admit(pod("b", 3))["main"].all_ids) == set(EIGHT) - held
    assert "0 free" in failure(lambda: kubelet.admit(pod("c", 1))).message


def test_a_pod_status_shows_the_health_of_its_devices(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    plugin.script.preference = lambda _request: ["g1", "g2", "g3"]
    kubelet.admit(pod("a", 3))
    plugin.send(listed(["g1", "g2"], sick=["g2"]))
    view = kubelet.wait_for(GPU, healthy=1)
    assert view.frames[-1].healthy == {"g1"}
    assert view.frames[-1].unhealthy == {"g2"}
    assert kubelet.health_of("a") == {"g1": "Healthy", "g2": "Unhealthy", "g3": "Unknown"}
    kubelet.restart()
    assert set(kubelet.health_of("a").values()) == {"Unknown"}


def test_before_a_container_starts_the_plugin_is_told_if_it_wants_to_be(
    kubelet: FakeKubelet, plugin: ScriptedPlugin
) -> None:
    kubelet.admit(pod("a", 1))
    assert not plugin.requests("PreStartContainer")
    plugin.script.options = wire.DevicePluginOptions(pre_start_required=True)
    plugin.register(kubelet.socket, endpoint="sub/a.sock")
    kubelet.wait_for(GPU, healthy=8, streams=2)
    kubelet.admit(pod("b", 2))
    kubelet.restart_container("b", "main")
    told = plugin.requests("PreStartContainer")
    assert [len(r.devices_ids) for r in told if isinstance(r, wire.PreStartContainerRequest)] == [2, 2]
    plugin.script.errors["PreStartContainer"] = (grpc.StatusCode.INTERNAL, "stuck")
    assert failure(lambda: kubelet.admit(pod("c", 1))).code is grpc.StatusCode.INTERNAL


def test_a_stopped_endpoint_gives_nothing(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    plugin.register(kubelet.socket, endpoint="sub/a.sock")
    kubelet.wait_for(GPU, healthy=8, streams=2)
    kubelet.cut_stream(GPU)
    kubelet.wait_for(GPU, healthy=0, streams=1)
    plugin.send(listed(EIGHT))
    wait_until(lambda: len(kubelet.resources[GPU].healthy) == 8, what="the old stream's list")
    assert "has stopped" in failure(lambda: kubelet.admit(pod("a", 1))).message


def test_one_allocate_for_each_resource_and_one_answer_wins(kubelet: FakeKubelet, plugin: ScriptedPlugin) -> None:
    plugin.script.answer = wire.ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": "g0", "A": "1"})
    with ScriptedPlugin(kubelet.folder / "m.sock", MIG, listed(["m0", "m1"])) as other:
        other.script.answer = wire.ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": "m0", "B": "2"})
        other.register(kubelet.socket)
        kubelet.wait_for(MIG, healthy=2)

        def both(name: str) -> Grant:
            return kubelet.admit(Pod(name, containers={"main": {GPU: 1, MIG: 1}}))["main"]

        grant = both("a")
        winners = {grant.envs["NVIDIA_VISIBLE_DEVICES"]}
        assert (grant.envs["A"], grant.envs["B"]) == ("1", "2")
        assert len(grant.conflicts) == 1
        assert "wins over" in grant.conflicts[0]
        assert (len(given(plugin)), len(given(other))) == (1, 1)
        kubelet.delete("a")
        for n in range(20):
            winners.add(both(f"p{n}").envs["NVIDIA_VISIBLE_DEVICES"])
            kubelet.delete(f"p{n}")
        assert winners == {"g0", "m0"}
