"""What MPS gives one client: `memoryLimit` and `activeThreadPercentage` of an entry, worked out for a card.

The units are those of the control daemon: whole MiB, and per cent of a card's threads (CUDA MPS documentation).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deviceplugin.config.amounts import parse_amount
from deviceplugin.config.document import Replicas
from deviceplugin.model.mps import MpsDevice, MpsPlan
from deviceplugin.rules.offer.candidate import Candidate

MIB = 1024 * 1024
NO_LIMIT, EQUAL_PART = "none", "share"


@dataclass(slots=True)
class MpsDraft:
    """A plan while the cards of a resource are collected."""

    devices: list[MpsDevice] = field(default_factory=list)
    percentages: list[float] = field(default_factory=list)

    def add(self, candidate: Candidate, entry: Replicas, replicas: int) -> str | None:
        """Takes in one card; a sentence says what of its limit cannot be kept, None if all of it can."""
        limit, fault = memory_limit(candidate, entry, replicas)
        self.devices.append(MpsDevice(candidate.uuid, candidate.gpu.index, limit))
        self.percentages.append(thread_percentage(entry, replicas))
        return fault

    def finish(self) -> MpsPlan | None:
        """The plan; the daemon knows one percentage, so the smallest is what every client can rely on."""
        return MpsPlan(tuple(self.devices), min(self.percentages)) if self.devices else None


def thread_percentage(entry: Replicas, replicas: int) -> float:
    """What the entry says, or an equal part in whole per cent."""
    given = entry.active_thread_percentage
    return float(max(1, 100 // replicas)) if given is None else given


def memory_limit(candidate: Candidate, entry: Replicas, replicas: int) -> tuple[int | None, str | None]:
    """MiB for each client of a card, None for no limit; and what is wrong with the limit on this card."""
    wanted, memory = entry.memory_limit, candidate.gpu.memory
    if wanted == NO_LIMIT:
        return None, None
    if wanted is None or wanted == EQUAL_PART:
        return (None if memory is None else memory // replicas // MIB), None
    ratio = _number(wanted)
    if ratio is not None:
        return (None if memory is None else max(1, int(memory / replicas * ratio) // MIB)), None
    amount = max(1, parse_amount(str(wanted)) // MIB)
    if memory is not None and amount > memory // MIB:
        has = memory // MIB
        return has, f"{candidate.label} has {has} MiB, {wanted} is asked for; lower it, or write none"
    return amount, None


def _number(wanted: str | float) -> float | None:
    try:
        return float(wanted)
    except ValueError:
        return None
