"""A thread for calls that block: one job at a time, off the event loop, and a job that hangs hangs alone."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, Protocol, TypeVar

from deviceplugin.model.errors import NvmlError
from deviceplugin.nvml.codes import Code

Answer = TypeVar("Answer")


class Watch(Protocol):
    """Whoever knows more of a job than how long it takes; called on the loop."""

    def left(self) -> float:
        """Seconds until the job is to be looked at again; zero or less: it hangs."""

    def abandoned(self, began: float) -> None:
        """The job that began then (monotonic) hangs, and its thread is left behind."""

    def returned(self) -> None:
        """The thread that was left behind came back."""


@dataclass(eq=False)
class _Job(Generic[Answer]):
    call: Callable[[], Answer]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Answer]
    deadline: float
    watch: Watch | None = None
    timer: asyncio.TimerHandle | None = None


@dataclass(eq=False)
class _Lane:
    """One thread and what it is doing."""

    queue: SimpleQueue[_Job[Any] | None] = field(default_factory=SimpleQueue)
    since: float = 0.0


class Worker:
    """Runs jobs in order on a daemon thread, for one event loop.

    A job that is not done by its deadline fails with NvmlError (TIMEOUT); its thread is abandoned, since nothing can
    end a call into a driver that hangs, and another takes over. While `spares` abandoned threads still hang no more
    are made, and jobs fail at once. A thread whose call ends after all goes away quietly.

    All methods are called on the loop; `age` and `hanging` may be read anywhere.
    """

    def __init__(self, name: str, *, deadline: float = 30.0, spares: int = 2) -> None:
        """Names the thread.

        Args:
            name: Of the thread, as metrics and `top -H` show it.
            deadline: Seconds a job may take unless told otherwise.
            spares: How many threads may hang before no more are made.
        """
        self.name = name
        self._deadline = deadline
        self._spares = spares
        self._waiting: deque[_Job[Any]] = deque()
        self._running: _Job[Any] | None = None
        self._lane: _Lane | None = None
        self._abandoned: frozenset[_Lane] = frozenset()
        self._stopped = False

    @property
    def age(self) -> float:
        """Seconds since the oldest call that has not ended began; 0 when there is none."""
        lanes = self._abandoned if self._lane is None else self._abandoned | {self._lane}
        began = [lane.since for lane in lanes if lane.since]
        return time.monotonic() - min(began) if began else 0.0

    @property
    def hanging(self) -> int:
        """Threads that were abandoned and still hang."""
        return len(self._abandoned)

    def submit(
        self, call: Callable[[], Answer], *, deadline: float | None = None, watch: Watch | None = None
    ) -> asyncio.Future[Answer]:
        """Runs `call` after the jobs before it; the future gets what it returns or raises.

        Args:
            call: Runs on the thread.
            deadline: Seconds it may take.
            watch: May find earlier that it hangs, and is told when its thread is left behind and comes back.

        Raises:
            NvmlError: (by the future) it was not done in time, or too many threads hang.
        """
        loop = asyncio.get_running_loop()
        job = _Job(call, loop, loop.create_future(), self._deadline if deadline is None else deadline, watch)
        if self._stopped:
            job.future.set_exception(_too_late(f"{self.name} was stopped"))
        elif len(self._abandoned) >= self._spares:
            job.future.set_exception(_too_late(f"{len(self._abandoned)} threads of {self.name} hang in the driver"))
        else:
            self._waiting.append(job)
            self._next()
        return job.future

    def stop(self) -> None:
        """Takes no more jobs and lets the thread end when it can; those that wait are cancelled."""
        self._stopped = True
        for job in self._waiting:
            job.future.cancel()
        self._waiting.clear()
        if self._running is None and self._lane is not None:
            self._lane.queue.put(None)

    def _next(self) -> None:
        while self._waiting and self._waiting[0].future.done():
            self._waiting.popleft()
        if self._running is not None or not self._waiting:
            return
        job = self._running = self._waiting.popleft()
        lane = self._lane = self._lane or self._start()
        lane.since = time.monotonic()
        lane.queue.put(job)
        self._look(job, lane)

    def _look(self, job: _Job[Any], lane: _Lane) -> None:
        """Now, and again when it may have become too late."""
        left = lane.since + job.deadline - time.monotonic()
        if job.watch is not None:
            left = min(left, job.watch.left())
        if left > 0:
            job.timer = job.loop.call_later(left, self._look, job, lane)
        else:
            self._overdue(job, lane)

    def _start(self) -> _Lane:
        lane = _Lane()
        Thread(target=self._work, args=(lane,), name=self.name, daemon=True).start()
        return lane

    def _work(self, lane: _Lane) -> None:
        while (job := lane.queue.get()) is not None:
            answer: Any = None
            error: BaseException | None = None
            try:
                answer = job.call()
            except Exception as caught:  # noqa: BLE001 - handed to whoever awaits it
                error = caught
            try:
                job.loop.call_soon_threadsafe(self._done, lane, job, answer, error)
            except RuntimeError:
                return  # The loop is closed: nobody waits any more.

    def _done(self, lane: _Lane, job: _Job[Any], answer: Any, error: BaseException | None) -> None:
        if not job.future.done():
            if error is None:
                job.future.set_result(answer)
            else:
                job.future.set_exception(error)
        lane.since = 0.0
        if lane in self._abandoned:
            self._abandoned -= {lane}
            lane.queue.put(None)
            if job.watch is not None:
                job.watch.returned()
            return
        self._running = None
        if job.timer is not None:
            job.timer.cancel()
        if self._stopped:
            lane.queue.put(None)
        self._next()

    def _overdue(self, job: _Job[Any], lane: _Lane) -> None:
        self._abandoned |= {lane}
        self._lane = self._running = None
        if job.watch is not None:
            job.watch.abandoned(lane.since)
        if not job.future.done():
            took = min(job.deadline, round(time.monotonic() - lane.since, 2))
            job.future.set_exception(_too_late(f"a call of {self.name} took more than {took:g} s"))
        if len(self._abandoned) < self._spares:
            self._next()
            return
        for waiting in self._waiting:
            if not waiting.future.done():
                waiting.future.set_exception(_too_late(f"{self.name} hangs in the driver"))
        self._waiting.clear()


def _too_late(what: str) -> NvmlError:
    return NvmlError(f"{what}: the driver does not answer; look for Xids in the kernel log", code=Code.TIMEOUT)
