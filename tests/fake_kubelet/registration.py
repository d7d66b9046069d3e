"""The kubelet's Registration service."""

import threading
from collections.abc import Callable
from pathlib import Path

import grpc

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.kubelet.wire import deviceplugin_pb2_grpc as services
from tests.fake_kubelet.devices import DeviceManager
from tests.fake_kubelet.model import Faults, Options, RegistrationRefused


class Registrar(services.RegistrationServicer):
    """Answers Register only once the plugin has answered the kubelet."""

    def __init__(self, folder: Path, manager: DeviceManager, faults: Faults, on_success: Callable[[], None]) -> None:
        self._folder = folder
        self._manager = manager
        self._faults = faults
        self._on_success = on_success

    def Register(  # noqa: N802 - the service's name
        self, request: wire.RegisterRequest, context: grpc.ServicerContext
    ) -> wire.Empty:
        """A refusal has status UNKNOWN, as the kubelet's own errors do."""
        if self._faults.silent:
            gone = threading.Event()
            if context.add_callback(gone.set):
                gone.wait()
            return wire.Empty()
        try:
            self._manager.register(
                request.resource_name,
                self._folder / request.endpoint,
                (request.version,),
                Options.of(request.options),
            )
        except RegistrationRefused as refusal:
            context.abort(grpc.StatusCode.UNKNOWN, str(refusal))
        context.add_callback(self._on_success)
        return wire.Empty()
