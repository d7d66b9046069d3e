"""Registration by the kubelet's plugin watcher (proto package pluginregistration): here the kubelet is who calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from deviceplugin.kubelet import messages
from deviceplugin.kubelet.wire import pluginregistration_pb2 as wire

_SERVICE = "pluginregistration.Registration"


class Announcement:
    """Says what the socket it is served on stands for, and hears whether the kubelet took it.

    Args:
        resource_name: What is announced; DevicePlugin is served on the same socket.
        told: Called with None when the kubelet has registered the plugin, else with its error.
    """

    def __init__(self, resource_name: str, told: Callable[[str | None], None]) -> None:
        self._info = wire.PluginInfo(
            type="DevicePlugin", name=resource_name, supported_versions=[messages.VERSION]
        ).SerializeToString()
        self._told = told

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """The service as gRPC takes it."""
        unary = grpc.unary_unary_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "GetInfo": unary(self._get_info),
                "NotifyRegistrationStatus": unary(self._notify, wire.RegistrationStatus.FromString),
            },
        )

    async def _get_info(self, _request: bytes, _context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        return self._info

    async def _notify(self, status: wire.RegistrationStatus, _context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        self._told(None if status.plugin_registered else status.error or "no reason given")
        return b""
