"""What the document wants at each place, taken from the structs: the kinds of value, their choices, their sections."""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec import NODEFAULT, Struct, structs

from deviceplugin.config.document import Document


class Shape(Struct, frozen=True):
    """The kinds of value that fit one place; several where the document has a union."""

    boolean: bool = False
    integer: bool = False
    number: bool = False
    text: bool = False
    duration: bool = False
    choices: tuple[str, ...] = ()
    items: Shape | None = None
    section: type[Document] | None = None

    def wanted(self) -> str:
        """What must be written there, for a message."""
        words = [words for held, words in _WORDS.items() if getattr(self, held)]
        if self.choices:
            words.append(f"one of {', '.join(self.choices)}")
        if self.items:
            words.append("a list")
        return " or ".join(words)


_WORDS = {
    "section": 'a section ("key: value" lines)',
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "duration": "a duration such as 30s or 1m30s",
    "text": "a text",
}


class Key(Struct, frozen=True):
    """One key of a section."""

    shape: Shape
    required: bool


@cache
def keys(section: type[Document]) -> dict[str, Key]:
    """The keys of a section as the file spells them."""
    return {
        field.encode_name: Key(shape_of(field.type), field.default is NODEFAULT and field.default_factory is NODEFAULT)
        for field in structs.fields(section)
    }


def shape_of(wanted: Any) -> Shape:
    """The shape of a field's type."""
    origin = get_origin(wanted)
    if origin is Annotated:  # Duration is the only one
        return Shape(duration=True)
    if origin in {Union, UnionType}:
        return _either([shape_of(part) for part in get_args(wanted) if part is not NoneType])
    if origin is tuple:
        return Shape(items=shape_of(get_args(wanted)[0]))
    if issubclass(wanted, Enum):
        return Shape(choices=tuple(str(member.value) for member in wanted))
    if issubclass(wanted, Document):
        return Shape(section=wanted)
    return _SIMPLE[wanted]


_SIMPLE = {
    bool: Shape(boolean=True),
    int: Shape(integer=True),
    float: Shape(number=True),
    str: Shape(text=True),
}


def _either(shapes: list[Shape]) -> Shape:
    held = {name: value for shape in shapes for name, value in structs.asdict(shape).items() if value}
    return Shape(**held)


@cache
def all_keys(section: type[Document], path: str = "") -> tuple[tuple[str, str], ...]:
    """Every key below a section as (path of its section, key), the lists' sections included."""
    found: list[tuple[str, str]] = []
    for name, key in keys(section).items():
        found.append((path, name))
        inner = key.shape.section or (key.shape.items and key.shape.items.section)
        if inner:
            below = f"{path}.{name}" if path else name
            found += all_keys(inner, below if key.shape.section else f"{below}[]")
    return tuple(found)
