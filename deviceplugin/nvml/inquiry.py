"""Asking the driver: a query that fails costs the fact it would have given, and is written down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import pynvml

from deviceplugin.model.node import Problem
from deviceplugin.nvml.codes import DOWN, Code, failure
from deviceplugin.nvml.tour import Tour

Answer = TypeVar("Answer")


def anything(_answer: Any) -> bool:
    """Accepts every answer."""
    return True


def call_name(call: Callable[..., Any]) -> str:
    """The vendor's name of a function."""
    return getattr(call, "__name__", type(call).__name__)


class Inquiry:
    """Asks questions during one pass and keeps what went wrong.

    Attributes:
        code: Return code of the last question; 0 after an answer, -1 after an answer that made no sense.
        lost: Subjects for which the driver answered GPU_IS_LOST.
    """

    def __init__(self, tour: Tour | None = None) -> None:
        """Takes the tour that is to know which call is under way."""
        self.code = 0
        self.lost: set[str] = set()
        self._tour = tour or Tour()
        self._problems: dict[tuple[str, str], Problem] = {}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What went wrong, in the order it was met."""
        return tuple(self._problems.values())

    def ask(
        self,
        subject: str,
        call: Callable[..., Answer],
        *arguments: Any,
        sane: Callable[[Answer], bool] = anything,
        expected: Collection[int] = (),
    ) -> Answer | None:
        """The answer of `call(*arguments)`, or None.

        Args:
            subject: UUID or PCI id the question is about, empty for the node.
            call: A function of the driver.
            *arguments: Its arguments.
            sane: Whether an answer can be believed; one that cannot is a problem.
            expected: Codes that are an answer of their kind, and no problem.

        Raises:
            NvmlError: The driver as a whole is out of reach, or it answered so late that nobody waits any more.
        """
        query = call_name(call)
        self._tour.begin(query)
        try:
            answer = call(*arguments)
        except pynvml.NVMLError as error:
            self.failed(subject, query, int(error.value), expected)
            return None
        except UnicodeDecodeError:
            self.garbage(subject, query, "bytes that are no text")
            return None
        finally:
            self._tour.end()
        if not sane(answer):
            self.garbage(subject, query, _shown(answer))
            return None
        self.code = Code.SUCCESS
        return answer

    def failed(self, subject: str, query: str, code: int, expected: Collection[int] = ()) -> None:
        """Takes note that `query` answered `code`.

        Raises:
            NvmlError: The code means that the driver as a whole is out of reach.
        """
        self.code = code
        if code in DOWN:
            raise failure(query, code)
        if code == Code.GPU_IS_LOST:
            self.lost.add(subject)
        if code not in expected:
            self.note(Problem(subject, query, code))

    def garbage(self, subject: str, query: str, shown: str) -> None:
        """Takes note of an answer that makes no sense."""
        self.code = -1
        self.note(Problem(subject, query, 0, f"answered {shown}, which makes no sense and is not used"))

    def note(self, problem: Problem) -> None:
        """Keeps a problem; of several with one subject and query the first."""
        self._problems.setdefault((problem.subject, problem.query), problem)

    def carry(self, problems: Iterable[Problem]) -> None:
        """Keeps problems of an earlier pass whose questions were not asked again."""
        for problem in problems:
            self.note(problem)


def _shown(answer: object) -> str:
    """An answer as text, the same each time: structures by their members, not by their address."""
    members = getattr(answer, "_fields_", None)
    if members is None:
        return repr(answer)
    return ", ".join(f"{member[0]}={getattr(answer, member[0])!r}" for member in members)
