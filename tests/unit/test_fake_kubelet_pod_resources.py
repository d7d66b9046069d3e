from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from deviceplugin.kubelet.wire import podresources_pb2 as wire
from deviceplugin.kubelet.wire import podresources_pb2_grpc as services
from tests.fake_kubelet import FakeKubelet, Pod
from tests.fake_kubelet.scripted_plugin import ScriptedPlugin, listed

GPU = "nvidia.com/gpu"


class Client:
    """Asks the pod resources API as a metrics exporter would."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = services.PodResourcesListerStub(channel)  # type: ignore[no-untyped-call]

    def listed(self, *, wait: bool = False) -> list[wire.PodResources]:
        return list(self._stub.List(wire.ListPodResourcesRequest(), timeout=5, wait_for_ready=wait).pod_resources)

    def allocatable(self) -> list[wire.ContainerDevices]:
        return list(self._stub.GetAllocatableResources(wire.AllocatableResourcesRequest(), timeout=5).devices)

    def get(self, name: str, namespace: str = "default") -> wire.PodResources:
        request = wire.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        found: wire.PodResources = self._stub.Get(request, timeout=5).pod_resources
        return found


@pytest.fixture
def kubelet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FakeKubelet]:
    version = getattr(request, "param", "1.32")
    with FakeKubelet(tmp_path / "dp", version=version, pod_resources=tmp_path / "pr" / "k.sock") as running:
        sub = running.folder / "sub"
        sub.mkdir()
        with ScriptedPlugin(sub / "a.sock", GPU, listed(["a", "b", "c"], sick=["c"], nodes={"a": 1})) as plugin:
            plugin.register(running.socket, endpoint="sub/a.sock")
            running.wait_for(GPU, healthy=2, unhealthy=1)
            yield running


@pytest.fixture
def client(kubelet: FakeKubelet, tmp_path: Path) -> Iterator[Client]:
    with grpc.insecure_channel(f"unix:{tmp_path / 'pr' / 'k.sock'}") as channel:
        yield Client(channel)


def ids(pod: wire.PodResources) -> dict[str, list[str]]:
    return {c.name: sorted(id_ for d in c.devices for id_ in d.device_ids) for c in pod.containers}


def test_pods_are_listed_with_their_devices_until_they_are_gone(kubelet: FakeKubelet, client: Client) -> None:
    assert client.listed() == []
    kubelet.admit(Pod("train", "team", containers={"main": {GPU: 2}, "side": {}}, init_containers={"i": {}}))
    (pod,) = client.listed()
    assert (pod.name, pod.namespace) == ("train", "team")
    assert ids(pod) == {"main": ["a", "b"], "side": []}
    held = {d.device_ids[0]: [n.ID for n in d.topology.nodes] for d in pod.containers[0].devices}
    assert held == {"a": [1], "b": []}
    assert {d.resource_name for d in pod.containers[0].devices} == {GPU}
    kubelet.delete("train", namespace="team")
    assert client.listed() == []


def test_books_survive_a_restart(kubelet: FakeKubelet, client: Client) -> None:
    kubelet.admit(Pod("a", containers={"main": {GPU: 1}}))
    before = client.listed()
    kubelet.kill()
    kubelet.start()
    assert client.listed(wait=True) == before


def test_allocatable_is_what_is_healthy_held_or_not(kubelet: FakeKubelet, client: Client) -> None:
    kubelet.admit(Pod("a", containers={"main": {GPU: 1}}))
    assert [list(d.device_ids) for d in client.allocatable()] == [["a"], ["b"]]


def test_one_pod_by_name(kubelet: FakeKubelet, client: Client) -> None:
    kubelet.admit(Pod("a", containers={"main": {GPU: 2}}))
    assert ids(client.get("a")) == {"main": ["a", "b"]}
    with pytest.raises(grpc.RpcError, match="no pod a in other"):
        client.get("a", "other")


@pytest.mark.parametrize("kubelet", ["1.24"], indirect=True)
def test_old_kubelets_know_no_get(kubelet: FakeKubelet, client: Client) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.get("a")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
