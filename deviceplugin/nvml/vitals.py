"""Sampling: health states on one period, load on another, both on the thread for calls that block."""

from __future__ import annotations

import time
from collections.abc import Sequence

from deviceplugin.model.node import Gpu, Node
from deviceplugin.model.vitals import Load, Reading
from deviceplugin.nvml.api import NvmlApi
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.inquiry import Inquiry
from deviceplugin.nvml.load import LoadReader
from deviceplugin.nvml.recall import Recall
from deviceplugin.nvml.states import StateReader
from deviceplugin.nvml.tour import Tour


class Vitals:
    """Reads states and load of a node; remembers what cards do not have, until the driver is initialised anew.

    Not for several threads at once: one worker calls it.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._recall = Recall()
        self._states = StateReader()
        self._load = LoadReader(self._recall)

    def read_states(self, node: Node, tour: Tour | None = None) -> tuple[Reading, ...]:
        """Health states, one reading per card of the node that the tour does not leave out.

        Raises:
            NvmlError: The driver as a whole is out of reach, or released.
        """
        tour = tour or Tour()
        with self._driver.session() as api:
            _make_sure(api, tour)
            return self._states.read(api, self._driver.generation, node, tour)

    def read_load(self, node: Node, tour: Tour | None = None, *, per_link: bool = False) -> Load:
        """Load of all cards and MIG instances of the node, in one pass.

        Args:
            node: Whose cards to read.
            tour: Which cards to leave out, and where it is noted which one is asked.
            per_link: Also the counters of each NVLink.

        Raises:
            NvmlError: The driver as a whole is out of reach, or released.
        """
        began = time.monotonic()
        tour = tour or Tour()
        inquiry = Inquiry(tour)
        gpus = []
        with self._driver.session() as api:
            _make_sure(api, tour)
            self._recall.at(self._driver.generation)
            for gpu in _answering(node.gpus):
                if gpu.uuid not in tour.skipped:
                    with tour.visit(gpu.uuid):
                        gpus.append(self._load.read(inquiry, api, gpu, per_link=per_link))
        return Load(at=time.time(), seconds=time.monotonic() - began, gpus=tuple(gpus), problems=inquiry.problems)


def _make_sure(api: NvmlApi, tour: Tour) -> None:
    """Where a card is left out on suspicion, the driver as a whole must answer first."""
    if tour.doubtful:
        Inquiry(tour).ask("", api.nvmlDeviceGetCount)


def _answering(gpus: Sequence[Gpu]) -> Sequence[Gpu]:
    return [gpu for gpu in gpus if not gpu.lost]
