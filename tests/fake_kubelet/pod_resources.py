"""The pod resources API, fed from the books."""

from collections.abc import Iterable
from typing import NoReturn

import grpc

from deviceplugin.kubelet.wire import podresources_pb2 as wire
from deviceplugin.kubelet.wire import podresources_pb2_grpc as services
from tests.fake_kubelet.books import Books, Entry
from tests.fake_kubelet.devices import DeviceManager
from tests.fake_kubelet.model import Pod


class PodResources(services.PodResourcesListerServicer):
    """Answers who holds what. As in the kubelet, every device is an entry of its own."""

    def __init__(self, books: Books, manager: DeviceManager, *, answers_get: bool) -> None:
        self._books = books
        self._manager = manager
        self._answers_get = answers_get

    def List(  # noqa: N802 - the service's name
        self, request: wire.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> wire.ListPodResourcesResponse:
        """All pods, with containers that hold nothing too, without init containers."""
        pods = list(self._books.pods.values())
        return wire.ListPodResourcesResponse(pod_resources=[_pod(self._books, pod) for pod in pods])

    def GetAllocatableResources(  # noqa: N802 - the service's name
        self, request: wire.AllocatableResourcesRequest, context: grpc.ServicerContext
    ) -> wire.AllocatableResourcesResponse:
        """All healthy devices, free or not."""
        listed = [
            _device(name, id_, view.devices[id_].nodes)
            for name, view in self._manager.views().items()
            for id_ in sorted(view.healthy)
        ]
        return wire.AllocatableResourcesResponse(devices=listed)

    def Get(  # noqa: N802 - the service's name
        self, request: wire.GetPodResourcesRequest, context: grpc.ServicerContext
    ) -> wire.GetPodResourcesResponse:
        """One pod; UNIMPLEMENTED on old kubelets."""
        if not self._answers_get:
            _fail(context, grpc.StatusCode.UNIMPLEMENTED, "unknown method Get")
        pod = self._books.pods.get((request.pod_namespace, request.pod_name))
        if pod is None:
            _fail(context, grpc.StatusCode.UNKNOWN, f"no pod {request.pod_name} in {request.pod_namespace}")
        return wire.GetPodResourcesResponse(pod_resources=_pod(self._books, pod))


def _fail(context: grpc.ServicerContext, code: grpc.StatusCode, details: str) -> NoReturn:
    context.abort(code, details)
    raise AssertionError("abort raises")


def _pod(books: Books, pod: Pod) -> wire.PodResources:
    containers = [
        wire.ContainerResources(name=name, devices=list(_devices(books.of(pod.key, name)))) for name in pod.containers
    ]
    return wire.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)


def _devices(entries: Iterable[Entry]) -> Iterable[wire.ContainerDevices]:
    for entry in entries:
        for id_, nodes in entry.nodes.items():
            yield _device(entry.resource, id_, nodes)


def _device(resource: str, id_: str, nodes: tuple[int, ...]) -> wire.ContainerDevices:
    topology = wire.TopologyInfo(nodes=[wire.NUMANode(ID=node) for node in nodes]) if nodes else None
    return wire.ContainerDevices(resource_name=resource, device_ids=[id_], topology=topology)
