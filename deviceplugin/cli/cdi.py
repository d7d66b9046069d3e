"""`gpu-device-plugin cdi`: prints the CDI specifications of this node, writes them into a folder, or removes them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deviceplugin.cli.context import Context
from deviceplugin.files import cdi, userspace
from deviceplugin.model.errors import PluginError
from deviceplugin.rules.cdispec import documents, flaws, idle_settings

STANDARD_OUTPUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--output` and `--remove`."""
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--output",
        default=STANDARD_OUTPUT,
        metavar="FOLDER",
        help="folder to write one file for each kind into; - prints them (default)",
    )
    action.add_argument("--remove", action="store_true", help="remove our files from the folder of --cdi-folder")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Does what was asked; exit code 1 where no device could be described."""
    try:
        return _remove(context) if arguments.remove else _generate(arguments.output, context)
    except OSError as error:
        raise PluginError(f"{error.filename}: {error.strerror}") from error


def _remove(context: Context) -> int:
    for path in cdi.remove(Path(context.loaded.config.cdi.folder)):
        print(path)
    return 0


def _generate(output: str, context: Context) -> int:
    node, config = context.probe(), context.loaded.config
    files = userspace.find(node, config, context.host_root)
    specifications = documents(node, files, config)
    if output == STANDARD_OUTPUT:
        for document in specifications:
            print(cdi.as_text(document), end="")
    else:
        for path in cdi.write(specifications, Path(output)):
            print(path)
    said = [flaw.detail for flaw in flaws(node, files)]
    if files.problem and node.gpus:
        raise PluginError(f"no device can be described: {files.problem}")
    for line in (*said, *idle_settings(node, files, config)):
        print(f"warning: {line}", file=sys.stderr)
    return 0 if specifications or not node.gpus else 1
