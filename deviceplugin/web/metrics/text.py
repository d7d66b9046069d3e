"""From rows to the Prometheus text format, by the client library."""

from __future__ import annotations

import time
from collections.abc import Iterable

from msgspec import Struct
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client import generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.core import Sample
from prometheus_client.registry import Collector

from deviceplugin.web.metrics.row import Metric, Source

__all__ = ["CONTENT_TYPE", "Writer"]


class Writer:
    """Writes rows, and keeps what it wrote: a family whose samples are the same is not written again.

    Writing takes some 12 microseconds for each sample, and a shared node has thousands. Between two samples of a busy
    GPU three values in five stay, and a change of health or of the kubelet's side touches a few.
    """

    def __init__(self) -> None:
        self._text = b""
        self._kept: dict[str, Written] = {}

    def write(self, rows: Iterable[Metric[Source]], source: Source) -> bytes:
        """The text of all rows that have samples, in the order of the table."""
        kept: dict[str, Written] = {}
        pieces: list[memoryview] = []
        before, at = memoryview(self._text), 0
        for row in rows:
            # Lets go of the interpreter: an Allocate waits for the writing of one family at most, not of all.
            time.sleep(0)
            samples = [Sample(row.name + suffix, labels, value) for labels, value, suffix in row.samples(source)]
            if not samples:
                continue
            known = self._kept.get(row.name)
            if known is not None and known.samples == samples:
                piece, samples = before[known.start : known.end], known.samples
            else:
                piece = memoryview(generate_latest(_One(_family(row, samples))))
            kept[row.name] = Written(samples, at, at + len(piece))
            pieces.append(piece)
            at += len(piece)
        self._text, self._kept = b"".join(pieces), kept
        return self._text


class Written(Struct, frozen=True):
    """A family, and where it stands in the text."""

    samples: list[Sample]
    start: int
    end: int


class _One(Collector):
    """A collector of one family."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterable[Family]:
        return (self._family,)


def _family(row: Metric[Source], samples: list[Sample]) -> Family:
    family = Family(row.name.removesuffix("_total"), row.help, row.kind)
    family.samples = samples
    return family
