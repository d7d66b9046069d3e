"""The worker: one job at a time off the loop, and a job that hangs hangs alone."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ParamSpec

import pytest

from deviceplugin.model.errors import NvmlError
from deviceplugin.model.vitals import Event
from deviceplugin.nvml.events import EventThread, EventTiming
from deviceplugin.nvml.vitals import Vitals
from deviceplugin.nvml.worker import Worker
from tests.drivers import opened

P = ParamSpec("P")


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs a test on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Gates:
    """Calls that hang until they are let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = 0

    def hang(self) -> str:
        self.entered += 1
        assert self.open.wait(30)
        return "late"


@pytest.fixture
def gates() -> Iterator[Gates]:
    gates = Gates()
    yield gates
    gates.open.set()


def threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


async def soon(predicate: Callable[[], bool], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    while not predicate():
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0.002)


@on_a_loop
async def test_jobs_run_in_order_on_one_thread_and_give_their_answers() -> None:
    worker = Worker("in-order")
    seen: list[tuple[int, str]] = []

    def job(number: int) -> int:
        seen.append((number, threading.current_thread().name))
        return number * number

    answers = await asyncio.gather(*(worker.submit(lambda n=n: job(n)) for n in range(5)))  # type: ignore[misc]
    assert answers == [0, 1, 4, 9, 16]
    assert seen == [(n, "in-order") for n in range(5)]
    assert len(threads("in-order")) == 1
    assert worker.age == 0
    worker.stop()
    await soon(lambda: not threads("in-order"), "the thread to end")


@on_a_loop
async def test_what_a_job_raises_reaches_whoever_waits() -> None:
    worker = Worker("raising")

    def fail() -> None:
        raise NvmlError("nvmlDeviceGetCount answered UNKNOWN (999)", code=999)

    with pytest.raises(NvmlError, match="UNKNOWN"):
        await worker.submit(fail)
    assert await worker.submit(lambda: "still here") == "still here"
    worker.stop()


@on_a_loop
async def test_the_loop_goes_on_while_a_job_blocks(gates: Gates) -> None:
    worker = Worker("blocking")
    future = worker.submit(gates.hang)
    await soon(lambda: gates.entered == 1, "the job to begin")
    await soon(lambda: worker.age > 0.01, "the age to grow")
    assert not future.done()
    gates.open.set()
    assert await future == "late"
    assert worker.age == 0
    worker.stop()


@on_a_loop
async def test_a_job_that_hangs_fails_at_its_deadline_and_another_thread_takes_over(gates: Gates) -> None:
    worker = Worker("hanging", deadline=0.05)
    stuck = worker.submit(gates.hang)
    queued = worker.submit(lambda: "next", deadline=30)
    with pytest.raises(NvmlError, match=r"took more than 0\.05 s.*does not answer") as caught:
        await stuck
    assert caught.value.code == 10
    assert await queued == "next"
    assert worker.hanging == 1
    await soon(lambda: worker.age > 0.1, "the age of the hanging call to grow on")
    gates.open.set()
    await soon(lambda: worker.hanging == 0, "the abandoned thread to come back")
    await soon(lambda: len(threads("hanging")) == 1, "it to go away")
    assert worker.age == 0
    worker.stop()


@on_a_loop
async def test_threads_that_hang_are_limited(gates: Gates) -> None:
    worker = Worker("limited", deadline=0.05, spares=2)
    first, second = worker.submit(gates.hang), worker.submit(gates.hang)
    third = worker.submit(gates.hang)
    for future in (first, second, third):
        with pytest.raises(NvmlError):
            await future
    assert gates.entered == 2
    assert worker.hanging == 2
    with pytest.raises(NvmlError, match="2 threads of limited hang in the driver"):
        await worker.submit(lambda: "no")
    assert len(threads("limited")) == 2
    gates.open.set()
    await soon(lambda: worker.hanging == 0, "the threads to come back")
    assert await worker.submit(lambda: "yes") == "yes"
    worker.stop()
    await soon(lambda: not threads("limited"), "all threads to end")


@on_a_loop
async def test_a_job_nobody_waits_for_any_more_is_not_begun(gates: Gates) -> None:
    worker = Worker("cancelled")
    running = worker.submit(gates.hang)
    began = []
    waiting = worker.submit(lambda: began.append(1))
    waiting.cancel()
    gates.open.set()
    await running
    assert await worker.submit(lambda: "after") == "after"
    assert began == []
    worker.stop()


@on_a_loop
async def test_an_answer_for_a_cancelled_job_is_dropped(gates: Gates) -> None:
    worker = Worker("dropped")
    running = worker.submit(gates.hang)
    await soon(lambda: gates.entered == 1, "the job to begin")
    running.cancel()
    gates.open.set()
    assert await worker.submit(lambda: "after") == "after"
    worker.stop()


@on_a_loop
async def test_stopping_cancels_what_waits_and_takes_no_more(gates: Gates) -> None:
    worker = Worker("stopped")
    running = worker.submit(gates.hang)
    waiting = worker.submit(lambda: "never")
    worker.stop()
    assert waiting.cancelled()
    with pytest.raises(NvmlError, match="was stopped"):
        await worker.submit(lambda: "never")
    gates.open.set()
    assert await running == "late"
    await soon(lambda: not threads("stopped"), "the thread to end")


@on_a_loop
async def test_a_worker_that_never_ran_can_be_stopped() -> None:
    Worker("unused").stop()
    assert not threads("unused")


def test_a_loop_that_closed_meanwhile_ends_the_thread(gates: Gates) -> None:
    async def begin() -> None:
        worker = Worker("orphan")
        future = worker.submit(gates.hang)
        await soon(lambda: gates.entered == 1, "the job to begin")
        future.cancel()

    asyncio.run(begin())
    (thread,) = threads("orphan")
    gates.open.set()
    thread.join(10)
    assert not thread.is_alive()


@on_a_loop
async def test_a_scan_that_hangs_holds_up_no_event_and_no_other_job() -> None:
    with opened("hgx-h100-8") as machine:
        node = machine.scan()
        heard: list[Event] = []
        events = EventThread(machine.driver, heard.append, timing=EventTiming(wait=0.02))
        events.start()
        events.watch(node.gpus)
        worker, vitals = Worker("scanning", deadline=0.1), Vitals(machine.driver)
        machine.fake.hang("nvmlDeviceGetMemoryInfo", gpu=3)
        with pytest.raises(NvmlError, match="does not answer"):
            await worker.submit(lambda: machine.scan(node))
        readings = await worker.submit(lambda: vitals.read_states(node), deadline=10)
        assert {reading.alive for reading in readings} == {True}
        machine.fake.xid(5, 48)
        await soon(lambda: bool(heard), "the event")
        assert worker.hanging == 1
        machine.fake.release()
        await soon(lambda: worker.hanging == 0, "the scan to come back")
        assert (await worker.submit(lambda: machine.scan(node), deadline=10)).gpus == node.gpus
        worker.stop()
        assert events.stop(5)
