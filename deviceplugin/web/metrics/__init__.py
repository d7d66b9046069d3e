"""All metrics in one table: the text of a scrape, docs/metrics.md and the tests are made from it."""

from __future__ import annotations

from deviceplugin.config.document import Metrics
from deviceplugin.web.metrics.dcgm import DCGM_ROWS
from deviceplugin.web.metrics.gpu import GPU_ROWS
from deviceplugin.web.metrics.live import LIVE_ROWS, Moment
from deviceplugin.web.metrics.plugin import PLUGIN_ROWS
from deviceplugin.web.metrics.row import Metric
from deviceplugin.web.metrics.scene import Scene
from deviceplugin.web.metrics.text import CONTENT_TYPE, Writer
from deviceplugin.web.view import View

__all__ = [
    "CONTENT_TYPE",
    "DCGM_ROWS",
    "GPU_ROWS",
    "LIVE_ROWS",
    "PLUGIN_ROWS",
    "Moment",
    "Writer",
    "live_text",
    "still_text",
]


def rows(settings: Metrics) -> tuple[Metric[Scene], ...]:
    """The rows that these settings ask for."""
    return (*PLUGIN_ROWS, *GPU_ROWS, *(DCGM_ROWS if settings.dcgm_names else ()))


def still_text(view: View, writer: Writer | None = None) -> bytes:
    """What changes only with the view: rendered once for it, by a writer that knows the text of the view before."""
    return (writer or Writer()).write(rows(view.plugin.settings), Scene(view))


def live_text(moment: Moment) -> bytes:
    """What every scrape writes anew: a handful of lines."""
    return Writer().write(LIVE_ROWS, moment)
