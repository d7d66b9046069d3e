"""`gpu-device-plugin check-config FILE`: every problem of a file, before it meets a node."""

from __future__ import annotations

import argparse

from deviceplugin.cli.context import Context
from deviceplugin.config.load import load
from deviceplugin.config.options import given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the file."""
    parser.add_argument("file", help="YAML or JSON; flags beside it count as they would for serve")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Prints warnings and `ok`; problems are raised. The variables of this shell are not the pod's and do not count.

    Raises:
        ConfigError: With every problem.
    """
    del context
    loaded = load({**given(arguments), "--config-file": arguments.file}, {})
    for warning in loaded.warnings:
        print(f"warning: {warning}")
    print(f"{arguments.file}: ok ({loaded.stamp.hash})")
    return 0
