"""From what a user writes (`hgx-h100-8`, `box.topo?model=NVIDIA L40S`) to a machine, by the journal's first line."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fake_nvml.machine import Machine, UnknownMachine, catalogued
from fake_nvml.problem import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIONS = ("model", "remote", "driver")
_ENVELOPE = ("op", "t")  # of a journal line, beside the record


def record(spec: str | None) -> dict[str, str]:
    """What the journal must say about a machine so that any process can build it again, the file gone or not.

    Raises:
        UnknownMachine: the name or an option is unknown, or the file cannot be read.
    """
    if spec is None:
        raise UnknownMachine("no machine is running under this root; open it with a machine first")
    name, _, query = spec.partition("?")
    options = dict(_option(part) for part in query.split("&") if part)
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise UnknownMachine(f"{spec}: unknown option {unknown[0]!r}; known: {', '.join(OPTIONS)}")
    found: dict[str, str] = {"spec": spec, "name": name, **options}
    if name.endswith(".topo") or "/" in name:
        try:
            found["topo"] = Path(name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UnknownMachine(f"{name}: {getattr(error, 'strerror', None) or 'not a text file'}") from error
        found["name"] = Path(name).stem
    try:
        machine(found)
    except Malformed as error:
        raise Malformed(error.line, error.column, error.what, name) from None
    return found


def _option(part: str) -> tuple[str, str]:
    from urllib.parse import unquote_plus

    key, _, value = part.partition("=")
    return key, unquote_plus(value)


def check(spec: str | None, first: Mapping[str, Any], root: Path) -> None:
    """Make sure a root is not taken for another machine than the one that runs there.

    Raises:
        UnknownMachine: it holds another one.
    """
    if spec is not None and record(spec) != {key: first[key] for key in first if key not in _ENVELOPE}:
        raise UnknownMachine(f"{root} already holds machine {first['spec']!r}, not {spec!r}; use another root")


def machine(first: Mapping[str, str]) -> Machine:
    """The machine of a journal's first line."""
    return _machine(tuple(sorted((key, value) for key, value in first.items() if key not in _ENVELOPE)))


@cache
def _machine(items: tuple[tuple[str, str], ...]) -> Machine:
    first = dict(items)
    if "topo" in first:
        from fake_nvml.importer import machine as imported

        found = imported(
            first["topo"], name=first["name"], model=first.get("model"), remote=first.get("remote", "visible")
        )
    else:
        if "model" in first or "remote" in first:
            raise UnknownMachine(f"{first['spec']}: model and remote are options of .topo files")
        found = catalogued(first["name"])
    return dataclasses.replace(found, driver=first.get("driver", found.driver))
