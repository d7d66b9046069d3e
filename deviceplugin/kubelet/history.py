"""What went wrong at an endpoint so far: the source of its back-off and of the suspicion of a rival."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from deviceplugin.kubelet.settings import EndpointSettings

_SUSPICIOUS = 3


class History:
    """Failures and losses of one endpoint; `now` is always of the same monotonic clock."""

    def __init__(self, settings: EndpointSettings, chance: Callable[[], float]) -> None:
        self.not_before = 0.0
        """Nothing is tried earlier."""
        self._settings = settings
        self._chance = chance
        self._failures = 0
        self._losses = 0
        self._opened_at = 0.0
        self._cuts: deque[float] = deque(maxlen=_SUSPICIOUS)
        self._complaints: Counter[str] = Counter()

    def failed(self, now: float) -> float:
        """An attempt failed; returns the seconds of pause before the next one."""
        self._failures += 1
        return self._hold(now, self._failures)

    def succeeded(self) -> int:
        """An attempt succeeded; returns the failures before it."""
        failures, self._failures = self._failures, 0
        self._complaints.clear()
        return failures

    def opened(self, now: float) -> None:
        """The kubelet opened its stream."""
        self._opened_at = now

    def lost(self, now: float) -> float:
        """The kubelet's stream ended and not by us; returns the seconds of pause before registering again."""
        if now - self._opened_at >= self._settings.stable:
            self._losses = 0
        self._losses += 1
        return self._hold(now, self._losses - 1)

    def unwatched(self, now: float) -> None:
        """The kubelet registered us and never opened a stream: counts as a loss."""
        self._losses += 1
        self._hold(now, self._losses)

    def cut(self, now: float) -> bool:
        """One and the same kubelet ended the stream; whether it did so suspiciously often."""
        self._cuts.append(now)
        often = len(self._cuts) == _SUSPICIOUS and now - self._cuts[0] <= self._settings.contest_window
        if often:
            self._cuts.clear()
        return often

    def renewed(self) -> None:
        """Another kubelet: nothing of the old one counts."""
        self.not_before = 0.0
        self._failures = self._losses = 0
        self._cuts.clear()
        self._complaints.clear()

    def worth_saying(self, kind: str) -> bool:
        """Whether the log should have this complaint now: the 1st, 2nd, 4th, 8th, ... of its kind in a row."""
        self._complaints[kind] += 1
        count = self._complaints[kind]
        return count & (count - 1) == 0

    def _hold(self, now: float, failures: int) -> float:
        pause = self._settings.backoff.pause(failures, self._chance())
        self.not_before = now + pause
        return pause
