"""One line of a bench: what was measured, against what, and how far it should come."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A figure. `floor` is what the constant-answer server (or another yardstick) took in the same run."""

    what: str
    value: float
    unit: str = "ms"
    floor: float | None = None
    goal: float | None = None
    """The value to stay under."""
    ratio_goal: float | None = None
    """value / floor to stay under."""

    @property
    def ratio(self) -> float | None:
        """Value over floor."""
        return self.value / self.floor if self.floor else None

    @property
    def verdict(self) -> str:
        """Whether the goals are reached; empty where there is none."""
        ratio = self.ratio
        missed = (self.goal is not None and self.value > self.goal) or (
            self.ratio_goal is not None and ratio is not None and ratio > self.ratio_goal
        )
        return "missed" if missed else "" if self.goal is None and self.ratio_goal is None else "ok"


def as_text(rows: Iterable[Row]) -> str:
    """A table in Markdown."""
    lines = ["| what | value | floor | ratio | goal | |", "|---|---:|---:|---:|---:|---|"]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        floor = "" if row.floor is None else f"{row.floor:.4g}"
        goal = f"{row.goal:g} {row.unit}" if row.goal is not None else ""
        goal = f"{row.ratio_goal:g}x" if row.ratio_goal is not None else goal
        lines.append(f"| {row.what} | {row.value:.4g} {row.unit} | {floor} | {ratio} | {goal} | {row.verdict} |")
    return "\n".join(lines)
