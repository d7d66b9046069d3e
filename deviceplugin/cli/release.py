"""`gpu-device-plugin release`: the running plugin lets go of the driver, so that a GPU can be reset or MIG switched."""

from __future__ import annotations

import argparse

from deviceplugin.cli.context import Context
from deviceplugin.cli.health import ask_daemon
from deviceplugin.model.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--end` and `--reset`."""
    parser.add_argument("--end", action="store_true", help="take the driver up again now")
    parser.add_argument(
        "--reset",
        metavar="GPU",
        action="append",
        default=[],
        help="with --end: this GPU (index, UUID or PCI id) was reset, which older drivers do not show; repeatable",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Prints what the daemon did."""
    if arguments.reset and not arguments.end:
        raise ConfigError("--reset tells what was done during a release; give it together with --end")
    request = {"ask": "resume", "reset": arguments.reset} if arguments.end else {"ask": "release"}
    print(ask_daemon(context, request)["message"])
    return 0
