"""docs/metrics.md, written from the table: `python -m deviceplugin.web.metrics.describe > docs/metrics.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from deviceplugin.web.metrics import DCGM_ROWS, GPU_ROWS, LIVE_ROWS, PLUGIN_ROWS
from deviceplugin.web.metrics.dcgm import DCGM_LABELS
from deviceplugin.web.metrics.row import Metric
from deviceplugin.web.metrics.scene import CARD_LABELS, MIG_LABELS

_OPENING = """# Metrics

Written by `python -m deviceplugin.web.metrics.describe > docs/metrics.md` from the table that the scrape is made
from; a test compares the two.

The text is rendered once for each sample (`--metrics-interval`, 10 s) or change and handed to every scrape as it is, so
a scrape never waits for the driver. Two figures are written at the scrape itself: how old the sample is, and how long
a driver call has been hanging. A metric that the hardware or driver does not support is absent, never 0.

The port (`--metrics-address`, `:9400`, IPv4 and IPv6) answers `GET` and `HEAD` at `/metrics`, `/status` (see
[status.md](status.md)), `/` (the same as a page), `/healthz` and `/readyz`. TLS: `--metrics-tls-cert` and
`--metrics-tls-key`; with `--metrics-tls-client-ca` clients need a certificate of that authority. Passwords:
`--metrics-basic-auth-file`, lines of `user:password`; the two probes need none. These files are read again when they
change. While the password file cannot be read or has no such line, everything but the probes answers 503, and one line
of the log says why. Sixteen connections are served at once, each for 10 s at most; when more come, the one that has
been without a whole request longest is closed, so that idle ones keep no scrape out. Alerts, a dashboard and a
PodMonitor are in `daemonset/monitoring`, what to do in [runbooks.md](runbooks.md).
"""

_GPU = """
Base units. Labels of all of them (`{card}`):
`gpu` is the driver's index, `nvlink_domain` the number that `topology` and the status page show, `numa_node` is absent
where it is unknown. The last four are there while a pod holds the GPU, a share of it or a MIG instance of it, and go
with the pod. A shared GPU has one series for each pod, with the same value: aggregate with `max by (uuid)` before you
sum. Containers of one pod that hold the same GPU are joined by commas. `--metrics-pods=off` drops the four labels.
"""

_MIG = """
`gpu_mig_*` have the labels `{mig}`.
"""

_DCGM = """
With `--metrics-dcgm-names`, beside the names above, for dashboards made for DCGM's exporter. Labels: `{dcgm}`.
Units are DCGM's (MHz, C, W, mJ, MiB, percent). As there, a card in MIG mode is shown by its instances. What is counted
is `untyped`, because the Prometheus client library calls only names in `_total` counters; queries do not see the type.
"""


def as_markdown() -> str:
    """The whole document."""
    return "".join(_document())


def _document() -> Iterator[str]:
    yield _OPENING
    yield "\n## The plugin\n\n"
    yield from _table((*PLUGIN_ROWS, *LIVE_ROWS), ())
    yield "\n## Each GPU\n" + _GPU.format(card="`, `".join(CARD_LABELS)) + "\n"
    cards = [row for row in GPU_ROWS if not row.name.startswith("gpu_mig_")]
    yield from _table(cards, CARD_LABELS)
    yield "\n## Each MIG instance\n" + _MIG.format(mig="`, `".join(MIG_LABELS)) + "\n"
    yield from _table([row for row in GPU_ROWS if row not in cards], MIG_LABELS)
    yield "\n## DCGM's names\n" + _DCGM.format(dcgm="`, `".join(DCGM_LABELS)) + "\n"
    yield from _table(DCGM_ROWS, DCGM_LABELS)


def _table(rows: Sequence[Metric[Any]], usual: Sequence[str]) -> Iterator[str]:
    yield "| name | type | labels | |\n|---|---|---|---|\n"
    for row in rows:
        own = ", ".join(f"`{label}`" for label in row.labels if label not in usual)
        yield f"| `{row.name}` | {row.kind} | {own} | {row.help} |\n"


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
