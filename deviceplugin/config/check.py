"""Combinations of values that are refused or warned about."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from deviceplugin.config.document import Config


class Finding(Struct, frozen=True):
    """What is wrong or odd. `about`: the paths it hangs on, the first is where the message points."""

    about: tuple[str, ...]
    text: str
    warning: bool = False


def check(config: Config) -> Iterator[Finding]:
    """Everything about the document that needs no node to be known."""
    if config.version != "v1":
        yield Finding(("version",), "only v1 is known; write version: v1")
