"""Faults laid on calls: a code, a wrong answer, slowness, a hang; for one GPU or all, now or after some calls."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault as it was ordered."""

    id: int
    call: str  # a function name or a pattern (`nvmlDeviceGet*`)
    gpu: int | None = None
    code: int | None = None
    value: Any = None
    answers: bool = False  # whether `value` replaces the answer
    delay: float = 0.0  # seconds
    hang: bool = False
    after: int = 0  # calls that still go through, per process
    times: int | None = None  # calls it then hits, per process; None for all

    def matches(self, call: str, gpu: int | None) -> bool:
        """Whether the fault concerns that call on that GPU (None: a call that names no GPU)."""
        return (self.gpu is None or self.gpu == gpu) and fnmatchcase(call, self.call)


class Tally:
    """How often each fault has been met by one process, so that `after` and `times` can be kept."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}

    def due(self, fault: Fault) -> bool:
        """Count one more matching call and say whether the fault hits it."""
        met = self._met.get(fault.id, 0)
        self._met[fault.id] = met + 1
        hits = met - fault.after
        return hits >= 0 and (fault.times is None or hits < fault.times)
