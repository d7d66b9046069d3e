"""YAML nodes into the document's values, each with its place; every problem is found, not only the first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from msgspec import Struct
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from deviceplugin.config import parse, suggest
from deviceplugin.config.document import Config, Document
from deviceplugin.config.durations import parse_duration
from deviceplugin.config.shapes import Shape, keys
from deviceplugin.config.values import FALSE, TRUE, choose, integer
from deviceplugin.config.wording import quote

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_YES = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})
_NO = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})
"""Truth values as Go's YAML reads them."""

_PLAIN = frozenset({parse.PLAIN, *(parse.CORE + name for name in ("int", "float", "bool", "null", "timestamp"))})
_TAGS = _PLAIN | {parse.TEXT, f"{parse.CORE}map", f"{parse.CORE}seq"}
_SPARE = 10_000
"""Values that aliases may repeat beyond what a file of its size could spell out."""


class Place(Struct, frozen=True):
    """Where something stands in the file; both count from 1."""

    line: int
    column: int


class Found(Struct):
    """What a file says: the values that are right, the place of each, and all that is wrong."""

    values: dict[str, object] = {}
    places: dict[str, Place] = {}
    problems: list[tuple[Place, str, str]] = []
    """Place, path, sentence."""
    warnings: list[tuple[Place, str, str]] = []
    broken: set[str] = set()
    """Paths of what was wrong, and of the lists that lack an item for it: no sense in judging these further."""


class _Broken:
    """Stands for a value that was reported."""


_BROKEN = _Broken()


def decode(root: Node | None, size: int) -> Found:
    """Reads the root node of a file of so many bytes as the document."""
    walk = _Walk(size + _SPARE)
    if root is not None and not _is_null(root):
        value = walk.value(root, Shape(section=Config), "")
        if isinstance(value, dict):
            walk.found.values = value
    return walk.found


class _Walk:
    def __init__(self, budget: int) -> None:
        self.found = Found(values={}, places={}, problems=[], warnings=[], broken=set())
        self._budget = budget
        self._said: set[tuple[str, str]] = set()

    def value(self, node: Node, shape: Shape, path: str) -> object:
        """The value, or _BROKEN once its problems are noted."""
        self._budget -= 1
        if self._budget == 0:
            self._report(node, path, "the aliases (*name) of this file repeat too many values; write them out")
        if self._budget <= 0:
            return _BROKEN
        self.found.places[path] = _place(node)
        if node.tag not in _TAGS:
            tag = node.tag.replace(parse.CORE, "!!")
            return self._report(node, path, f"the tag {quote(tag)} means nothing here; delete it, or quote the text")
        if isinstance(node, MappingNode) and shape.section:
            return self._section(node, shape.section, path)
        if isinstance(node, SequenceNode) and shape.items:
            return self._list(node, shape.items, path)
        if isinstance(node, ScalarNode):
            return self._scalar(node, shape, path)
        return self._report(node, path, f"must be {shape.wanted()}, is {_describe(node, shape)}")

    def _report(self, node: Node, path: str, sentence: str) -> _Broken:
        self.found.problems.append((_place(node), path, sentence))
        self.found.broken.add(path)
        return _BROKEN

    def _list(self, node: SequenceNode, items: Shape, path: str) -> object:
        values = []
        for number, item in enumerate(node.value):
            here = f"{path}[{number}]"
            if _is_null(item):
                self._report(item, here, f"is empty; write {items.wanted()} or delete the line")
                continue
            values.append(self.value(item, items, here))
        sound = [value for value in values if value is not _BROKEN]
        if len(sound) < len(node.value):
            self.found.broken.add(path)
        return sound if sound or not node.value else _BROKEN

    def _scalar(self, node: ScalarNode, shape: Shape, path: str) -> object:
        try:
            return read_scalar(node.value, shape, plain=_is_plain(node), path=path)
        except ValueError as error:
            return self._report(node, path, str(error))

    def _section(self, node: MappingNode, section: type[Document], path: str) -> object:
        known = keys(section)
        values: dict[str, object] = {}
        seen: dict[str, Node] = {}
        if not path and suggest.is_manifest({key.value for key, _ in node.value if isinstance(key, ScalarNode)}):
            return self._report(node, path, suggest.MANIFEST)
        for key_node, value_node in self._pairs(node, path):
            name = self._key(key_node, section, path)
            if name is None:
                continue
            here = f"{path}.{name}" if path else name
            if name in seen:
                first = _place(seen[name]).line
                self._report(key_node, here, f"is given twice, first on line {first}; keep one")
                continue
            seen[name] = key_node
            if not _is_null(value_node):
                values[name] = self.value(value_node, known[name].shape, here)
                self.found.places[here] = _place(key_node)
        for name in (name for name, key in known.items() if key.required):
            if name not in values:
                self._report(node, path, f"lacks {name}; {suggest.example(name)}")
            if values.get(name, _BROKEN) is _BROKEN:
                values[name] = suggest.stand_in(name)
        return {name: value for name, value in values.items() if value is not _BROKEN}

    def _pairs(self, node: MappingNode, path: str) -> Iterator[tuple[Node, Node]]:
        """The pairs of a mapping, then those that `<<` merges into it and it does not give itself."""
        merged: list[MappingNode] = []
        own: set[str] = set()
        for key, value in node.value:
            if isinstance(key, ScalarNode) and key.value == "<<" and _is_plain(key):
                sources = value.value if isinstance(value, SequenceNode) else [value]
                merged += [source for source in sources if isinstance(source, MappingNode)]
                if any(not isinstance(source, MappingNode) for source in sources):
                    self._report(value, path, '"<<" takes an alias of a section; write "<<: *name"')
            else:
                own.add(str(key.value))
                yield key, value
        for source in merged:
            for key, value in source.value:
                if str(key.value) not in own:
                    own.add(str(key.value))
                    yield key, value

    def _key(self, node: Node, section: type[Document], path: str) -> str | None:
        """The key as the document spells it; None, and a note, where the document has none."""
        if not isinstance(node, ScalarNode):
            self._report(node, path, suggest.NO_KEY)
            return None
        known = keys(section)
        if node.value in known:
            return str(node.value)
        word = node.value if re.fullmatch(r"[-\w ]{1,40}", node.value) else quote(node.value)
        here = f"{path}.{word}" if path else str(word)
        verdict = suggest.unknown(str(node.value), section, path)
        if verdict.problem:
            repeated = (path, verdict.problem) in self._said
            self._said.add((path, verdict.problem))
            self._report(node, here, "is not known here, see above" if repeated else verdict.problem)
        if verdict.warning:
            self.found.warnings.append((_place(node), here, verdict.warning))
        return verdict.key


def read_scalar(text: str, shape: Shape, *, plain: bool, path: str = "") -> object:
    """The value that a scalar holds where this shape is wanted; `plain`: it stands without quotes.

    Raises:
        ValueError: None of that shape; the message says what it must be.
    """
    if path == "flags.plugin.deviceListStrategy" and shape.items:
        return [choose(word.strip(), shape.items.choices) for word in text.split(",")]
    for wanted, read in ((shape.boolean, _truth), (shape.integer, integer), (shape.number, _number)):
        if plain and wanted and _holds(read, text):
            return read(text)
    if shape.duration:
        return parse_duration(text)
    if shape.choices:
        return choose(text, shape.choices)
    if shape.text:
        return text
    raise ValueError(_mismatch(text, shape, plain=plain))


def _truth(text: str) -> bool:
    if text not in _YES | _NO:
        raise ValueError(text)
    return text in _YES


def _number(text: str) -> float:
    if not text[-1:].isdigit():  # nan and inf are no numbers here
        raise ValueError(text)
    return float(text)


def _holds(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _mismatch(text: str, shape: Shape, *, plain: bool) -> str:
    said = f"must be {shape.wanted()}, is {'' if plain else 'the text '}{quote(text)}"
    if not plain and shape.boolean and text in TRUE | FALSE:
        return f"{said}; remove the quotes"
    if not plain and (shape.integer or shape.number) and _holds(float, text):
        return f"{said}; remove the quotes"
    if shape.items:
        return f"{said}; write [{text}]" if plain else f"{said}; write it as a list"
    if shape.section and plain and ":" in text:
        return f'{said}; put a space after the ":"'
    return said


def _place(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def _is_plain(node: Node) -> bool:
    return node.tag in _PLAIN


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value in _NULLS and _is_plain(node)


def _describe(node: Node, shape: Shape) -> str:
    if isinstance(node, MappingNode):
        if any(not isinstance(key, ScalarNode) for key, _ in node.value):
            return 'a template "{{ ... }}" that was not rendered'
        return 'a section; put "- " before its first key' if shape.items else "a section"
    return 'a list; remove the "- "' if shape.section else "a list"
