"""The shape of the table of metrics: a row says what a metric is called, what it means and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

Source = TypeVar("Source")


class Kind(StrEnum):
    """Types of the Prometheus text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Sample(NamedTuple):
    """One line of the text: labels as `text.labels` writes them."""

    labels: str
    value: float
    suffix: str = ""
    """`_bucket`, `_sum` or `_count` of a histogram."""


class Metric(Struct, Generic[Source], frozen=True):
    """One row. A metric without samples is left out of the text, heading and all."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    samples: Callable[[Source], Iterable[Sample]]
