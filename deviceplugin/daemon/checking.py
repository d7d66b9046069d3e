"""The health states as a source: one pass over all cards becomes evidence, also when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from msgspec import Struct

from deviceplugin.model.errors import NvmlError
from deviceplugin.model.evidence import ChecksFailed, ChecksWorked, Evidence, Unanswered
from deviceplugin.model.node import DriverState, Node, Problem
from deviceplugin.nvml.codes import Code, name
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.events import openable
from deviceplugin.nvml.states import silent
from deviceplugin.nvml.tours import Tours
from deviceplugin.nvml.vitals import Vitals
from deviceplugin.nvml.worker import Worker

SOURCE = "states"
READ_DEADLINE = 10.0
UNUSABLE = frozenset({DriverState.NO_DRIVER, DriverState.FAILING, DriverState.MISMATCH})
"""States in which there may be GPUs whose health nobody can check."""


class Pass(Struct, frozen=True):
    """What one pass brought."""

    evidence: tuple[Evidence, ...] = ()
    problems: tuple[Problem, ...] = ()
    error: NvmlError | None = None
    """The driver as a whole did not answer."""


class Checking:
    """Reads the states of all cards on the worker's thread."""

    def __init__(self, driver: Driver, vitals: Vitals, worker: Worker, tours: Tours) -> None:
        self._driver = driver
        self._tours = tours
        self._vitals = vitals
        self._worker = worker

    async def read(self, node: Node) -> Pass:
        """One pass; nothing where no card is expected to answer."""
        if node.state in UNUSABLE:
            return Pass((ChecksFailed(SOURCE, f"the driver is {node.state}"),))
        if node.state is not DriverState.READY:
            return Pass()
        try:
            readings = await self._tours.make(SOURCE, partial(self._vitals.read_states, node), deadline=READ_DEADLINE)
        except NvmlError as error:
            if self._driver.released:
                return Pass()  # The pass was asked for before the scan that shows the release.
            # Where a call hangs, opening a device node might hang as well.
            seen = None if error.code == Code.TIMEOUT else await self._openable(node)
            return Pass((ChecksFailed(SOURCE, str(error), openable=seen),), error=error)
        problems = tuple(problem for reading in readings for problem in reading.problems)
        hanging = tuple(Unanswered(uuid, query) for uuid, query in self._left_out(node).items())
        mute = silent(readings)
        if not mute:
            return Pass((*hanging, *readings, ChecksWorked(SOURCE)), problems)
        first = next(iter(mute.values()))
        codes = MappingProxyType({uuid: problem.code for uuid, problem in mute.items()})
        detail = f"{first.query} answered {name(first.code)}"
        failed = ChecksFailed(SOURCE, detail, codes, await self._openable(node))
        return Pass((*hanging, *readings, failed), problems)

    def _left_out(self, node: Node) -> Mapping[str, str]:
        cards = {gpu.uuid for gpu in node.gpus}
        return {uuid: query for uuid, query in self._tours.left_out.items() if uuid in cards}

    async def _openable(self, node: Node) -> bool | None:
        # Opening the node of a card on which calls hang might hang as well.
        answering = [gpu for gpu in node.gpus if gpu.uuid not in self._tours.left_out]
        try:
            return await self._worker.submit(partial(openable, self._driver.host_root, answering))
        except NvmlError:
            return None
