"""The Prometheus text format, version 0.0.4.

Lines are joined from labels that were written once for each device and pod: with a label set escaped and sorted for
each of several thousand samples, as the client library does it, the same text takes twenty times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from deviceplugin.web.metrics.row import Metric, Source

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


def labels(values: Mapping[str, object]) -> str:
    """`name="value"` pairs with commas; a value that is None or empty is no label at all."""
    return ",".join(
        f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in values.items() if value not in {None, ""}
    )


def joined(*parts: str) -> str:
    """Several label texts as one."""
    return ",".join(part for part in parts if part)


def number(value: float) -> str:
    """As Prometheus reads it: whole numbers without a fraction, others with all their digits."""
    if not isfinite(value):
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"  # noqa: PLR0124 - NaN alone differs from itself
    return str(int(value)) if value == int(value) else repr(value)


def render(table: Iterable[Metric[Source]], source: Source) -> str:
    """The text of all rows that have samples, in the order of the table."""
    lines: list[str] = []
    for metric in table:
        heading = len(lines)
        for sample in metric.samples(source):
            within = f"{{{sample.labels}}}" if sample.labels else ""
            lines.append(f"{metric.name}{sample.suffix}{within} {number(sample.value)}\n")
        if len(lines) > heading:
            meaning = metric.help.translate(_HELP_ESCAPES)
            lines.insert(heading, f"# HELP {metric.name} {meaning}\n# TYPE {metric.name} {metric.kind}\n")
    return "".join(lines)
