"""Bytes of a file into YAML nodes, which know their line and column. JSON is read as the YAML it is."""

from __future__ import annotations

from yaml import MarkedYAMLError, Node, ScalarNode
from yaml._yaml import CParser
from yaml.reader import ReaderError

from deviceplugin.config.origin import LARGEST
from deviceplugin.config.wording import quote

PLAIN = ""
"""Tag of a node that has none of its own, of scalars only without quotes: what is wanted there decides what it is."""

CORE = "tag:yaml.org,2002:"
TEXT = f"{CORE}str"

_REMEDIES = {
    "cannot start any token": "put the text in quotes",
    "mapping values are not allowed": 'a second ": " in one line needs quotes; else mend the indentation',
    "could not find expected ':'": 'a key needs ": " after it',
    "did not find expected key": "the indentation fits no line above; align it with its neighbours",
    "did not find expected '-' indicator": "the indentation fits no line above; align it with its neighbours",
    "did not find expected ',' or": 'a "," or the closing bracket is missing',
    "did not find expected node content": "a value is missing before this character",
    "did not find expected alphabetic": 'a text that begins with "*" or "&" needs quotes',
    "unexpected end of stream": "a closing quote is missing",
    "undefined alias": 'a text that begins with "*" needs quotes; an alias needs its "&" name above',
    "second occurrence": 'two values are marked with the same "&" name; rename one',
    "but found another document": 'the file holds two documents; keep one and drop the "---" between them',
    "did not find expected <document start>": "the text above was already complete; indent this line or drop it",
    "unknown escape character": "write the text in single quotes",
    "exceeded max": "nested too deep; the configuration needs seven levels at most",
    "undefined tag handle": 'a text that begins with "!" needs quotes',
    "unknown directive": 'a text that begins with "%" needs quotes',
}


class UnreadableError(Exception):
    """The file is no YAML document: place as `:line:column` or nothing, and the problem with its remedy."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place


def parse(data: bytes) -> Node | None:
    """The document's root node, None for an empty file.

    Raises:
        UnreadableError: Too large, not text, or not one YAML document.
    """
    text = _decode(data)
    if not text.strip():
        return None
    try:
        node: Node | None = _Composer(text).get_single_node()
    except MarkedYAMLError as error:
        raise _explain(error, text) from error
    except ReaderError as error:
        raise _explain_character(error, text) from error
    return node


class _Composer(CParser):
    """The C parser without PyYAML's resolver: what a plain scalar means is decided by what is wanted there."""

    def descend_resolver(self, *_: object) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass

    def resolve(self, kind: type, _: object, implicit: tuple[bool, bool] | bool) -> str:  # noqa: FBT001 - theirs
        quoted = kind is ScalarNode and isinstance(implicit, tuple) and not implicit[0]
        return TEXT if quoted else PLAIN


def _decode(data: bytes) -> str:
    if len(data) > LARGEST:
        raise UnreadableError("is larger than 1 MiB, the most that a ConfigMap holds; is it the right file?")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError(
            f"is no UTF-8 text (byte 0x{data[error.start]:02x}); save it as UTF-8, or is it the right file?", f":{line}"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UnreadableError("holds a NUL byte, so it is no text; is it the right file?", f":{line}")
    return text


def _explain_character(error: ReaderError, text: str) -> UnreadableError:
    before = text[: error.position]
    place = f":{before.count(chr(10)) + 1}:{error.position - before.rfind(chr(10))}"
    return UnreadableError("a control character, which YAML does not allow; delete it", place)


def _explain(error: MarkedYAMLError, text: str) -> UnreadableError:
    problem, mark, context = error.problem or str(error), error.problem_mark, error.context_mark
    if context and ("expected ':'" in problem or "end of stream" in problem or mark is None):
        # The parser stops at the end; what is wrong begins where it began to read.
        mark = context
    row, column = (mark.line, mark.column) if mark else (0, 0)
    place = f":{row + 1}:{column + 1}"
    line = dict(enumerate(text.splitlines())).get(row, "")
    if "\t" in line[: len(line) - len(line.lstrip())] or line[column : column + 1] == "\t":
        return UnreadableError("a tab; YAML is indented with spaces only, replace it", place)
    remedy = next((remedy for part, remedy in _REMEDIES.items() if part in problem), "see this line and the one above")
    rest = line[column:].strip()
    bracket = context is not None and context.line < row and "',' or" in problem
    opened = f" (opened on line {context.line + 1})" if context and bracket else ""
    if "another document" in problem:
        return UnreadableError(remedy, place)
    return UnreadableError(f"is no YAML: {problem}{f' at {quote(rest)}' if rest else ''}{opened}; {remedy}", place)
