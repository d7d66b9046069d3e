"""Flags, variables and file merged into one checked configuration that knows where each value is from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct, convert, structs

from deviceplugin.config import values
from deviceplugin.config.document import Cluster, Config, ProcessOptions
from deviceplugin.config.effective import digest, flatten
from deviceplugin.config.normalise import normalise
from deviceplugin.config.origin import Origin, Source, list_names, read_file, source_of
from deviceplugin.config.pick import pick
from deviceplugin.config.table import OPTIONS, Option
from deviceplugin.config.xids import fold, without_repeats
from deviceplugin.model.errors import ConfigError
from deviceplugin.model.snapshot import ConfigStamp

_MOST_PROBLEMS = 30
_Section = TypeVar("_Section", bound=Struct)


class Loaded(Struct, frozen=True):
    """The configuration in force."""

    config: Config
    process: ProcessOptions
    sources: Mapping[str, Source]
    """Source of every value of the document, by its path; of the process, by the option's name."""
    stamp: ConfigStamp
    warnings: tuple[str, ...] = ()
    """What is odd and works nevertheless, one sentence each, place first."""

    def placed(self, sentence: str) -> str:
        """The sentence with the file and line before it, where it begins with a path of this document."""
        path = sentence.partition(":")[0]
        source = self.sources.get(path) or next(
            (s for name, s in self.sources.items() if name.startswith(path) and s.origin is Origin.FILE), None
        )
        if source is None or source.origin is not Origin.FILE:
            return sentence
        return f"{source.where}:{source.column}: {sentence}"


class _Draft:
    """What is gathered before there is a configuration."""

    def __init__(self) -> None:
        self.tree: dict[str, object] = {}
        self.process: dict[str, object] = {}
        self.sources: dict[str, Source] = {}
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.broken: set[str] = set()


def load(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    read: Callable[[str], bytes] = read_file,
    names: Callable[[str], Sequence[str]] = list_names,
    *,
    alone: bool = False,
) -> Loaded:
    """Loads the configuration: a flag wins over a variable, that over the file, and that over the default.

    Args:
        flags: Flag as it was written (`--mig-strategy`) -> text.
        environ: The environment.
        read: Content of a file.
        names: Names of the files of a folder.
        alone: Flags and variables alone; no file is looked for.

    Raises:
        ConfigError: With every problem that could be found, one line each.
    """
    options, draft = _Draft(), _Draft()
    _read_options(flags, environ, options)
    process = _structure(options.process, ProcessOptions)
    path: str | None = None
    try:
        if not alone:
            path = pick(process, _structure(options.tree.get("cluster"), Cluster), names)
        if path:
            _read_document(path, _content(path, read, options.sources.get("config-file")), draft)
    except ConfigError as error:
        raise ConfigError(*error.problems, *options.problems) from error
    _overlay(draft, options)
    config, sources = _judge(draft, environ)
    draft.sources |= sources
    if draft.problems:
        raise ConfigError(*_shorten(draft.problems))
    return Loaded(
        config=config,
        process=process,
        sources=MappingProxyType(_complete(config, draft.sources)),
        stamp=ConfigStamp(hash=digest(config), source=path or "defaults"),
        warnings=tuple(draft.warnings),
    )


def _read_options(flags: Mapping[str, str], environ: Mapping[str, str], draft: _Draft) -> None:
    for option in OPTIONS:
        found = _given(option, flags, environ)
        if found is None:
            continue
        text, source = found
        if option.idle:
            draft.warnings.append(f"{source.where} has no effect: {option.idle}")
            continue
        key = option.path or option.name
        try:
            value = values.convert(text, option)
        except ValueError as error:
            draft.problems.append(f"{source.where}: {error}")
            draft.broken.add(key)
            continue
        draft.sources[key] = source
        if option.path:
            _set(draft.tree, option.path, value)
        else:
            draft.process[option.name.replace("-", "_")] = value


def _given(option: Option, flags: Mapping[str, str], environ: Mapping[str, str]) -> tuple[str, Source] | None:
    for names, holder, origin in ((option.flags, flags, Origin.FLAG), (option.variables, environ, Origin.VARIABLE)):
        for name in names:
            if name in holder and (holder[name].strip() or option.blank):
                return holder[name], Source(origin, name)
    return None


def _content(path: str, read: Callable[[str], bytes], source: Source | None) -> bytes:
    try:
        return read(path)
    except OSError as error:
        named = f" ({source.where})" if source else ""
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{path}{named}: {reason}; mount the configuration file there, or name another") from error


def _read_document(path: str, data: bytes, draft: _Draft) -> None:
    from deviceplugin.config.decode import decode
    from deviceplugin.config.parse import UnreadableError, parse

    try:
        found = decode(parse(data), len(data))
    except UnreadableError as error:
        raise ConfigError(f"{path}{error.place}: {error.message}") from error
    draft.tree, draft.broken = found.values, found.broken
    draft.sources = {
        key: Source(Origin.FILE, f"{path}:{place.line}", place.column) for key, place in found.places.items()
    }
    for lines, notes in ((draft.problems, found.problems), (draft.warnings, found.warnings)):
        for place, key, sentence in sorted(notes, key=lambda note: (note[0].line, note[0].column)):
            lines.append(f"{path}:{place.line}:{place.column}: {key + ': ' if key else ''}{sentence}")


def _overlay(draft: _Draft, options: _Draft) -> None:
    """Puts flags and variables over the file."""
    for key, source in options.sources.items():
        draft.sources[key] = source
        if "." in key:
            _set(draft.tree, key, _get(options.tree, key))
    draft.problems += options.problems
    draft.warnings += options.warnings
    draft.broken |= options.broken


def _structure(tree: object, kind: type[_Section]) -> _Section:
    """The struct of a tree of values that are known to be right; msgspec's tables are built only if there is one."""
    return convert(tree, kind) if tree else kind()


def _set(tree: dict[str, object], path: str, value: object) -> None:
    *sections, last = path.split(".")
    for section in sections:
        inner = tree.setdefault(section, {})
        assert isinstance(inner, dict)  # noqa: S101 - the decoder and this function put nothing else there
        tree = inner
    tree[last] = value


def _get(tree: object, path: str) -> object:
    for key in path.split("."):
        tree = tree[key] if isinstance(tree, dict) else None
    return tree


def _judge(draft: _Draft, environ: Mapping[str, str]) -> tuple[Config, Mapping[str, Source]]:
    """The configuration of what is sound; problems and warnings of its combinations go to the draft."""
    from deviceplugin.config.check import check

    config = normalise(_structure(draft.tree, Config))
    health = without_repeats(config.health, draft.sources)
    folded = fold(health, environ, draft.sources)
    config = structs.replace(config, health=folded.section)
    draft.warnings += folded.warnings
    sources = {**draft.sources, **folded.sources}
    for finding in check(config):
        if any(_overlaps(path, broken) for path in finding.about for broken in draft.broken):
            continue
        line = f"{source_of(finding.about[0], sources).place(finding.about[0])}: {finding.text}"
        (draft.warnings if finding.warning else draft.problems).append(line)
    return config, folded.sources


def _overlaps(path: str, broken: str) -> bool:
    return (
        not broken
        or path == broken
        or path.startswith((f"{broken}.", f"{broken}["))
        or broken.startswith((f"{path}.", f"{path}["))
    )


def _shorten(problems: list[str]) -> list[str]:
    left = len(problems) - _MOST_PROBLEMS
    return problems if left <= 0 else [*problems[:_MOST_PROBLEMS], f"and {left} more problems like these"]


def _complete(config: Config, sources: Mapping[str, Source]) -> dict[str, Source]:
    """A source for every value: its own, or the default."""
    default = Source()
    every = {path: sources.get(path, default) for path, _ in flatten(config)}
    process = {o.name: sources.get(o.name, default) for o in OPTIONS if not o.path and not o.idle}
    return every | process
