"""`gpu-device-plugin version`."""

from __future__ import annotations

import argparse

from deviceplugin import __version__
from deviceplugin.cli.context import Context


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""
    del parser


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Prints name and version."""
    del arguments, context
    print(f"gpu-device-plugin {__version__}")
    return 0
