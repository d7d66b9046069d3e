"""The pretend kubelet: everything a plugin can see of the real one, driven from a test's own thread."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from tests.fake_kubelet.admission import Admission
from tests.fake_kubelet.books import Books
from tests.fake_kubelet.devices import Journal, Manners
from tests.fake_kubelet.life import Life, Places
from tests.fake_kubelet.model import (
    SOCKET_NAME,
    VERSIONS,
    Admitted,
    Faults,
    Frame,
    Grant,
    Pod,
    Registration,
    ResourceView,
    Stream,
)
from tests.fake_kubelet.sockets import replace_folder
from tests.fake_kubelet.topology import Policy
from tests.waiting import NotYet, wait_until


class FakeKubelet:
    """A kubelet on real sockets.

    Args:
        folder: The device plugin folder, of the socket and the checkpoint.
        version: Whose manners to show, a key of `VERSIONS`.
        numa_policy: The topology manager's policy; None is no topology manager.
        seed: Of all that is random: order of ids, fill-ups, which of two answers wins.
        pod_resources: Socket of the pod resources API; None for none.
        plugins_registry: Folder of the plugin watcher; None for none.
        dial_timeout: Seconds that a plugin has to answer while it registers.
        drop_after: Seconds after which a resource without connection is dropped.
        watch_period: Seconds between two looks at the plugins registry.
        narrate: Called with one line for everything that happens, from several threads.
        on_list: Called with resource and frame for every list that comes, from several threads.
    """

    def __init__(
        self,
        folder: Path,
        *,
        version: str = "1.32",
        numa_policy: Policy | None = None,
        seed: int = 0,
        pod_resources: Path | None = None,
        plugins_registry: Path | None = None,
        dial_timeout: float = 10.0,
        drop_after: float = 300.0,
        watch_period: float = 0.05,
        narrate: Callable[[str], None] = lambda _line: None,
        on_list: Callable[[str, Frame], None] = lambda _resource, _frame: None,
    ) -> None:
        self.folder = folder
        self.socket = folder / SOCKET_NAME
        self.faults = Faults()
        self._places = Places(folder, pod_resources, plugins_registry, watch_period)
        self._policy = numa_policy
        self._random = random.Random(seed)
        self._journal = Journal(narrate=narrate, listed=on_list)
        self._manners = Manners(VERSIONS[version], self.faults, dial_timeout, drop_after)
        self._lifecycle = threading.RLock()
        self._admission = threading.Lock()
        self._restarters: list[threading.Thread] = []
        self._leaving = threading.Event()
        self._life: Life | None = None
        self.lives = 0

    def start(self) -> Self:
        """Cleans the folder and listens, knowing what the checkpoint says."""
        with self._lifecycle:
            if self._life is not None:
                raise RuntimeError(f"the kubelet at {self.folder} runs already")
            self._leaving.clear()
            self._begin()
        return self

    def _begin(self) -> None:
        self._life = Life(self._places, self._journal, self._manners, self._registered)
        self.lives += 1

    def stop(self) -> None:
        """Ends in order: sockets gone, connections closed. Does nothing if it does not run."""
        self._leave(leave_files=False)

    def kill(self) -> None:
        """Ends as by kill -9: connections drop, the socket files stay and nobody listens behind them."""
        self._leave(leave_files=True)

    def restart(self) -> None:
        """Stops and starts; plugins' sockets vanish, pods stay."""
        with self._lifecycle:
            self._end(leave_files=False)
            self._begin()

    def replace_folder(self) -> None:
        """Ends, puts a new folder in the old one's place, and starts there; pods stay."""
        with self._lifecycle:
            self._end(leave_files=True)
            books = Books(self.folder)
            replace_folder(self.folder)
            books.save()
            self._begin()

    def _leave(self, *, leave_files: bool) -> None:
        self._leaving.set()
        while self._restarters:
            self._restarters.pop().join()
        with self._lifecycle:
            self._end(leave_files=leave_files)

    def _end(self, *, leave_files: bool) -> None:
        if self._life is None:
            return
        life, self._life = self._life, None
        life.end(leave_files=leave_files)
        with self._admission:  # one that was cut short still writes its books
            life.keep()
        self._journal.narrate("kubelet ended")

    def _registered(self) -> None:
        pauses, self.faults.restarts_after_register = self.faults.restarts_after_register, ()
        if pauses:
            name = "fake-kubelet-restarter"
            row = threading.Thread(target=self._restart_in_a_row, args=(pauses,), name=name)
            row.start()
            self._restarters.append(row)

    def _restart_in_a_row(self, pauses: tuple[float, ...]) -> None:
        for pause in pauses:
            if self._leaving.wait(pause):
                return
            self.restart()

    def __enter__(self) -> Self:
        return self if self._life else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether it has been started and not ended."""
        return self._life is not None

    @property
    def registrations(self) -> list[Registration]:
        """All successful registrations, over all restarts."""
        return list(self._journal.registrations)

    @property
    def refusals(self) -> list[str]:
        """Why registrations were refused, over all restarts."""
        return list(self._journal.refusals)

    @property
    def violations(self) -> list[str]:
        """What plugins did that the API forbids, over all restarts."""
        return list(self._journal.violations)

    @property
    def resources(self) -> dict[str, ResourceView]:
        """What is believed of each resource now; frames are those since the last start."""
        return life.manager.views() if (life := self._life) else {}

    @property
    def streams(self) -> dict[str, list[Stream]]:
        """Open ListAndWatch streams by resource, those of replaced registrations too, oldest first."""
        return life.manager.streams() if (life := self._life) else {}

    @property
    def pods(self) -> dict[str, Admitted]:
        """Admitted pods by name (by namespace/name outside `default`)."""
        books = self._present().books
        return {
            pod.name if pod.namespace == "default" else f"{pod.namespace}/{pod.name}": books.admitted(pod)
            for pod in list(books.pods.values())
        }

    def cut_stream(self, resource: str) -> None:
        """Ends the resource's newest ListAndWatch from the kubelet's side, which keeps its socket."""
        self._present().manager.cut(resource)

    def admit(self, pod: Pod) -> Admitted:
        """Admits a pod; raises `AdmissionFailed` if it does not get all it wants."""
        with self._admission:
            return self._admissions().admit(pod)

    def restart_container(self, pod: str, container: str, *, namespace: str = "default") -> Grant:
        """What a container gets when it starts again: the stored answer."""
        with self._admission:
            known = self._known(namespace, pod)
            return self._admissions().start_container(known, container)

    def delete(self, pod: str, *, namespace: str = "default") -> None:
        """The pod is gone and its devices are free."""
        with self._admission:
            books = self._present().books
            books.drop(self._known(namespace, pod).key)
            books.save()

    def health_of(self, pod: str, *, namespace: str = "default") -> dict[str, str]:
        """Health of the devices that a pod holds by id, as its status shows it: "Unknown" if not listed."""
        return self._present().books.health(self._known(namespace, pod).key, self.resources)

    def _known(self, namespace: str, pod: str) -> Pod:
        found = self._present().books.pods.get((namespace, pod))
        if found is None:
            raise LookupError(f"no pod {pod} in {namespace}")
        return found

    def _present(self) -> Life:
        if self._life is None:
            raise RuntimeError(f"the kubelet at {self.folder} does not run")
        return self._life

    def _admissions(self) -> Admission:
        life = self._present()
        return Admission(life.manager, life.books, self._journal, policy=self._policy, randomness=self._random)

    def wait_for(
        self,
        resource: str,
        *,
        healthy: int | None = None,
        unhealthy: int | None = None,
        streams: int | None = None,
        timeout: float = 10.0,
    ) -> ResourceView:
        """Waits until the newest stream of a resource has sent a list and the counts are as named.

        With `healthy=0` or `streams=0` no stream need be open.
        """

        def look() -> ResourceView | NotYet:
            open_now = self.streams.get(resource, [])
            view = self.resources.get(resource)
            if view is None:
                return NotYet(f"no {resource} among {sorted(self.resources)}")
            counts = (len(view.healthy), len(view.unhealthy), len(open_now))
            wanted = (healthy, unhealthy, streams)
            fits = all(want in {None, have} for want, have in zip(wanted, counts, strict=True))
            listed = view.stream_open and open_now and open_now[-1].frames
            if fits and (listed or 0 in {healthy, streams}):
                return view
            return NotYet("{} healthy, {} unhealthy, {} streams".format(*counts))

        what = f"{resource} with healthy={healthy} unhealthy={unhealthy} streams={streams}"
        return cast("ResourceView", wait_until(look, timeout=timeout, what=what))
