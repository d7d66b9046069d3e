"""`gpu-device-plugin status [--watch] [--json]`: a running plugin, in a terminal."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from deviceplugin.cli.context import Context
from deviceplugin.cli.health import ask_daemon


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--watch` and `--json`."""
    parser.add_argument("--json", action="store_true", help="print the status document as it is")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=float,
        const=2.0,
        metavar="SECONDS",
        help="show it again every so many seconds (2), until interrupted",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Exit code 0 when the plugin is ready, 1 when it is not; with `--watch`, when it is interrupted."""
    document = ask_daemon(context, {"ask": "status"})
    if arguments.json:
        print(json.dumps(document, indent=2))
    elif arguments.watch is not None:
        _watch(context, document, max(0.2, arguments.watch))
    else:
        from rich.console import Console

        from deviceplugin.cli import screen

        Console().print(screen.draw(document))
    return 0 if document["plugin"]["ready"]["ok"] else 1


def _watch(context: Context, document: dict[str, Any], pause: float) -> None:
    from rich.live import Live

    from deviceplugin.cli import screen
    from deviceplugin.model.errors import PluginError

    with Live(screen.draw(document), auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(pause)
            try:
                live.update(screen.draw(ask_daemon(context, {"ask": "status"})), refresh=True)
            except PluginError as error:
                live.update(screen.silent(str(error)), refresh=True)
