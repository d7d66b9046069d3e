"""The shape of the table of metrics: a row says what a metric is called, what it means and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

Source = TypeVar("Source")
Labels = dict[str, str]


class Kind(StrEnum):
    """Types of the Prometheus text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    UNTYPED = "untyped"
    """A count whose name, given by others, does not end in `_total`: a counter's must."""


class Sample(NamedTuple):
    """One value. Samples of one device and pod share one dictionary of labels; nobody changes it."""

    labels: Labels
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


def labels_of(values: Mapping[str, object]) -> Labels:
    """Labels as text; a value that is None or empty is no label at all."""
    return {name: str(value) for name, value in values.items() if value not in {None, ""}}
