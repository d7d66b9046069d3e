"""A device plugin on grpc.aio whose every answer is constant: the least that a plugin in Python costs.

With `--answers` its Allocate answers are those of another plugin, byte for byte, one for each number of devices.

Run as `python -m tests.fake_kubelet.echo_plugin --folder DIR`; it ends on SIGTERM, its socket with it.
"""

import argparse
import asyncio
import importlib
import secrets
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import grpc
import grpc.aio

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.kubelet.wire import deviceplugin_pb2_grpc as services
from tests.fake_kubelet.model import API_VERSION, HEALTHY, SOCKET_NAME

OPTIONS = wire.DevicePluginOptions(get_preferred_allocation_available=True)


class EchoPlugin(services.DevicePluginServicer):
    """One list for ever, the first ids as a preference, one environment variable (or the given answers)."""

    def __init__(self, devices: int, replicas: int, answers: Mapping[int, wire.AllocateResponse]) -> None:
        ids = [f"GPU-{n:08x}-0000-4000-8000-{n:012x}" for n in range(devices)]
        if replicas > 1:
            ids = [f"{id_}::{n}" for id_ in ids for n in range(replicas)]
        self._list = wire.ListAndWatchResponse(devices=[wire.Device(ID=id_, health=HEALTHY) for id_ in ids])
        granted = wire.ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": ids[0] if ids else "void"})
        self._granted = wire.AllocateResponse(container_responses=[granted])
        self._answers = answers
        self.leaving = asyncio.Event()

    async def GetDevicePluginOptions(  # noqa: N802 - the service's name
        self, request: wire.Empty, context: object
    ) -> wire.DevicePluginOptions:
        return OPTIONS

    async def ListAndWatch(  # noqa: N802 - the service's name
        self, request: wire.Empty, context: object
    ) -> AsyncIterator[wire.ListAndWatchResponse]:
        yield self._list
        await self.leaving.wait()

    async def GetPreferredAllocation(  # noqa: N802 - the service's name
        self, request: wire.PreferredAllocationRequest, context: object
    ) -> wire.PreferredAllocationResponse:
        asked = request.container_requests[0]
        must = list(asked.must_include_deviceIDs)
        others = [id_ for id_ in asked.available_deviceIDs if id_ not in must]
        chosen = [*must, *others][: asked.allocation_size]
        answer = wire.ContainerPreferredAllocationResponse(deviceIDs=chosen)
        return wire.PreferredAllocationResponse(container_responses=[answer])

    async def Allocate(  # noqa: N802 - the service's name
        self, request: wire.AllocateRequest, context: object
    ) -> wire.AllocateResponse:
        return self._answers.get(len(request.container_requests[0].devices_ids), self._granted)

    async def PreStartContainer(  # noqa: N802 - the service's name
        self, request: wire.PreStartContainerRequest, context: object
    ) -> wire.PreStartContainerResponse:
        return wire.PreStartContainerResponse()


async def serve(folder: Path, resource: str, plugin: EchoPlugin) -> None:
    """Serves, registers, and stays until `plugin.leaving` is set."""
    socket = folder / f"echo-{secrets.token_hex(4)}.sock"
    server = grpc.aio.server()
    services.add_DevicePluginServicer_to_server(plugin, server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    request = wire.RegisterRequest(version=API_VERSION, endpoint=socket.name, resource_name=resource, options=OPTIONS)
    async with grpc.aio.insecure_channel(f"unix:{folder / SOCKET_NAME}") as channel:
        await services.RegistrationStub(channel).Register(request)  # type: ignore[no-untyped-call]
    print(f"{resource} is registered by {socket}", flush=True)
    await plugin.leaving.wait()
    await server.stop(grace=0.2)


async def _main(options: argparse.Namespace) -> None:
    answers = {
        int(number): wire.AllocateResponse.FromString(bytes.fromhex(data))
        for number, _, data in (one.partition(":") for one in options.answers)
    }
    plugin = EchoPlugin(options.devices, options.replicas, answers)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, plugin.leaving.set)
    await serve(options.folder, options.resource, plugin)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.fake_kubelet.echo_plugin", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="the kubelet's device plugin folder")
    parser.add_argument("--resource", default="nvidia.com/gpu")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--replicas", type=int, default=1, help="ids per device")
    parser.add_argument("--answers", nargs="*", default=[], metavar="NUMBER:HEX", help="AllocateResponse messages")
    parser.add_argument("--imports", nargs="*", default=[], help="modules to import first, as ballast")
    arguments = parser.parse_args()
    for module in arguments.imports:
        importlib.import_module(module)
    asyncio.run(_main(arguments))
