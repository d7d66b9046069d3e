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
        self._kept: dict[str, Written] = {}

    def write(self, rows: Iterable[Metric[Source]], source: Source) -> bytes:
        """The text of all rows that have samples, in the order of the table."""
        kept: dict[str, Written] = {}
        for row in rows:
            # Lets go of the interpreter: an Allocate waits for the writing of one family at most, not of all.
            time.sleep(0)
            samples = [Sample(row.name + suffix, labels, value) for labels, value, suffix in row.samples(source)]
            before = self._kept.get(row.name)
            if before is not None and before.samples == samples:
                kept[row.name] = before
            elif samples:
                kept[row.name] = Written(samples, generate_latest(_One(_family(row, samples))))
        self._kept = kept
        return b"".join(one.text for one in kept.values())


class Written(Struct, frozen=True):
    """A family, and its text."""

    samples: list[Sample]
    text: bytes


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
