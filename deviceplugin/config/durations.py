"""Durations as Go writes them, in seconds here."""

from __future__ import annotations

import re

from deviceplugin.config.wording import quote

_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
# Patterns are compiled when first used: start-up pays for what it reads.
_PART = r"(\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)"
_WHOLE = rf"[+-]?(?:{_PART})+"
_COUNT = r"[+-]?\d+"
_SHORTEST = 10**6
_LONGEST = 2**63 - 1


def parse_duration(text: str) -> float:
    """Seconds from `1m30s` (Go's time.ParseDuration) or from a number of nanoseconds (its JSON form).

    Raises:
        ValueError: Neither of the two, negative, or a positive time below a millisecond (a number of seconds without
            its unit reads as so many nanoseconds).
    """
    nanoseconds = _nanoseconds(text.strip())
    if nanoseconds < 0:
        raise ValueError(f"must not be negative, is {text}")
    if nanoseconds > _LONGEST:
        raise ValueError(f"is longer than 292 years: {quote(text)}")
    if 0 < nanoseconds < _SHORTEST:
        if re.fullmatch(_COUNT, text.strip()):
            raise ValueError(f"{text} without a unit is {text} nanoseconds; write {text}s for seconds")
        raise ValueError(f"{text} is shorter than a millisecond; write 1ms or more")
    return nanoseconds / 10**9


def _nanoseconds(text: str) -> int:
    if re.fullmatch(_COUNT, text):
        return int(text)
    if not re.fullmatch(_WHOLE, text):
        raise ValueError(f"must be a duration such as 30s or 1m30s, is {quote(text)}")
    try:
        size = sum(round(float(number) * _NANOSECONDS[unit]) for number, unit in re.findall(_PART, text))
    except OverflowError:
        size = _LONGEST + 1
    return -size if text.startswith("-") else size


def format_duration(seconds: float) -> str:
    """The shortest Go spelling: `1m30s`, `250ms`, `0s`; hours and minutes only where they are whole."""
    nanoseconds = round(seconds * 10**9)
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < _NANOSECONDS["s"]:
        unit = next(unit for unit in ("ms", "us", "ns") if nanoseconds % _NANOSECONDS[unit] == 0)
        return f"{nanoseconds // _NANOSECONDS[unit]}{unit}"
    whole, rest = divmod(nanoseconds, _NANOSECONDS["s"])
    hours, minutes = divmod(whole // 60, 60)
    tail = f"{rest:09d}".rstrip("0")
    last = f"{whole % 60}.{tail}s" if tail else f"{whole % 60}s" if whole % 60 else ""
    return "".join((f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", last))
