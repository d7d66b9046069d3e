"""`gpu-device-plugin release`: the running plugin lets go of the driver, so that a GPU can be reset or MIG switched."""

from __future__ import annotations

import argparse

from deviceplugin.cli.context import Context
from deviceplugin.cli.health import ask_daemon


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--end`."""
    parser.add_argument("--end", action="store_true", help="take the driver up again now")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Prints what the daemon did."""
    print(ask_daemon(context, {"ask": "resume" if arguments.end else "release"})["message"])
    return 0
