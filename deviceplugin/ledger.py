"""What happened since the process began: counts, timings and the last transitions.

The doors write here, the web door reads; so no door needs to know another. Writers may be on any thread.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from deviceplugin.model.health import Transition

Key = tuple[str, tuple[str, ...]]
"""A counter: its name and the values of its labels."""
_UNREAD = 1000


class Phase(StrEnum):
    """How far a resource has got with the kubelet."""

    STARTING = "starting"
    SERVING = "serving"
    REGISTERED = "registered"
    STREAMING = "streaming"
    CLOSED = "closed"


@dataclass(slots=True)
class Histogram:
    """Observations counted by upper bound in seconds."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)


DURATION_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05)
"""0.1 to 50 ms: what Allocate and GetPreferredAllocation take."""


class Ledger:
    """Counters by (name, label values), histograms by name, phases by resource, and the last health turns."""

    def __init__(self, clock: Callable[[], float] = time.time, keep: int = 50) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[Key, float] = {}
        self._histograms: dict[str, Histogram] = {}
        self._answers: deque[tuple[str, float, Key]] = deque()
        self._phases: dict[str, Phase] = {}
        self._streams: dict[str, int] = {}
        self._times: dict[str, float] = {}
        self.turns: deque[Transition] = deque(maxlen=keep)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Adds to a counter; the meaning of the labels is in the web door's table of metrics."""
        key = (name, labels)
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + by

    def answered(self, histogram: str, seconds: float, key: Key) -> None:
        """Adds one to the counter `key` and `seconds` to a histogram. A pod waits: who reads does the sums."""
        self._answers.append((histogram, seconds, key))
        if len(self._answers) > _UNREAD:
            with self._lock:
                self._sum_up()

    def stamp(self, name: str, at: float | None = None) -> None:
        """Notes that something happened now (or at the given Unix time)."""
        self._times[name] = self._clock() if at is None else at

    def phase(self, resource: str, phase: Phase) -> None:
        """Notes how far a resource has got with the kubelet; CLOSED forgets it."""
        with self._lock:
            if phase is Phase.CLOSED:
                self._phases.pop(resource, None)
                self._streams.pop(resource, None)
            else:
                self._phases[resource] = phase

    def stream(self, resource: str, change: int) -> None:
        """Notes a ListAndWatch stream that opened (+1) or closed (-1)."""
        with self._lock:
            if resource in self._phases:
                self._streams[resource] = max(0, self._streams.get(resource, 0) + change)

    def turn(self, turn: Transition) -> None:
        """Notes a change of health."""
        self.turns.append(turn)
        self.count("health_transitions", turn.uuid, turn.to, turn.reason)

    def _sum_up(self) -> None:
        """With the lock held: only one thread takes answers away, and another may add some meanwhile."""
        while self._answers:
            histogram, seconds, key = self._answers.popleft()
            self._counts[key] = self._counts.get(key, 0) + 1
            timed = self._histograms.get(histogram)
            if timed is None:
                timed = self._histograms[histogram] = Histogram(DURATION_BOUNDS)
            timed.counts[bisect_left(DURATION_BOUNDS, seconds)] += 1
            timed.total += seconds

    @property
    def counts(self) -> Mapping[tuple[str, tuple[str, ...]], float]:
        """A copy of all counters."""
        with self._lock:
            self._sum_up()
            return dict(self._counts)

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """Copies of all histograms."""
        with self._lock:
            self._sum_up()
            copies = {}
            for name, histogram in self._histograms.items():
                copies[name] = copy = Histogram(histogram.bounds)
                copy.counts, copy.total = list(histogram.counts), histogram.total
            return copies

    @property
    def phases(self) -> Mapping[str, Phase]:
        """A copy of the phases by resource."""
        with self._lock:
            return dict(self._phases)

    @property
    def streams(self) -> Mapping[str, int]:
        """Open streams by resource."""
        with self._lock:
            return dict(self._streams)

    @property
    def times(self) -> Mapping[str, float]:
        """Unix times by name."""
        return dict(self._times)
