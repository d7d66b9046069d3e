"""The options on the command line and in the documentation; the table itself is in `table`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from deviceplugin.config.document import Config, ProcessOptions
from deviceplugin.config.effective import flatten, spell
from deviceplugin.config.table import OPTIONS, OURS, UPSTREAM, Option
from deviceplugin.config.values import FALSE, LISTS, NONE, TRUE, Kind
from deviceplugin.config.wording import nearest
from deviceplugin.model.errors import ConfigError

__all__ = ["OPTIONS", "Option", "add_arguments", "as_markdown", "given", "parse"]

_GROUPS = (("options of NVIDIA's plugin", UPSTREAM), ("further options", OURS))
_KEPT = "given_options"
_REPEATED = frozenset(option.name for option in OPTIONS if option.kind in LISTS)
_SWITCHES = frozenset(flag for option in OPTIONS if option.kind is Kind.BOOL for flag in option.flags)


class _Keep(argparse.Action):
    """Keeps text and spelling of a flag; a list's flag may be repeated, of any other the last counts."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Stores {option: (flag, text)} in the name space."""
        del parser
        kept: dict[str, tuple[str, str]] = vars(namespace).setdefault(_KEPT, {})
        before = f"{kept[self.dest][1]}," if self.dest in kept and self.dest in _REPEATED else ""
        kept[self.dest] = (option_string or self.option_strings[0], f"{before}{values}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds every option of the table; a flag that the subcommand has already is left to it."""
    taken = set(parser._option_string_actions)  # noqa: SLF001 - argparse has no other way to ask
    for title, options in _GROUPS:
        group = parser.add_argument_group(title)
        for option in options:
            flags = [flag for flag in option.flags if flag not in taken]
            if not flags:
                continue
            group.add_argument(
                *flags,
                action=_Keep,
                dest=option.name,
                default=argparse.SUPPRESS,
                metavar=option.name.upper().replace("-", "_"),
                help=_help(option),
                nargs="?" if option.kind is Kind.BOOL else None,
                const="true" if option.kind is Kind.BOOL else None,
            )


def _help(option: Option) -> str:
    words = (*option.choices, f"{NONE} for an empty list") if option.none else option.choices
    values = f" ({', '.join(words)})" if words else ""
    return (option.idle or option.help) + values


def parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The parser's name space for these words, with Go's habits: `--flag` and `--flag=false`, `-long-flag`.

    Raises:
        ConfigError: A word is no option, or an option lacks its value; one line each.
    """
    vars(parser)["error"] = _refuse
    known = parser._option_string_actions  # noqa: SLF001 - see add_arguments
    arguments, left = parser.parse_known_args(list(_respell(words, frozenset(known))))
    flags = [word for word in left if word.startswith("-")]
    if flags:
        raise ConfigError(
            *(_unknown(flag.partition("=")[0], [f for f in known if f.startswith("--")]) for flag in flags)
        )
    if left:
        raise ConfigError(f"{' '.join(left)}: not understood; see {parser.prog} --help")
    return arguments


def _refuse(message: str) -> NoReturn:
    raise ConfigError(message.removeprefix("argument "))


def _respell(words: Sequence[str], known: frozenset[str]) -> Iterator[str]:
    """A switch without `=` gets its value joined, so that it cannot swallow the word after it."""
    left = list(reversed(words))
    while left:
        word = left.pop()
        if word == "--":
            yield word
            yield from reversed(left)
            return
        if not word.startswith("--") and f"-{word.partition('=')[0]}" in known and word.partition("=")[0] not in known:
            word = f"-{word}"
        if word in _SWITCHES and word in known:
            value = left.pop() if left and left[-1] in TRUE | FALSE else "true"
            word = f"{word}={value}"
        yield word


def _unknown(flag: str, known: list[str]) -> str:
    near = nearest(flag, known)
    return f"{flag}: no such option; " + (f"did you mean {near}?" if near else "--help lists them")


def given(arguments: argparse.Namespace) -> dict[str, str]:
    """The options that were on the command line: flag as it was written -> text."""
    kept: dict[str, tuple[str, str]] = vars(arguments).get(_KEPT, {})
    return dict(kept.values())


def as_markdown() -> str:
    """The tables of all options, for the documentation."""
    return "\n".join(_markdown())


def _markdown() -> Iterator[str]:
    defaults = dict(flatten(Config()))
    process = dict(flatten(ProcessOptions()))
    for title, options in _GROUPS:
        yield f"### {title[0].upper()}{title[1:]}\n"
        yield "| flag | variable | key in the file | takes | default | |"
        yield "|---|---|---|---|---|---|"
        for option in options:
            field = option.path or option.name.replace("-", "_")
            default = defaults.get(field, process.get(field, ""))
            yield "| {} |".format(
                " | ".join(
                    (
                        ", ".join(f"`{flag}`" for flag in option.flags),
                        ", ".join(f"`{variable}`" for variable in option.variables),
                        f"`{option.path}`" if option.path else "",
                        _takes(option),
                        "" if default in {"", None} else f"`{spell(field, default)}`",
                        f"no effect: {option.idle}" if option.idle else option.help,
                    )
                )
            )
        yield ""


def _takes(option: Option) -> str:
    return f"{option.kind} {', '.join(option.choices)}".strip() + (f", or {NONE}" if option.none else "")
