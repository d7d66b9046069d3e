"""What NVML says of each two cards."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import combinations

import pynvml
from msgspec.structs import replace

from deviceplugin.model.node import Gpu, Node, Pair, Problem
from deviceplugin.nvml.api import Handle, NvmlApi
from deviceplugin.nvml.codes import ABSENT, Code
from deviceplugin.nvml.inquiry import Inquiry
from deviceplugin.nvml.links import reaches_beyond
from deviceplugin.nvml.tour import PAIRS, Tour

PATIENCE = 5.0
UNREAD = "pairs"
"""Query of the problem that says that pairs are left to the next scan."""
_ANCESTORS = frozenset({0, 10, 20, 30, 40, 50})
_ANCESTOR = "nvmlDeviceGetTopologyCommonAncestor"
_P2P = "nvmlDeviceGetP2PStatus"
_OK = pynvml.NVML_P2P_STATUS_OK
_P2P_UNKNOWN = pynvml.NVML_P2P_STATUS_UNKNOWN


class Memory:
    """What an earlier scan knew of pairs, for the cards that are still the same ones at the same place."""

    def __init__(self, node: Node) -> None:
        self._gpus = {gpu.uuid: gpu for gpu in node.gpus}
        self._pairs = {frozenset((pair.a, pair.b)): pair for pair in node.pairs}
        self._problems = {(problem.subject, problem.query): problem for problem in node.problems}

    def pair(self, a: Gpu, b: Gpu) -> Pair:
        """What was known of two cards, in the order they have now."""
        known = self._pairs.get(frozenset((a.uuid, b.uuid))) if self._same(a) and self._same(b) else None
        return Pair(a.uuid, b.uuid) if known is None else replace(known, a=a.uuid, b=b.uuid)

    def unchanged(self, gpu: Gpu) -> bool:
        """Whether nothing that bears on peer-to-peer has changed: links, MIG mode, fabric."""
        was = self._gpus.get(gpu.uuid)
        return was is not None and (was.links, was.mig_enabled, was.fabric) == (gpu.links, gpu.mig_enabled, gpu.fabric)

    def refusal(self, subject: str, query: str) -> Problem | None:
        """The problem by which the driver said that it will not answer a question until it is loaded anew."""
        problem = self._problems.get((subject, query))
        return problem if problem is not None and problem.code in ABSENT else None

    def _same(self, gpu: Gpu) -> bool:
        was = self._gpus.get(gpu.uuid)
        return was is not None and was.pci == gpu.pci


class PairReader:
    """Reads pairs, none of them twice.

    On real machines this was seen to take 600 ms per pair: a scan spends no more than `PATIENCE` seconds on it, and
    what is left over is read by the scans after it.
    """

    def __init__(self, inquiry: Inquiry, api: NvmlApi, memory: Memory, tour: Tour) -> None:
        self._inquiry = inquiry
        self._api = api
        self._memory = memory
        self._tour = tour

    def read(self, gpus: Sequence[Gpu], handles: Mapping[str, Handle]) -> tuple[Pair, ...]:
        """One `Pair` for each two cards, in node order. Of lost and silent cards what was known is kept."""
        if PAIRS in self._tour.skipped:
            detail = f"{self._tour.skipped[PAIRS]} hangs: what is not known of two cards stays unknown until it returns"
            self._inquiry.note(Problem("", UNREAD, Code.TIMEOUT, detail))
            return tuple(self._memory.pair(a, b) for a, b in combinations(gpus, 2))
        with self._tour.visit(PAIRS):
            return self._all(gpus, handles)

    def _all(self, gpus: Sequence[Gpu], handles: Mapping[str, Handle]) -> tuple[Pair, ...]:
        buses = [gpu.pci for gpu in gpus]
        beyond = {gpu.uuid for gpu in gpus if not gpu.mig_enabled and reaches_beyond(gpu, buses)}
        pairs: list[Pair] = []
        until = time.monotonic() + PATIENCE
        late = 0
        for a, b in combinations(gpus, 2):
            pair = self._memory.pair(a, b)
            ends = (handles.get(a.uuid), handles.get(b.uuid))
            if time.monotonic() > until:
                late += 1
            elif None not in ends and not (a.lost or b.lost):
                pair = self._read(pair, (a, b), ends, switched={a.uuid, b.uuid} <= beyond)
            pairs.append(pair)
        if late:
            detail = f"the driver is slow: {late} of {len(pairs)} pairs of cards are left to the next scan"
            self._inquiry.note(Problem("", UNREAD, Code.TIMEOUT, detail))
        return tuple(pairs)

    def _read(self, known: Pair, gpus: tuple[Gpu, Gpu], ends: tuple[Handle, Handle], *, switched: bool) -> Pair:
        subject = f"{known.a} {known.b}"
        ancestor = known.ancestor
        if ancestor is None and not self._skip(subject, _ANCESTOR):
            call = self._api.nvmlDeviceGetTopologyCommonAncestor
            ancestor = self._inquiry.ask(subject, call, *ends, sane=_ANCESTORS.__contains__)
        if not switched:
            return Pair(known.a, known.b, ancestor)
        p2p = known.p2p_nvlink if all(map(self._memory.unchanged, gpus)) else None
        if p2p is None and not self._skip(subject, _P2P):
            p2p = self._peer_to_peer(subject, *ends)
        return Pair(known.a, known.b, ancestor, p2p)

    def _peer_to_peer(self, subject: str, a: Handle, b: Handle) -> bool | None:
        there = self._status(subject, a, b)
        return self._status(subject, b, a) if there else there

    def _status(self, subject: str, a: Handle, b: Handle) -> bool | None:
        call = self._api.nvmlDeviceGetP2PStatus
        status = self._inquiry.ask(subject, call, a, b, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
        return None if status is None or status >= _P2P_UNKNOWN else status == _OK

    def _skip(self, subject: str, query: str) -> bool:
        """Leaves out a question that was refused for good, and keeps the problem in sight."""
        refusal = self._memory.refusal(subject, query)
        if refusal is not None:
            self._inquiry.note(refusal)
        return refusal is not None
