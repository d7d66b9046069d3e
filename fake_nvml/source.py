"""From what a user writes (`hgx-h100-8`, `box.topo?model=NVIDIA L40S`) to a machine, by the journal's first line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from fake_nvml.machine import Machine, UnknownMachine, catalogued
from fake_nvml.topotext import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIONS = ("model", "remote", "driver")


def record(spec: str | None) -> dict[str, Any]:
    """What the journal must say about a machine so that any process can build it again, the file gone or not.

    Raises:
        UnknownMachine: the name or an option is unknown, or the file cannot be read.
    """
    if spec is None:
        raise UnknownMachine("no machine is running under this root; open it with a machine first")
    name, _, query = spec.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise UnknownMachine(f"{spec}: unknown option {unknown[0]!r}; known: {', '.join(OPTIONS)}")
    found: dict[str, Any] = {"spec": spec, "name": name, **options}
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


def check(spec: str | None, first: Mapping[str, Any], root: Path) -> None:
    """Make sure a root is not taken for another machine than the one that runs there.

    Raises:
        UnknownMachine: it holds another one.
    """
    if spec is not None and record(spec) != {key: first[key] for key in first if key not in ("op", "t")}:
        raise UnknownMachine(f"{root} already holds machine {first['spec']!r}, not {spec!r}; use another root")


def machine(first: Mapping[str, Any]) -> Machine:
    """The machine of a journal's first line."""
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
