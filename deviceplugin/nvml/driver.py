"""The driver of this node: initialised when needed, taken up anew when its picture is stale, let go on request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

import pynvml
from msgspec.structs import replace

from deviceplugin.model.errors import NvmlError
from deviceplugin.model.node import DriverState, Node, Problem
from deviceplugin.nvml import host
from deviceplugin.nvml.api import NvmlApi
from deviceplugin.nvml.codes import DOWN, Code, failure
from deviceplugin.nvml.failure import without_driver
from deviceplugin.nvml.probe import probe
from deviceplugin.nvml.tour import Tour

_PATIENCE = 3.0
_COUNT = "nvmlDeviceGetCount"
_NOT_SHOWN = "sysfs shows this card and the driver does not: look for its PCI id in the kernel log"
_RELEASED = "the driver was let go on request; answers go on from memory until it is taken up again"


class Driver:
    """NVML as several threads use it.

    Calls are made within a `session`. Shutting down or taking up anew waits until no session is open, so that no
    handle or event set is pulled from under a call; a session that hangs makes it give up, not hang too.

    NVML finds cards when it is initialised, and never after: one that was plugged in, reset, or came back needs
    another initialisation, which ends every handle and event set. `generation` tells users to get new ones.

    Attributes:
        host_root: Where /sys, /proc and /dev of the host are seen.
        generation: Grows with each initialisation.
        released: NVML was let go on request.
    """

    def __init__(self, source: NvmlApi | Callable[[], NvmlApi], host_root: str = "/") -> None:
        """Takes the driver's functions, or a function that finds them (NvmlError until it does)."""
        self.host_root = host_root
        self.generation = 0
        self.released = False
        self.renew_interval = 60.0
        """Seconds between two attempts to find cards that are lost or not shown."""
        self._source = source
        self._api: NvmlApi | None = None
        self._initialised = False
        self._changing = False
        self._users = 0
        self._turn = Condition()
        self._renewed = time.monotonic()
        self._looked = 0
        self._missed: frozenset[str] = frozenset()

    @property
    def api(self) -> NvmlApi:
        """The driver's functions.

        Raises:
            NvmlError: The library cannot be found.
        """
        if self._api is None:
            source = self._source
            self._api = source() if callable(source) else source
        return self._api

    def initialise(self) -> None:
        """Loads and initialises NVML, if that is not done yet.

        Raises:
            NvmlError: The library is missing, or initialisation failed.
        """
        with self._alone():
            self._begin()

    def shutdown(self) -> None:
        """Shuts NVML down; what hangs or fails then is left behind.

        Raises:
            NvmlError: A call that is under way does not end.
        """
        with self._alone():
            self._end()

    def release(self) -> None:
        """Lets go of the driver until `take`, so that a card can be reset or its MIG mode changed.

        Raises:
            NvmlError: A call that is under way does not end.
        """
        with self._alone():
            self.released = True
            self._end()

    def take(self) -> None:
        """Takes the driver up again after `release`.

        Raises:
            NvmlError: Initialisation failed; the next scan tries again.
        """
        with self._alone():
            self.released = False
            self._begin()

    def renew(self) -> None:
        """Shuts down and initialises again, so that NVML looks for cards anew.

        Raises:
            NvmlError: A call that is under way does not end, or initialisation failed.
        """
        with self._alone():
            self._renewed = time.monotonic()
            self._end()
            self._begin()

    @contextmanager
    def session(self) -> Iterator[NvmlApi]:
        """The driver's functions, initialised, and staying so until the session is closed.

        Raises:
            NvmlError: The driver is released, or cannot be initialised.
        """
        if not self._initialised:
            self.initialise()
        with self._turn:
            if not self._turn.wait_for(lambda: not self._changing, _PATIENCE):
                raise failure("nvmlInit", Code.TIMEOUT)
            if not self._initialised:
                raise failure("nvmlInit", Code.UNINITIALIZED)
            self._users += 1
        try:
            yield self.api
        finally:
            with self._turn:
                self._users -= 1
                self._turn.notify_all()

    def scan(
        self,
        previous: Node | None = None,
        *,
        dev_root: str | None = None,
        machine_type_file: str = host.MACHINE_TYPE,
        tour: Tour | None = None,
    ) -> Node:
        """A scan of the node, whatever state the driver is in; never raises for the driver's doing.

        A card that is lost, or that sysfs shows and the driver does not, makes NVML look again: at once when the
        set of such cards has changed, then every `renew_interval` while there are any.

        Args:
            previous: The last scan, if there was one.
            dev_root: Where /dev of the host is seen; the host root if not given.
            machine_type_file: File with the machine's product name.
            tour: Which cards to leave out. While there are any, NVML is not made to look again: it cannot be shut
                down under a call that hangs.
        """
        tour = tour or Tour()
        if self.released:
            return replace(previous or Node(), state=DriverState.RELEASED, detail=_RELEASED)
        try:
            if previous is not None and not tour.skipped and self._stale(previous):
                self.renew()
            with self.session() as api:
                node = probe(
                    api, self.host_root, previous, dev_root=dev_root, machine_type_file=machine_type_file, tour=tour
                )
        except NvmlError as error:
            return without_driver(error, self.host_root, previous)
        if node.state not in {DriverState.READY, DriverState.MISMATCH}:
            self._give_up()
            return node
        if tour.skipped:
            return node
        unseen = self._not_shown(node)
        if self._looked != self.generation:
            self._looked, self._missed = self.generation, unseen | _lost(node)
        return replace(node, problems=node.problems + tuple(Problem(n, _COUNT, 0, _NOT_SHOWN) for n in sorted(unseen)))

    def _stale(self, previous: Node) -> bool:
        if not self._initialised or previous.state is not DriverState.READY:
            return False
        lost = _lost(previous)
        missed = self._not_shown(previous) | lost
        new = missed - self._missed
        self._missed = missed
        due = time.monotonic() - self._renewed >= self.renew_interval
        return bool(new) or (due and bool(missed))

    def _not_shown(self, node: Node) -> frozenset[str]:
        shown = {host.sysfs_name(gpu.pci) for gpu in node.gpus}
        names = frozenset(host.cards(self.host_root)) - shown
        return frozenset(name for name in names if not host.bound_elsewhere(self.host_root, name))

    def _give_up(self) -> None:
        """After a failed scan the next one initialises anew."""
        try:
            self.shutdown()
        except NvmlError:
            return

    def _begin(self) -> None:
        if self._initialised:
            return
        if self.released:
            raise NvmlError(_RELEASED, code=Code.UNINITIALIZED)
        api = self.api
        try:
            _initialise(api)
        except pynvml.NVMLError as error:
            raise failure("nvmlInit", int(error.value)) from error
        self._initialised = True
        self.generation += 1

    def _end(self) -> None:
        if not self._initialised:
            return
        self._initialised = False
        try:
            self.api.nvmlShutdown()
        except pynvml.NVMLError as error:
            if error.value not in DOWN:
                raise failure("nvmlShutdown", int(error.value)) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._turn:
            if not self._turn.wait_for(lambda: not self._changing, _PATIENCE):
                raise failure("nvmlInit", Code.TIMEOUT)
            self._changing = True
        try:
            with self._turn:
                if not self._turn.wait_for(lambda: not self._users, _PATIENCE):
                    raise NvmlError("a call of the driver hangs: it cannot be shut down", code=Code.TIMEOUT)
            yield
        finally:
            with self._turn:
                self._changing = False
                self._turn.notify_all()


def _lost(node: Node) -> frozenset[str]:
    """Cards that a scan shows as lost, and handles that answered so without saying whose they are."""
    cards = (host.sysfs_name(gpu.pci) or gpu.uuid for gpu in node.gpus if gpu.lost)
    named = {gpu.uuid for gpu in node.gpus}
    return frozenset(cards) | {
        p.subject for p in node.problems if p.code == Code.GPU_IS_LOST and p.subject not in named
    }


def _initialise(api: NvmlApi) -> None:
    try:
        api.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)
    except pynvml.NVMLError as error:
        if error.value != Code.FUNCTION_NOT_FOUND:
            raise
        api.nvmlInit()
