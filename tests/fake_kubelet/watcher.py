"""The plugin watcher: the second way to register, by a socket in the plugins registry."""

import stat
import threading
from pathlib import Path

import grpc

from deviceplugin.kubelet.wire import pluginregistration_pb2 as wire
from deviceplugin.kubelet.wire import pluginregistration_pb2_grpc as services
from tests.fake_kubelet.connection import describe
from tests.fake_kubelet.devices import DeviceManager
from tests.fake_kubelet.model import RegistrationRefused

PLUGIN_TYPE = "DevicePlugin"
TIMEOUT = 1.0
Identity = tuple[int, int]


class PluginWatcher:
    """Looks at the folder again and again, and registers what is new and deregisters what is gone."""

    def __init__(self, folder: Path, manager: DeviceManager, *, period: float) -> None:
        self._folder = folder
        self._manager = manager
        self._period = period
        self._seen: dict[Path, tuple[Identity, str]] = {}
        self._channel: grpc.Channel | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake-kubelet-plugin-watcher")
        self._thread.start()

    def stop(self) -> None:
        """Ends the watching; what is registered stays so."""
        self._stopping.set()
        if self._channel is not None:
            self._channel.close()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._period):
            present = dict(_sockets(self._folder))
            for path, (identity, resource) in list(self._seen.items()):
                if present.get(path) != identity:
                    del self._seen[path]
                    self._manager.deregister(resource)
            for path, identity in present.items():
                if path not in self._seen:
                    answered = self._register(path)
                    if answered is not None:
                        self._seen[path] = (identity, answered)

    def _register(self, path: Path) -> str | None:
        """Registers the plugin behind a socket and tells it how that went.

        Returns:
            The resource; None if nobody answered there, which is worth another try.
        """
        self._channel = channel = grpc.insecure_channel(
            f"unix:{path}", options=[("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        )
        plugin = services.RegistrationStub(channel)  # type: ignore[no-untyped-call]
        try:
            info = plugin.GetInfo(wire.InfoRequest(), timeout=TIMEOUT, wait_for_ready=True)
            error = self._take(info, path)
            status = wire.RegistrationStatus(plugin_registered=not error, error=error)
            plugin.NotifyRegistrationStatus(status, timeout=TIMEOUT)
        except (grpc.RpcError, ValueError) as failure:
            why = describe(failure) if isinstance(failure, grpc.RpcError) else str(failure)
            self._manager.refuse(f"plugin watcher: {path}: {why}")
            return None
        finally:
            channel.close()
        return str(info.name)

    def _take(self, info: wire.PluginInfo, path: Path) -> str:
        if info.type != PLUGIN_TYPE:
            return f"no handler for plugins of type {info.type!r}"
        endpoint = Path(info.endpoint) if info.endpoint else path
        try:
            self._manager.register(info.name, endpoint, tuple(info.supported_versions), None)
        except RegistrationRefused as refusal:
            return str(refusal)
        return ""


def _sockets(folder: Path) -> list[tuple[Path, Identity]]:
    found = []
    for path in sorted(folder.rglob("*")):
        try:
            entry = path.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISSOCK(entry.st_mode) and not path.name.startswith("."):
            found.append((path, (entry.st_ino, entry.st_ctime_ns)))
    return found
