"""Change a pretend machine from outside the process that uses it.

python -m fake_nvml.control --root DIR xid 3 79
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import fake_nvml
from fake_nvml.commands import COMMANDS as ORDERS
from fake_nvml.fake import ROOT_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fake_nvml import Fake
    from fake_nvml.commands import Command


def _show(fake: Fake, _a: argparse.Namespace) -> None:
    for line in fake.describe():
        print(line)


COMMANDS: dict[str, Command] = {"show": ("say how the machine is", (), _show), **ORDERS}


def parser() -> argparse.ArgumentParser:
    """The command line, made from the table of commands."""
    top = argparse.ArgumentParser("python -m fake_nvml.control", description=__doc__.partition("\n")[0])
    top.add_argument("--root", type=Path, default=os.environ.get(ROOT_VARIABLE), help=f"default: ${ROOT_VARIABLE}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (text, arguments, _run) in COMMANDS.items():
        one = commands.add_parser(name, help=text, description=text)
        for argument, options in arguments:
            one.add_argument(argument, **options)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one command; 0 done, 1 refused because the driver is in use, 2 not possible or not understood."""
    given = parser().parse_args(arguments)
    if given.root is None:
        print(f"control: which machine? give --root DIR or set {ROOT_VARIABLE}", file=sys.stderr)
        return 2
    try:
        with fake_nvml.attach(Path(given.root)) as fake:
            COMMANDS[given.command][2](fake, given)
    except fake_nvml.InUse as error:
        print(f"control: {error}", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"control: {given.command}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
