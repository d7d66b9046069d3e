"""The driver's side of the daemon: scans, health states and events, each off the loop, each taken into the world."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from os.path import exists
from typing import TypeVar

from deviceplugin.daemon import telling
from deviceplugin.daemon.checking import READ_DEADLINE, SOURCE, Checking
from deviceplugin.daemon.provisions import Provisions
from deviceplugin.daemon.world import News, World
from deviceplugin.files.sickness import boot_identity
from deviceplugin.ledger import Ledger
from deviceplugin.model.errors import NvmlError
from deviceplugin.model.evidence import DriverReloaded, Evidence, TakenUp, Tick, Unanswered
from deviceplugin.model.node import DriverState, Node, Problem
from deviceplugin.model.vitals import Event, Load
from deviceplugin.nvml.codes import DOWN
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.events import EventStatus, EventThread
from deviceplugin.nvml.failure import without_driver
from deviceplugin.nvml.tour import Tour
from deviceplugin.nvml.tours import SPARES, Tours
from deviceplugin.nvml.vitals import Vitals
from deviceplugin.nvml.worker import Worker
from deviceplugin.rules.allocate.nodes import dev_root_here

log = logging.getLogger(__name__)

Value = TypeVar("Value")

FIRST_PAUSE = 0.5
"""Between the first attempts to reach a driver that is not there yet; doubled up to the rescan interval."""
RENEWALS = 2.0
"""Rescan intervals between two attempts to find a card that stays lost."""
SCAN_DEADLINE = 60.0
SCANS_TO_RENEWAL = 2
"""Of cards that are lost or not shown: NVML finds cards when it is initialised, and never after."""
AWAY = frozenset({DriverState.NO_DRIVER, DriverState.NO_HARDWARE, DriverState.FAILING, DriverState.RELEASED})
"""States in which the driver may have been loaded anew unseen."""
STEADY = frozenset({DriverState.READY, DriverState.RELEASED})


class Hardware:
    """Asks the driver for everything the world should know. All methods run on the loop; `changed` is told the news."""

    def __init__(self, driver: Driver, world: World, ledger: Ledger, changed: Callable[[News], None]) -> None:
        self.load = Load()
        """The last sample for the metrics."""
        self.sampled: Callable[[], None] = lambda: None
        """Called after each pass, also one that failed."""
        self.provisions = Provisions(driver.host_root)
        self._driver = driver
        self._world = world
        self._ledger = ledger
        self._changed = changed
        self._vitals = Vitals(driver)
        self._worker = Worker("nvml-probe", deadline=SCAN_DEADLINE, spares=SPARES)
        self._tours = Tours(self._worker, self._found_hanging, self._came_back)
        self._checking = Checking(driver, self._vitals, self._worker, self._tours)
        self._loop = asyncio.get_running_loop()
        self._heard_before = EventStatus()
        self._events = EventThread(driver, self._from_thread(self._heard), self._from_thread(self._status))
        self._scan_now, self._read_now = asyncio.Event(), asyncio.Event()
        self._released_until = 0.0
        self._failed_scans = 0
        self._told: dict[str, str] = {}

    @property
    def ages(self) -> dict[str, float]:
        """By thread: seconds in its present call of the driver."""
        return {"nvml-probe": self._worker.age, "nvml-events": self._events.age}

    @property
    def events(self) -> EventStatus:
        """What the event thread says of itself."""
        return self._events.status

    @property
    def failing(self) -> list[str]:
        """What could not be asked of the driver the last time, one sentence each."""
        return list(self._told.values())

    async def first(self) -> Node:
        """The first scan and the first health states, so that the first list is right already."""
        try:
            node = await self._ask_scan()
        except NvmlError as error:
            node = without_driver(error, self._driver.host_root)
        await self._take(node)
        await self.read()
        self._events.start()
        return node

    async def scan(self) -> None:
        """One scan, taken into the world; a scan that fails or hangs changes nothing but is told."""
        try:
            node = await self._ask_scan()
        except NvmlError as error:
            self._failed_scans += 1
            self._told_failure("scan", error)
            return
        self._told.pop("scan", None)
        await self._take(node)

    async def read(self) -> None:
        """Reads the health states of all cards, and lets time pass for the judge."""
        self._events.check()
        self._tours.suit(self._world.loaded.config.health.interval)
        seen = await self._checking.read(self._world.node)
        if seen.error is not None:
            self._told_failure(SOURCE, seen.error)
        else:
            self._told.pop(SOURCE, None)
            self._count_problems(seen.problems)
        self._witness(*seen.evidence, Tick())

    async def sample(self, *, per_link: bool) -> None:
        """One pass over the load of all cards."""
        node = self._world.node
        if node.state is not DriverState.READY:
            return
        try:
            read = partial(self._vitals.read_load, node, per_link=per_link)
            self.load = await self._tours.make("load", read, deadline=READ_DEADLINE)
        except NvmlError as error:
            if not self._driver.released:
                self._count(error)
        else:
            self._count_problems(self.load.problems)
        # Counters have gone on, also while the driver does not answer.
        self.sampled()

    def rescan(self) -> None:
        """Asks for a scan as soon as possible; several requests become one scan."""
        self._scan_now.set()

    async def run_scans(self) -> None:
        """Scans for ever: every rescan interval, on request, and more often while the driver is not there."""
        while True:
            await _either(self._scan_now, self._pause())
            self._scan_now.clear()
            if self._released_until and time.monotonic() >= self._released_until:
                log.info("the time of the release is over")
                await self.take_up()
            await self.scan()

    async def run_reads(self) -> None:
        """Reads health states for ever: every health interval, and at once when an event hints at a change."""
        while True:
            await _either(self._read_now, self._world.loaded.config.health.interval)
            self._read_now.clear()
            await self.read()

    async def release(self, seconds: float) -> str:
        """Lets go of the driver for at most so many seconds; a sentence says what was done."""
        await self._worker.submit(self._driver.release)
        self._released_until = time.monotonic() + seconds
        await self.scan()
        return (
            f"the driver is released for at most {seconds:g} s: reset the GPU or change its MIG mode now, "
            "then take it up again with `release --end` (`--reset GPU` if you reset one); "
            "health is not watched meanwhile"
        )

    async def take_up(self, reset: frozenset[str] = frozenset()) -> str:
        """Takes the driver up again after `release`; a sentence says what was done.

        Args:
            reset: UUIDs of cards that were reset meanwhile, by the word of whoever did it.
        """
        if not self._driver.released:
            return "the driver was not released"
        self._released_until = 0.0
        cordoned = frozenset(gpu.uuid for gpu in self._world.node.gpus)
        try:
            await self._worker.submit(self._driver.take)
        except NvmlError as error:
            log.warning("the driver cannot be taken up yet, looking again: %s", error)
        await self.scan()
        self._witness(TakenUp((cordoned & self._world.released_for) | reset))
        await self.read()
        return "the driver is in use again"

    @property
    def released(self) -> bool:
        """Whether the driver is let go on request."""
        return self._driver.released

    def stop(self) -> None:
        """Ends both threads; one that hangs in the driver is left behind."""
        self._worker.stop()
        self._events.stop()

    async def _ask_scan(self) -> Node:
        node = self._world.node
        previous = None if node.state is DriverState.STARTING else node
        config = self._world.loaded.config
        handover, gfd = self._world.handover, config.flags.gfd
        self._driver.renew_interval = SCANS_TO_RENEWAL * config.daemon.rescan_interval

        self._tours.suit(config.health.interval)

        def scan(tour: Tour) -> Node:
            dev_root = dev_root_here(handover, exists)
            return self._driver.scan(previous, dev_root=dev_root, machine_type_file=gfd.machine_type_file, tour=tour)

        return await self._tours.make("scan", scan, deadline=SCAN_DEADLINE)

    async def _take(self, node: Node) -> None:
        self._failed_scans = 0 if node.state in STEADY and node.gpus else self._failed_scans + 1
        self._ledger.stamp("scan")
        self._count_problems(node.problems)
        before = self._world.node.state
        flaws = await self.provisions.provide(node, lambda: self._world.loaded.config)
        news = self._world.scanned(node, time.time(), flaws)
        self._changed(news)
        self._hint(news)
        if node.state is not DriverState.READY:
            return
        if before in AWAY:
            self._witness(DriverReloaded(boot_id=boot_identity(self._driver.host_root)))
        self._watch()

    def _watch(self) -> None:
        """Has events heard of all cards but those on which calls hang: registering one would hang as well."""
        self._events.watch([gpu for gpu in self._world.node.gpus if gpu.uuid not in self._tours.left_out])

    def _found_hanging(self, card: str, query: str) -> None:
        """One that has not said who it is is not offered, and the scan tells of it."""
        if any(gpu.uuid == card for gpu in self._world.node.gpus):
            self._witness(Unanswered(card, query))
            self._watch()

    def _came_back(self) -> None:
        self._scan_now.set()
        self._read_now.set()

    def _pause(self) -> float:
        interval = self._world.loaded.config.daemon.rescan_interval
        if self._released_until:
            return max(0.0, min(interval, self._released_until - time.monotonic()))
        if not self._failed_scans:
            return interval
        return float(min(interval, FIRST_PAUSE * 2 ** min(self._failed_scans - 1, 10)))

    def _heard(self, event: Event) -> None:
        if event.xid is not None:
            self._ledger.count("xid", event.uuid or "", str(event.xid))
            self._ledger.stamp(f"xid {event.uuid or ''} {event.xid}")
        self._witness(event)

    def _status(self, status: EventStatus) -> None:
        telling.events(self._heard_before, status)
        self._heard_before = status
        evidence = status.evidence()
        if evidence is not None:
            self._witness(evidence)
        if status.failures:
            self._scan_now.set()

    def _told_failure(self, source: str, error: NvmlError) -> None:
        """Counts each failure; the log has the first of a row, and a driver that is gone is looked at now."""
        self._count(error)
        if source not in self._told:
            log.warning("%s failed, trying again: %s", _DOING[source], error)
            if error.code in DOWN:
                self._scan_now.set()
        self._told[source] = f"{_DOING[source]} fails: {error}"

    def _count(self, error: NvmlError) -> None:
        self._ledger.count("nvml_errors", error.call or "call", str(error.code))

    def _count_problems(self, problems: Sequence[Problem]) -> None:
        for problem in problems:
            self._ledger.count("nvml_errors", problem.query, str(problem.code))

    def _witness(self, *evidence: Evidence) -> None:
        for one in evidence:
            news = self._world.witnessed(one, time.time())
            self._changed(news)
            self._hint(news)

    def _hint(self, news: News) -> None:
        if news.reread:
            self._read_now.set()
            self._scan_now.set()

    def _from_thread(self, handler: Callable[[Value], None]) -> Callable[[Value], None]:
        def call(value: Value) -> None:
            self._loop.call_soon_threadsafe(handler, value)

        return call


_DOING = {"scan": "scanning the node", SOURCE: "reading the health states"}


async def _either(event: asyncio.Event, seconds: float) -> None:
    """Waits for the event, but no longer than that."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
