"""Rows that are written at the scrape and not with the sample: they would stand still just when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from deviceplugin.web.metrics.make import PREFIX
from deviceplugin.web.metrics.row import Kind, Metric, Sample
from deviceplugin.web.view import View


class Moment(Struct, frozen=True):
    """What the rows that are written at each scrape read."""

    view: View
    now: float
    """Unix time in seconds."""
    call_ages: Mapping[str, float]
    """By thread: seconds in its present call of the driver."""


def _sample_age(moment: Moment) -> Iterator[Sample]:
    yield Sample({}, max(0.0, moment.now - (moment.view.load.at or moment.view.plugin.started)))


def _call_ages(moment: Moment) -> Iterator[Sample]:
    for thread, age in moment.call_ages.items():
        yield Sample({"thread": thread}, age)


LIVE_ROWS: tuple[Metric[Moment], ...] = (
    Metric(
        f"{PREFIX}sample_age_seconds",
        Kind.GAUGE,
        "Age of the figures about GPUs at the moment of the scrape; before the first sample, the age of the process.",
        (),
        _sample_age,
    ),
    Metric(
        f"{PREFIX}nvml_call_age_seconds",
        Kind.GAUGE,
        "How long the present call of the driver has lasted, by thread; 0 between calls.",
        ("thread",),
        _call_ages,
    ),
)
