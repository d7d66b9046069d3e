"""One life of the pretend kubelet, from its start to its end."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deviceplugin.kubelet.wire import deviceplugin_pb2_grpc, podresources_pb2_grpc
from tests.fake_kubelet.books import Books
from tests.fake_kubelet.devices import DeviceManager, Journal, Manners
from tests.fake_kubelet.model import SOCKET_NAME
from tests.fake_kubelet.pod_resources import PodResources
from tests.fake_kubelet.registration import Registrar
from tests.fake_kubelet.sockets import SocketServer, prepare_folder
from tests.fake_kubelet.watcher import PluginWatcher


@dataclass(frozen=True, slots=True)
class Places:
    """Where a kubelet works on disk; None for what it does not offer."""

    folder: Path
    pod_resources: Path | None
    plugins_registry: Path | None
    watch_period: float


class Life:
    """Servers, connections and books between a start and an end."""

    def __init__(self, places: Places, journal: Journal, manners: Manners, on_registered: Callable[[], None]) -> None:
        prepare_folder(places.folder, only_sockets=manners.behaviour.cleans_only_sockets)
        journal.narrate(f"kubelet starts in {places.folder}")
        self.books = Books(places.folder)
        self.manager = DeviceManager(journal, manners, self.books.registered)
        self._folder = places.folder
        self._servers: list[SocketServer] = []
        if not manners.faults.no_socket:
            registrar = Registrar(places.folder, self.manager, manners.faults, on_registered)
            self._servers.append(
                SocketServer(
                    places.folder / SOCKET_NAME,
                    lambda s: deviceplugin_pb2_grpc.add_RegistrationServicer_to_server(registrar, s),  # type: ignore[no-untyped-call]
                )
            )
        if places.pod_resources is not None:
            places.pod_resources.parent.mkdir(parents=True, exist_ok=True)
            lister = PodResources(self.books, self.manager, answers_get=manners.behaviour.answers_get)
            self._servers.append(
                SocketServer(
                    places.pod_resources,
                    lambda s: podresources_pb2_grpc.add_PodResourcesListerServicer_to_server(lister, s),  # type: ignore[no-untyped-call]
                )
            )
        self._watcher: PluginWatcher | None = None
        if places.plugins_registry is not None:
            places.plugins_registry.mkdir(parents=True, exist_ok=True)
            self._watcher = PluginWatcher(places.plugins_registry, self.manager, period=places.watch_period)

    def end(self, *, leave_files: bool) -> None:
        """Drops all connections and ends; the socket files stay behind if asked for."""
        for server in self._servers:
            server.close(leave_file=leave_files)
        self.manager.close()
        if self._watcher is not None:
            self._watcher.stop()
        for server in self._servers:
            server.join()

    def keep(self) -> None:
        """Leaves the books to the next life, if their folder is still there."""
        self.books.registered = self.manager.known()
        if self._folder.exists():
            self.books.save()
