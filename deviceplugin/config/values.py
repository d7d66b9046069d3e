"""Text from flags and variables into values; the file's scalars are read by the same rules where they share them."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from deviceplugin.config.durations import parse_duration
from deviceplugin.config.wording import nearest, quote

if TYPE_CHECKING:
    from deviceplugin.config.table import Option

TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
"""The spellings of Go's strconv.ParseBool."""

NONE = "none"
"""The empty list, where it differs from a list that is not given."""

# Patterns are compiled when first used: start-up pays for what it reads.
_INTEGER = r"[+-]?(?:0|[1-9]\d*|0x[0-9a-fA-F]+|0o[0-7]+)"


class Kind(StrEnum):
    """What an option takes; the values are the words of the documentation."""

    BOOL = "true or false"
    TEXT = "text"
    PATH = "path"
    DURATION = "duration"
    INTEGERS = "list of whole numbers"
    TEXTS = "list of texts"
    CHOICE = "one of"
    CHOICES = "list of"


LISTS = frozenset({Kind.INTEGERS, Kind.TEXTS, Kind.CHOICES})


def choose(text: str, choices: tuple[str, ...]) -> str:
    """The choice itself.

    Raises:
        ValueError: It is none of them.
    """
    if text in choices:
        return text
    near = nearest(text, list(choices))
    hint = f"; did you mean {near}?" if near else ""
    raise ValueError(f"must be one of {', '.join(choices)}, is {quote(text)}{hint}")


def integer(text: str) -> int:
    """A whole number, decimal or with 0x or 0o before it.

    Raises:
        ValueError: It is none.
    """
    if not re.fullmatch(_INTEGER, text):
        raise ValueError(f"must be a whole number, is {quote(text)}")
    return int(text, 0)


def boolean(text: str) -> bool:
    """Go's reading of a truth value.

    Raises:
        ValueError: It is none.
    """
    if text in TRUE or text in FALSE:
        return text in TRUE
    raise ValueError(f"must be true or false, is {quote(text)}")


def _device(word: str) -> str | int:
    return int(word) if word.isdecimal() else word


_SIMPLE: dict[Kind, Callable[[str], object]] = {
    Kind.BOOL: boolean,
    Kind.TEXT: str,
    Kind.PATH: str,
    Kind.DURATION: parse_duration,
    Kind.INTEGERS: integer,
    Kind.TEXTS: str,
}


def convert(text: str, option: Option) -> object:
    """The value that a flag or variable of this option holds; lists are written with commas, some empty ones as none.

    Raises:
        ValueError: It holds none; the message says what it must be.
    """
    read = _device if option.devices else _SIMPLE.get(option.kind) or (lambda word: choose(word, option.choices))
    if option.kind in LISTS:
        words = [word.strip() for word in text.split(",") if word.strip()]
        if option.none and NONE in words:
            if set(words) == {NONE}:
                return []
            raise ValueError(f"must be {NONE} alone or a list without it, is {quote(text)}")
        return [read(word) for word in words]
    return read(text.strip())
