"""What NVML says of each two cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import pynvml

from deviceplugin.model.node import Gpu, Node, Pair
from deviceplugin.nvml.api import Handle, NvmlApi
from deviceplugin.nvml.codes import ABSENT
from deviceplugin.nvml.inquiry import Inquiry
from deviceplugin.nvml.links import reaches_beyond

_ANCESTORS = frozenset({0, 10, 20, 30, 40, 50})
_ANCESTOR = "nvmlDeviceGetTopologyCommonAncestor"
_P2P = "nvmlDeviceGetP2PStatus"
_OK = pynvml.NVML_P2P_STATUS_OK
_P2P_UNKNOWN = pynvml.NVML_P2P_STATUS_UNKNOWN


@dataclass(frozen=True)
class Memory:
    """Pairs of an earlier scan, for the cards that are still the same ones at the same place."""

    node: Node

    def pair(self, a: Gpu, b: Gpu) -> Pair | None:
        """What was known of two cards."""
        if not (self._same(a) and self._same(b)):
            return None
        wanted = {a.uuid, b.uuid}
        return next((pair for pair in self.node.pairs if {pair.a, pair.b} == wanted), None)

    def unchanged(self, gpu: Gpu) -> bool:
        """Whether nothing that bears on peer-to-peer has changed: links, MIG mode, fabric."""
        was = self.node.gpu(gpu.uuid)
        return was is not None and (was.links, was.mig_enabled, was.fabric) == (gpu.links, gpu.mig_enabled, gpu.fabric)

    def refused(self, subject: str, query: str) -> bool:
        """Whether the driver said that it will not answer this question until it is loaded anew."""
        return any(p.subject == subject and p.query == query and p.code in ABSENT for p in self.node.problems)

    def _same(self, gpu: Gpu) -> bool:
        was = self.node.gpu(gpu.uuid)
        return was is not None and was.uuid == gpu.uuid and was.pci == gpu.pci


class PairReader:
    """Reads pairs; on real machines this was seen to take 600 ms per pair, so nothing is asked twice."""

    def __init__(self, inquiry: Inquiry, api: NvmlApi, memory: Memory) -> None:
        self._inquiry = inquiry
        self._api = api
        self._memory = memory

    def read(self, gpus: Sequence[Gpu], handles: Mapping[str, Handle]) -> tuple[Pair, ...]:
        """One `Pair` for each two cards, in node order. Lost cards are not asked: what was known of them is kept."""
        buses = [gpu.pci for gpu in gpus]
        beyond = {gpu.uuid for gpu in gpus if not gpu.mig_enabled and reaches_beyond(gpu, buses)}
        pairs = []
        for a, b in combinations(gpus, 2):
            known = self._memory.pair(a, b) or Pair(a.uuid, b.uuid)
            pair = replace(known, a=a.uuid, b=b.uuid)
            if not (a.lost or b.lost):
                ends = (handles[a.uuid], handles[b.uuid])
                pair = self._read(pair, (a, b), ends, switched={a.uuid, b.uuid} <= beyond)
            pairs.append(pair)
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
        if not self._memory.refused(subject, query):
            return False
        problems = self._memory.node.problems
        self._inquiry.carry(p for p in problems if p.subject == subject and p.query == query)
        return True
