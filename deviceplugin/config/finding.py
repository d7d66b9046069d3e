"""What a check has to say."""

from __future__ import annotations

from msgspec import Struct


class Finding(Struct, frozen=True):
    """What is wrong, or odd. `about`: the paths it hangs on; the message points at the first."""

    about: tuple[str, ...]
    text: str
    warning: bool = False


def problem(text: str, *about: str) -> Finding:
    """Something that must be mended before the configuration can be used."""
    return Finding(about, text)


def warning(text: str, *about: str) -> Finding:
    """Something that works, and is probably not what was meant."""
    return Finding(about, text, warning=True)
