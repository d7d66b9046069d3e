"""`gpu-device-plugin config`: the configuration in force, and where each value is from."""

from __future__ import annotations

import argparse
import json
from typing import Any

from deviceplugin.cli.context import Context
from deviceplugin.config.effective import as_yaml, flatten, spell
from deviceplugin.config.load import Loaded
from deviceplugin.config.origin import Source


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Prints a file that says the same, with sources as comments; or JSON."""
    print(json.dumps(as_json(context.loaded), indent=2) if arguments.json else as_text(context.loaded), end="")
    print(end="\n" if arguments.json else "")
    return 0


def as_text(loaded: Loaded) -> str:
    """The document as YAML; before it, as comments, its hash, the options of the process and the warnings."""
    head = [f"# hash {loaded.stamp.hash}, from {loaded.stamp.source}"]
    for field, value in flatten(loaded.process):
        name = field.replace("_", "-")
        head.append(f"# --{name} {spell(field, value)}  ({loaded.sources[name]})")
    head += [f"# warning: {warning}" for warning in loaded.warnings]
    return "\n".join(head) + "\n" + as_yaml(loaded.config, lambda path: str(loaded.sources[path]))


def as_json(loaded: Loaded) -> dict[str, Any]:
    """The document that `--json` prints: every value with its source, durations in seconds."""
    return {
        "hash": loaded.stamp.hash,
        "source": loaded.stamp.source,
        "warnings": list(loaded.warnings),
        "process": {
            field.replace("_", "-"): _valued(value, loaded.sources[field.replace("_", "-")])
            for field, value in flatten(loaded.process)
        },
        "values": {path: _valued(value, loaded.sources[path]) for path, value in flatten(loaded.config)},
    }


def _valued(value: object, source: Source) -> dict[str, object]:
    return {"value": value, "origin": source.origin, "where": source.where}
