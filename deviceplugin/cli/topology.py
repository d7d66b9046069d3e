"""`gpu-device-plugin topology`: how close the GPUs are, as a matrix, as JSON, or as a picture."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deviceplugin.cli.context import Context
from deviceplugin.model.errors import PluginError
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.prefer.words import LEGEND, health_word, pair_word


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`, `--svg` and `--topo`."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--svg", metavar="FILE", help="draw it; - is standard output")
    parser.add_argument(
        "--topo", metavar="FILE", help="a machine as `nvidia-smi topo -m` prints it; - is standard input"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Prints the matrix, or draws it."""
    if arguments.topo is not None:
        context.pretend(arguments.topo)
    snapshot = context.judged()
    if arguments.svg is not None:
        _draw(snapshot, arguments.svg)
    if arguments.json:
        print(json.dumps(as_json(snapshot), indent=2))
    elif arguments.svg is None:
        print("\n".join(as_text(snapshot)))
    return 0


def _draw(snapshot: Snapshot, place: str) -> None:
    from deviceplugin.cli.draw import svg

    picture = svg(snapshot.node, snapshot.inventory.closeness, snapshot.health)
    if place == "-":
        print(picture)
        return
    try:
        Path(place).write_text(picture + "\n")
    except OSError as error:
        raise PluginError(f"--svg {place}: {error.strerror}") from error


def as_json(snapshot: Snapshot) -> dict[str, Any]:
    """The document that `--json` prints; matrices are in the order of `gpus`."""
    close = snapshot.inventory.closeness
    gpus = []
    for gpu, domain in zip(snapshot.node.gpus, close.domain, strict=True):
        word, reason = health_word(snapshot.health, gpu.uuid)
        gpus.append(
            {
                "index": gpu.index,
                "uuid": gpu.uuid,
                "pci": gpu.pci,
                "name": gpu.name,
                "domain": domain,
                "numa": gpu.numa,
                "mig": bool(gpu.mig_enabled),
                "health": word,
                "reason": reason,
            }
        )
    return {
        "driver": {"state": snapshot.node.state, "version": snapshot.node.driver_version},
        "gpus": gpus,
        "nvlink": close.nvlink,
        "pcie": close.pcie,
        "warnings": close.warnings,
    }


def as_text(snapshot: Snapshot) -> Iterator[str]:
    """A matrix as `nvidia-smi topo -m` has it, with domain, NUMA node and health of each GPU."""
    close, node = snapshot.inventory.closeness, snapshot.node
    if not node.gpus:
        yield f"no GPUs (driver {node.state}{': ' if node.detail else ''}{node.detail})"
        return
    names = [f"GPU{gpu.index}" for gpu in node.gpus]
    rows = [["", *names, "domain", "NUMA", "health"]]
    for at, gpu in enumerate(node.gpus):
        cells = [pair_word(close, at, other) for other in range(len(names))]
        numa = "?" if gpu.numa is None else str(gpu.numa)
        word, reason = health_word(snapshot.health, gpu.uuid)
        rows.append([names[at], *cells, str(close.domain[at]), numa, f"{word}: {reason}" if reason else word])
    wide = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, wide, strict=True)).rstrip()
    yield ""
    used = {"NV#" if cell.startswith("NV") else cell for row in rows[1:] for cell in row[1 : len(names) + 1]}
    yield from (f"{word:>5} = {meaning}" for word, meaning in LEGEND.items() if word in used)
    yield from (f"warning: {warning}" for warning in close.warnings)
