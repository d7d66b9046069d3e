"""The thread that waits for the driver's events, and keeps waiting whatever the driver does.

A wait that fails is answered by a new event set at once, then with a growing delay; after some failures NVML is taken
up anew; only after some more is it called a failure, with what is needed to tell sick hardware from a plugin that has
lost its own access. State changes are told once each, not once per attempt.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event as Flag
from threading import Lock, Thread
from types import MappingProxyType

from deviceplugin.model.errors import NvmlError
from deviceplugin.model.node import Gpu
from deviceplugin.model.vitals import Event
from deviceplugin.nvml import host
from deviceplugin.nvml.api import NvmlApi
from deviceplugin.nvml.codes import Code
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.eventset import EventSet
from deviceplugin.nvml.eventstatus import EventStatus, EventTiming, WatchState

__all__ = ["Event", "EventStatus", "EventThread", "EventTiming", "WatchState", "openable"]

log = logging.getLogger(__name__)

_MOST_DOUBLINGS = 20


class EventThread:
    """Waits for events of the cards it was told to watch, on a daemon thread."""

    def __init__(
        self,
        driver: Driver,
        deliver: Callable[[Event], None],
        changed: Callable[[EventStatus], None] = lambda _status: None,
        timing: EventTiming | None = None,
    ) -> None:
        """Both callables are called on the thread; RuntimeError from them (a closed loop) ends it."""
        self._driver = driver
        self._deliver = deliver
        self._changed = changed
        self._timing = timing or EventTiming()
        self._wanted: tuple[Gpu, ...] = ()
        self._stopping = False
        self._wake = Flag()
        self._since = 0.0
        self._failures = 0
        self._status = EventStatus()
        self._telling = Lock()
        self._set: EventSet | None = None
        self._generation = 0
        self._suspect = False
        self._thread = Thread(target=self._run, name="nvml-events", daemon=True)

    @property
    def status(self) -> EventStatus:
        """What the thread last said of itself."""
        return self._status

    @property
    def age(self) -> float:
        """Seconds in the present call of the driver, 0 outside: more than a few mean that it hangs."""
        since = self._since
        return time.monotonic() - since if since else 0.0

    def check(self) -> None:
        """Tells that the thread hangs in the driver, if it does; for another thread to call from time to time.

        That it is over the thread tells itself, by whatever it does next.
        """
        with self._telling:
            age, before = self.age, self._status
            if age < self._timing.hung_after or before.state in {WatchState.HANGING, WatchState.FAILED}:
                return
            detail = f"the present call of this thread has lasted for {age:.0f} s"
            failures = max(before.failures, self._timing.decide_after)
            self._say(EventStatus(WatchState.HANGING, detail, failures, refused=before.refused))

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def watch(self, gpus: Sequence[Gpu]) -> None:
        """Watches these cards from now on; also to be called when a released driver was taken up again."""
        if _faces(gpus) != _faces(self._wanted):
            self._wanted = tuple(gpus)
        self._wake.set()

    def stop(self, timeout: float = 0) -> bool:
        """Ends the thread after its present wait; whether it had ended in time. One that hangs is left behind."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping:
                wanted = self._wanted
                if not wanted or self._driver.released:
                    self._set = None
                    self._tell(EventStatus())
                    self._rest(None)
                    continue
                try:
                    self._watch(wanted)
                except NvmlError as error:
                    self._since = 0.0
                    if not self._driver.released:
                        self._failed(error, wanted)
                except RuntimeError:
                    raise
                except Exception as bug:
                    self._since = 0.0
                    if not self._failures:
                        log.exception("waiting for Xid events met a bug and begins again; please report it")
                    self._failed(NvmlError(f"a bug of the plugin: {bug!r}"), wanted)
            self._tell(EventStatus(WatchState.STOPPED))
        except RuntimeError:
            return

    def _watch(self, wanted: tuple[Gpu, ...]) -> None:
        """Delivers events until something else is wanted, or the driver was taken up anew."""
        events = self._open(wanted)
        if not events.registered:
            self._tell(EventStatus(WatchState.UNSUPPORTED, refused=MappingProxyType(dict(events.refused))))
            self._rest(self._timing.retry_refused)
            return
        if not self._failures:
            self._watching(events)
        retry = time.monotonic() + self._timing.retry_refused
        while not self._stopping and self._wanted is wanted and not self._driver.released:
            with self._call():
                if self._driver.generation != self._generation:
                    return
                event = events.wait(round(self._timing.wait * 1000))
                if time.monotonic() >= retry:
                    retry += self._timing.retry_refused
                    events.retry()
            self._failures, self._suspect = 0, False
            self._watching(events)
            if event is not None:
                self._deliver(event)

    def _open(self, wanted: tuple[Gpu, ...]) -> EventSet:
        """A new set, made before the old one is closed so that no event falls between them."""
        with self._call() as api:
            old = self._set if self._generation == self._driver.generation else None
            self._generation = self._driver.generation
            events = self._set = EventSet.create(api)
            for gpu in wanted:
                events.register(gpu.uuid, check=self._suspect)
            left = [] if old is None else old.close()
        for event in left:
            self._deliver(event)
        if not events.registered and not all(refusal.lasting for refusal in events.refused.values()):
            raise events.first_refusal()
        return events

    def _failed(self, error: NvmlError, wanted: tuple[Gpu, ...]) -> None:
        self._failures += 1
        self._suspect = error.code == Code.GPU_IS_LOST
        decided = self._failures >= self._timing.decide_after
        self._tell(
            EventStatus(
                WatchState.FAILED if decided else WatchState.RETRYING,
                detail=f"{error}, {self._failures} times in a row" if self._failures > 1 else str(error),
                failures=self._failures,
                refused=MappingProxyType(dict(self._set.refused) if self._set else {}),
                openable=openable(self._driver.host_root, wanted),
            )
        )
        if self._failures == self._timing.renew_after:
            self._renew()
        doublings = min(self._failures - 2, _MOST_DOUBLINGS)
        longest = self._timing.longest_delay
        self._rest(0 if doublings < 0 else min(self._timing.first_delay * 2**doublings, longest))

    def _renew(self) -> None:
        self._since = time.monotonic()
        try:
            self._driver.renew()
        except NvmlError:
            pass  # The next attempt meets the same error, and tells it.
        finally:
            self._since = 0.0

    @contextmanager
    def _call(self) -> Iterator[NvmlApi]:
        self._since = time.monotonic()
        with self._driver.session() as api:
            yield api
        self._since = 0.0

    def _rest(self, seconds: float | None) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _watching(self, events: EventSet) -> None:
        if self._status.state is not WatchState.WATCHING or self._status.registered != events.registered:
            heard, refused = MappingProxyType(dict(events.registered)), MappingProxyType(dict(events.refused))
            self._tell(EventStatus(WatchState.WATCHING, registered=heard, refused=refused))

    def _tell(self, status: EventStatus) -> None:
        with self._telling:
            self._say(status)

    def _say(self, status: EventStatus) -> None:
        before, self._status = self._status, status
        if (before.state, before.registered, before.refused) != (status.state, status.registered, status.refused):
            self._changed(status)


def _faces(gpus: Sequence[Gpu]) -> set[tuple[str, int | None, bool]]:
    return {(gpu.uuid, gpu.minor, gpu.lost) for gpu in gpus}


def openable(host_root: str, gpus: Sequence[Gpu]) -> bool:
    """Whether this process can open the control node and the nodes of these cards."""
    nodes = ["/dev/nvidiactl", *(f"/dev/nvidia{gpu.minor}" for gpu in gpus if gpu.minor is not None)]
    return all(host.openable(host_root, node) for node in nodes)
