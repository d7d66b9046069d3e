"""The README's table of options is the code's, and its commands exist.

To renew the table: `python -m tests.house.test_readme`.
"""

import re
from pathlib import Path

from deviceplugin.cli import SUBCOMMANDS
from deviceplugin.config.options import OPTIONS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BEGIN, END = "<!-- options: written by python -m tests.house.test_readme -->\n", "<!-- /options -->"


def table() -> str:
    """Every option in a line: flag, variable and what it is."""
    rows = [
        f"| `{option.flags[0]}` | `{option.variables[0]}` | {option.help.replace('|', '/')} |"
        for option in OPTIONS
        if not option.idle
    ]
    return "\n".join(["| flag | variable | |", "|---|---|---|", *rows, ""])


def between() -> str:
    text = README.read_text()
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def test_the_table_of_options_is_that_of_the_code() -> None:
    assert between() == table(), "run: python -m tests.house.test_readme"


def test_every_subcommand_it_shows_exists() -> None:
    shown = set(re.findall(r"(?:`|bin/)gpu-device-plugin ([a-z][a-z-]+)", README.read_text()))
    assert shown
    assert shown <= SUBCOMMANDS.keys()


def test_every_make_target_it_shows_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", README.read_text())) <= targets


if __name__ == "__main__":
    README.write_text(
        README.read_text().replace(between(), table())
        if between()
        else README.read_text().replace(BEGIN, BEGIN + table())
    )
