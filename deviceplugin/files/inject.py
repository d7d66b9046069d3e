"""Rehearsals: a file whose lines stand for faults, so that alerts and runbooks can be tried. Off by default.

Each line is `DEVICE xid NUMBER [NOTE]`, `DEVICE unhealthy [NOTE]` or `DEVICE rank-last [NOTE]`, with the device as
UUID, index, `gpu:mig` index or PCI bus id. A line holds while it is in the file. What follows a # is skipped.
"""

from __future__ import annotations

import logging
import stat
from pathlib import Path

from deviceplugin.model.evidence import Injected, Injection
from deviceplugin.model.health import Verdict

log = logging.getLogger(__name__)

_LIMIT = 64 * 1024
_VERDICTS = {"unhealthy": Verdict.UNHEALTHY, "rank-last": Verdict.RANK_LAST}
_HOW = "write `DEVICE xid NUMBER`, `DEVICE unhealthy` or `DEVICE rank-last`, then a note if you like"


class InjectFile:
    """Reads the file that health.injectFile names; problems are said once for each content.

    Args:
        path: The file; empty: off.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._said: tuple[str, ...] = ()

    def read(self) -> Injected | None:
        """The rehearsals that stand now; none without a file; None where it cannot be told, so that nothing changes."""
        if self._path is None:
            return Injected()
        try:
            # A pipe would hold up the reader for ever.
            if not stat.S_ISREG(self._path.stat().st_mode):
                self._unreadable("it is no regular file")
                return None
            with self._path.open("rb") as file:
                content = file.read(_LIMIT + 1)
        except FileNotFoundError:
            self._say(())
            return Injected()
        except OSError as error:
            self._unreadable(str(error))
            return None
        if len(content) > _LIMIT:
            self._unreadable(f"it is larger than {_LIMIT} bytes")
            return None
        injections, problems = parse(content.decode(errors="replace"))
        self._say(problems)
        return Injected(injections)

    def _unreadable(self, why: str) -> None:
        self._say((f"it cannot be read, rehearsals stay as they are: {why}",))

    def _say(self, problems: tuple[str, ...]) -> None:
        if problems != self._said:
            for problem in problems:
                log.warning("inject file: %s", problem, extra={"path": str(self._path)})
        self._said = problems


def parse(text: str) -> tuple[tuple[Injection, ...], tuple[str, ...]]:
    """The rehearsals in a text, and a sentence for each line that is none."""
    injections: list[Injection] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if content:
            injection = _injection(content)
            if injection is None:
                problems.append(f"line {number} is {content[:80]!r}: {_HOW}")
            else:
                injections.append(injection)
    return tuple(injections), tuple(problems)


def _injection(content: str) -> Injection | None:
    device, what, rest = [*content.split(maxsplit=2), "", ""][:3]
    if what in _VERDICTS:
        return Injection(device, _VERDICTS[what], note=rest)
    number, note = [*rest.split(maxsplit=1), "", ""][:2]
    if what == "xid" and number.isascii() and number.isdecimal() and len(number) <= 5 and int(number):  # noqa: PLR2004
        return Injection(device, xid=int(number), note=note)
    return None
