"""One pretend machine in one process: state, journal, listeners and holders brought together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from fake_nvml import describe, host, ops, source
from fake_nvml.holders import Holders
from fake_nvml.journal import Journal
from fake_nvml.problem import InUse
from fake_nvml.state import Event, State, booted
from fake_nvml.wake import Bell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

CONTROL = "control"
_LOOK_AGAIN = 1.0  # seconds after which a waiter looks at the journal unasked, should a knock be lost


class World:
    """The state of a machine, kept equal in all processes of a root.

    `changed` is notified after every operation, whoever ordered it; its lock guards everything here.
    """

    def __init__(self, root: Path, spec: str | None, clock: Callable[[], float]) -> None:
        control = root / CONTROL
        self.root = root
        self.clock = clock
        self.changed = threading.Condition(threading.RLock())
        self.listeners: list[Callable[[Event], None]] = []
        self._open = True
        self._journal = Journal(control)
        self._holders = Holders(control / "holders")
        self._bell = Bell(control / "listeners", self.sync)
        with self._journal.locked():
            past = self._journal.news()
            fresh = not past
            if fresh:
                first = {"op": "machine", "t": clock(), **source.record(spec)}
                self._journal.append(first)
                past = [first]
            source.check(spec, past[0], root)
            self.machine = source.machine(past[0])
            self.state: State = booted(self.machine, past[0]["t"])
            for op in past[1:]:
                ops.apply(self.state, op)
            self.state.outbox.clear()
            if fresh:
                host.render(root, self.state)

    def sync(self) -> None:
        """Catch up with what other processes ordered."""
        with self.changed:
            for op in self._journal.news() if self._open else ():
                self._happen(op)

    def submit(self, op: Mapping[str, Any], *, force: bool = False) -> None:
        """Order an operation: check it, do it, write it down, tell everyone.

        Raises:
            Refused: it cannot be done on this machine.
            InUse: a process holds the driver open and `force` is false.
        """
        with self.changed, self._journal.locked():
            self.sync()
            line = {"t": self.clock(), **op}
            if not force and ops.exclusive(self.state, line) and (pids := self._holders.living()):
                raise InUse(
                    f"{op['op']}: in use by process {', '.join(map(str, pids))}, as the real driver would say; "
                    "release it there first or use force"
                )
            self._happen(line)
            if line["op"] in ops.SHOWN_IN_FILES:
                host.render(self.root, self.state)
            self._journal.append(line)
        self._bell.ring()

    def _happen(self, op: Mapping[str, Any]) -> None:
        ops.apply(self.state, op)
        for event in self.state.outbox:
            for listener in self.listeners:
                listener(event)
        self.state.outbox.clear()
        self.changed.notify_all()

    def describe(self) -> list[str]:
        """The state in words."""
        with self.changed, self._journal.locked():
            self.sync()
            return [*describe.lines(self.state), *(f"held open by process {pid}" for pid in self._holders.living())]

    def wait(self, seconds: float | None) -> None:
        """Sleep until something changed, that many seconds passed, or (rarely) for no reason.

        The caller holds `changed`.
        """
        if not self._open:
            return
        self._bell.listen()
        self.changed.wait(_LOOK_AGAIN if seconds is None else min(seconds, _LOOK_AGAIN))
        self.sync()

    def hold(self) -> None:
        """Be a process that has the driver open."""
        with self.changed, self._journal.locked():
            self._holders.enter()

    def unhold(self) -> None:
        """No longer have the driver open."""
        with self.changed, self._journal.locked():
            self._holders.leave()

    def close(self) -> None:
        """Leave the machine to the other processes of the root."""
        self.unhold()
        self._bell.close()
        with self.changed:
            self._open = False
            self._journal.close()
            self.changed.notify_all()
