"""The configuration in force: its values one by one, its hash, and its text with the source of every value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from deviceplugin.config.document import Config
from deviceplugin.config.durations import format_duration
from deviceplugin.config.table import BY_PATH
from deviceplugin.config.values import Kind
from deviceplugin.config.wording import quote

_PLAIN = r"[A-Za-z/][A-Za-z0-9/._-]*"
_NOT_TEXT = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_DIGITS = 12


def flatten(section: Struct, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every value of the section as (path, value), in the document's order; lists of sections are numbered."""
    for key, field in zip(section.__struct_encode_fields__, section.__struct_fields__, strict=True):
        path, value = f"{prefix}{key}", getattr(section, field)
        if isinstance(value, Struct):
            yield from flatten(value, f"{path}.")
        elif _is_list_of_sections(value):
            for number, item in enumerate(value):
                yield from flatten(item, f"{path}[{number}].")
        else:
            yield path, value


def digest(config: Config) -> str:
    """First 12 hexadecimal digits of the SHA-256 over the configuration as JSON with sorted keys, defaults included."""
    from hashlib import sha256

    from msgspec import json

    return sha256(json.encode(dict(flatten(config)), order="sorted")).hexdigest()[:_DIGITS]


def spell(path: str, value: object) -> str:
    """The value as YAML in one line, durations as Go writes them."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(spell(path, item) for item in value)}]"
    if isinstance(value, float) and _is_duration(path):
        return format_duration(value)
    if isinstance(value, str):
        text = str(value)
        return text if re.fullmatch(_PLAIN, text) and text.lower() not in _NOT_TEXT else quote(text, None)
    return str(value)


def as_yaml(config: Config, source_of: Callable[[str], str]) -> str:
    """The configuration as a file that loads to the same values; each line says where its value is from."""
    rows = list(_rows(config, "", "", source_of))
    width = min(max(len(text) for text, source in rows if source), 60)
    return "\n".join(f"{text:<{width}}  # {source}" if source else text for text, source in rows) + "\n"


def _rows(section: Struct, path: str, indent: str, source_of: Callable[[str], str]) -> Iterator[tuple[str, str | None]]:
    for key, field in zip(section.__struct_encode_fields__, section.__struct_fields__, strict=True):
        here, value = f"{path}{key}", getattr(section, field)
        if isinstance(value, Struct):
            yield f"{indent}{key}:", None
            yield from _rows(value, f"{here}.", f"{indent}  ", source_of)
        elif _is_list_of_sections(value):
            yield f"{indent}{key}:", None
            for number, item in enumerate(value):
                (first, source), *others = _rows(item, f"{here}[{number}].", f"{indent}    ", source_of)
                yield f"{indent}  - {first.lstrip()}", source
                yield from others
        else:
            yield f"{indent}{key}: {spell(here, value)}", source_of(here)


def _is_list_of_sections(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], Struct)


def _is_duration(path: str) -> bool:
    option = BY_PATH.get(path)
    return option is not None and option.kind is Kind.DURATION
