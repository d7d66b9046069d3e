"""How rows about the plugin are made from a view and from its books."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from deviceplugin.web.metrics.row import Kind, Metric, Sample, labels_of
from deviceplugin.web.metrics.scene import Scene
from deviceplugin.web.view import View

PREFIX = "gpu_device_plugin_"

Values = Iterable[tuple[tuple[object, ...], float]]
"""Label values and value."""
Texts = Iterable[tuple[str, ...]]


def nothing(view: View) -> Texts:
    """No counter that starts at zero."""
    del view
    return ()


def gauge(name: str, meaning: str, labels: tuple[str, ...], values: Callable[[View], Values]) -> Metric[Scene]:
    """A row of what a function of the view finds."""

    def samples(scene: Scene) -> Iterator[Sample]:
        for texts, value in values(scene.view):
            yield Sample(labels_of(dict(zip(labels, texts, strict=True))), value)

    return Metric(PREFIX + name, Kind.GAUGE, meaning, labels, samples)


def counter(
    name: str, meaning: str, labels: tuple[str, ...], kept_as: str, from_zero: Callable[[View], Texts] = nothing
) -> Metric[Scene]:
    """A row of the ledger's counts. Those of `from_zero` are there from the start, so that the first one is a rise."""

    def samples(scene: Scene) -> Iterator[Sample]:
        counts: dict[tuple[str, ...], float] = dict.fromkeys(from_zero(scene.view), 0)
        counts |= {texts: value for (count, texts), value in scene.view.books.counts.items() if count == kept_as}
        for texts, value in counts.items():
            yield Sample(labels_of(dict(zip(labels, texts, strict=True))), value)

    return Metric(PREFIX + name, Kind.COUNTER, meaning, labels, samples)


def histogram(name: str, meaning: str, kept_as: str) -> Metric[Scene]:
    """A row of one of the ledger's histograms."""

    def samples(scene: Scene) -> Iterator[Sample]:
        histogram = scene.view.books.histograms.get(kept_as)
        if histogram is None:
            return
        total = 0
        for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
            total += count
            yield Sample({"le": str(bound)}, total, "_bucket")
        yield Sample({}, histogram.total, "_sum")
        yield Sample({}, total, "_count")

    return Metric(PREFIX + name, Kind.HISTOGRAM, meaning, (), samples)
