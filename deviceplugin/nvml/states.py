"""Health states of cards, as far as the driver tells them; what it does not tell is unknown, neither good nor bad."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import pynvml
from msgspec.structs import replace

from deviceplugin.model.node import Gpu, Node, Problem
from deviceplugin.model.vitals import Reading
from deviceplugin.nvml.api import Handle, NvmlApi
from deviceplugin.nvml.inquiry import Inquiry
from deviceplugin.nvml.links import read_fabric
from deviceplugin.nvml.recall import Recall
from deviceplugin.nvml.tour import Tour

_RECOVERY_ACTION = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
_UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
_VOLATILE = pynvml.NVML_VOLATILE_ECC


def silent(readings: Iterable[Reading]) -> Mapping[str, Problem]:
    """Cards that gave no answer at all to the questions put to them, by UUID, with the first question that failed.

    A card that is lost has said so, and one that has none of the states has no question to answer.
    """
    mute = (reading for reading in readings if reading.alive is None and not _spoke(reading))
    failed = ((reading.uuid, next((p for p in reading.problems if p.code), None)) for reading in mute)
    return {uuid: problem for uuid, problem in failed if problem is not None}


def _spoke(reading: Reading) -> bool:
    known = (reading.remap_supported, reading.recovery_action, reading.retired_pending, reading.volatile_uncorrectable)
    return any(fact is not None for fact in known)


class StateReader:
    """Reads the states of all cards of a node; remembers which links were ever up."""

    def __init__(self) -> None:
        self._recall = Recall()
        self._version: str | None = None
        self._up: dict[str, frozenset[int]] = {}

    def read(self, api: NvmlApi, generation: int, node: Node, tour: Tour) -> tuple[Reading, ...]:
        """One reading per card that the tour does not leave out.

        Raises:
            NvmlError: The driver as a whole is out of reach.
        """
        self._recall.at(generation)
        if node.driver_version != self._version:
            self._version = node.driver_version
            self._up.clear()
        readings = []
        for gpu in node.gpus:
            if gpu.uuid not in tour.skipped:
                with tour.visit(gpu.uuid):
                    readings.append(self._card(api, gpu, node, Inquiry(tour)))
        return tuple(readings)

    def _card(self, api: NvmlApi, gpu: Gpu, node: Node, inquiry: Inquiry) -> Reading:
        inquiry.carry(p for p in node.problems if p.subject == gpu.uuid and p.query == "nvmlDeviceGetNvLinkState")
        blank = Reading(gpu.uuid, time.time(), links_down=self._links_down(gpu))
        handle = self._recall.card(inquiry, api, gpu)
        reading = blank if handle is None else self._states(inquiry, api, handle, gpu, blank)
        problems = inquiry.problems
        lost = gpu.uuid in inquiry.lost or (gpu.lost and handle is None)
        return replace(reading, alive=False if lost else None if problems else True, problems=problems)

    def _states(self, inquiry: Inquiry, api: NvmlApi, handle: Handle, gpu: Gpu, blank: Reading) -> Reading:
        recall, uuid = self._recall, gpu.uuid
        facts: dict[str, Any] = {}
        rows = recall.ask(inquiry, uuid, api.nvmlDeviceGetRemappedRows, handle)
        if rows is not None:
            facts |= {"remap_supported": True, "remap_pending": bool(rows[2]), "remap_failure": bool(rows[3])}
        elif recall.lacks(uuid, ("nvmlDeviceGetRemappedRows",)):
            pages = recall.ask(inquiry, uuid, api.nvmlDeviceGetRetiredPagesPendingStatus, handle)
            errors = recall.ask(inquiry, uuid, api.nvmlDeviceGetTotalEccErrors, handle, _UNCORRECTED, _VOLATILE)
            facts |= {"remap_supported": False, "volatile_uncorrectable": errors}
            facts["retired_pending"] = None if pages is None else bool(pages)
        action = recall.fields(inquiry, api, handle, uuid, [_RECOVERY_ACTION]).get(_RECOVERY_ACTION)
        facts["recovery_action"] = None if action is None else int(action)
        if gpu.fabric is not None:
            facts["fabric"] = read_fabric(inquiry, api, handle, gpu)
        return replace(blank, **facts)

    def _links_down(self, gpu: Gpu) -> tuple[int, ...] | None:
        if gpu.mig_enabled or gpu.lost or not gpu.links:
            return None
        up = frozenset(link.number for link in gpu.links if link.active)
        ever = self._up[gpu.uuid] = self._up.get(gpu.uuid, up) | up
        return tuple(link.number for link in gpu.links if link.active is False and link.number in ever)
