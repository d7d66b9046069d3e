"""`gpu-device-plugin serve`: the daemon."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from deviceplugin.cli import chosen, logs
from deviceplugin.cli.context import Context

if TYPE_CHECKING:
    from deviceplugin.config.load import Loaded
    from deviceplugin.daemon.choice import Choice

FRESH = "GPU_DEVICE_PLUGIN_FRESH_PROCESS"
"""How many processes in a row, this one included, were begun to load a new driver library."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""
    del parser


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Runs until SIGTERM or SIGINT; replaces the process where only a fresh one can load the driver."""
    del arguments
    # A SIGHUP that comes before the daemon listens must neither end the process nor be lost.
    early: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _: early.append(number))
    context.loaded, choice = _first(context)
    driver = context.open_driver()
    fresh = int(os.environ.pop(FRESH, "") or 0)

    # gRPC's core writes lines of its own to stderr; what is wrong, our log says.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

    from deviceplugin.daemon import Daemon, Ending
    from deviceplugin.daemon.memory import keep_flat

    keep_flat()

    async def live() -> tuple[Ending, int]:
        daemon = Daemon(context.loaded, choice, driver, fresh=fresh)
        if early:
            daemon.reloading.request()
        return await daemon.run(), daemon.replacement.tries

    ending, tries = asyncio.run(live())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # kept by the process that may follow, until it listens
    if ending is Ending.REPLACE:
        os.environ[FRESH] = str(tries + 1)
        os.execv(sys.executable, [sys.executable, "-m", "deviceplugin", *_words()])  # noqa: S606 - itself
    logging.shutdown()
    return 0


def _first(context: Context) -> tuple[Loaded, Choice]:
    """The configuration to begin with, and who chooses the next one; from here on there is a log."""
    from deviceplugin.daemon.choice import Choice

    logs.configure(context.process.log_format, context.process.log_level)
    choice = Choice(context.load)
    return chosen.begin(context, choice=choice), choice


def _words() -> list[str]:
    """The command line as it was given; without a subcommand the program's name may have chosen this one."""
    words = sys.argv[1:]
    return words if words[:1] == ["serve"] else ["serve", *words]
