"""`gpu-device-plugin config-schema`: the JSON schema that makes editors check a configuration file."""

from __future__ import annotations

import argparse
import json

from deviceplugin.cli.context import Context
from deviceplugin.config.schema import schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""
    del parser


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Prints the schema."""
    del arguments, context
    print(json.dumps(schema(), indent=2, ensure_ascii=False))
    return 0
