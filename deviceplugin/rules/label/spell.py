"""Texts that a Kubernetes label takes: at most 63 characters, letters and digits at both ends, `-_.` between."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from typing import TypeVar

from deviceplugin.config.names import DOMAIN, LONGEST

Value = TypeVar("Value", int, str)

_DROPPED = re.compile(r"[^A-Za-z0-9_.-]")
_ENDS = "-_."
_HASH = 8


def spell(text: str) -> str:
    """The text as a label can hold it: white space becomes `-`, what a label cannot hold is dropped.

    It may still be too long; empty where nothing remains.
    """
    return _DROPPED.sub("", "-".join(text.split())).strip(_ENDS)


def shorten(text: str, room: int = LONGEST) -> str:
    """A spelt text in so many characters: a longer one ends in a hash of all of it, so that no two become one."""
    if len(text) <= room:
        return text
    digest = sha256(text.encode()).hexdigest()[:_HASH]
    return f"{text[: room - _HASH - 1].rstrip(_ENDS)}-{digest}"


def joined(text: str, *rest: str) -> str:
    """Text and further words joined by `-`; only the text is shortened, so the ending can always be relied on."""
    ending = "-".join(word for word in map(spell, rest) if word)
    room = max(LONGEST - len(ending) - 1, LONGEST // 2) if ending else LONGEST
    return shorten("-".join(part for part in (shorten(spell(text), room), ending) if part))


def key(*parts: str) -> str:
    """The label's key under our domain, from the parts of its name; the middle part of three is shortened."""
    if len(parts) == 3:  # noqa: PLR2004 - head, model, tail
        head, middle, tail = parts
        parts = (head, shorten(spell(middle), LONGEST - len(head) - len(tail) - 2), tail)
    return DOMAIN + shorten(".".join(parts))


def common(values: Iterable[Value | None]) -> Value | None:
    """The most frequent value, the greatest of equals; None where none is known. It does not hang on the order."""
    counts = Counter(value for value in values if value is not None)
    return max(counts, key=lambda value: (counts[value], value), default=None)


def leading(names: Iterable[str]) -> str:
    """The most frequent name, the first by alphabet of equals; empty where there is none."""
    counts = Counter(name for name in names if name)
    return min(counts, key=lambda name: (-counts[name], name), default="")
