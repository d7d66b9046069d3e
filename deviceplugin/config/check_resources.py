"""Checks of `resources`: patterns and the names they give."""

from __future__ import annotations

from collections.abc import Iterator

from deviceplugin.config.amounts import parse_bound
from deviceplugin.config.document import Config, MigStrategy, Pattern
from deviceplugin.config.finding import Finding, problem, warning
from deviceplugin.config.names import resource_fault
from deviceplugin.config.wording import quote

_REGULAR = (".*", "^", "$", "|", "\\")
"""Signs of a regular expression; the first of them is at home in MIG profiles, `1g.*`."""


def check_patterns(config: Config) -> Iterator[Finding]:
    """Findings about resources.gpus and resources.mig."""
    for block, patterns in (("gpus", config.resources.gpus), ("mig", config.resources.mig)):
        everything: int | None = None
        for number, pattern in enumerate(patterns):
            path = f"resources.{block}[{number}]"
            yield from _pattern(pattern, path, _REGULAR if block == "gpus" else _REGULAR[1:])
            if everything is not None:
                yield warning(
                    f"is never reached: resources.{block}[{everything}] matches all; put it before that", path
                )
            elif pattern.pattern == "*" and pattern.pci is None and pattern.memory is None:
                everything = number
    if config.resources.mig and config.flags.mig_strategy is MigStrategy.NONE:
        yield warning("has no effect under migStrategy none; write single or mixed", "resources.mig")


def _pattern(pattern: Pattern, path: str, regular: tuple[str, ...]) -> Iterator[Finding]:
    for name in ("pattern", "pci"):
        text = getattr(pattern, name)
        if text is not None and not text.strip():
            yield problem('is empty and matches nothing; write "*" for everything', f"{path}.{name}")
        if text and any(sign in text for sign in regular):
            yield warning(f"only * is special in {quote(text)}; it is no regular expression", f"{path}.{name}")
    if pattern.pattern.lstrip().startswith(("<", ">")):
        wanted = f'{{pattern: "*", memory: {quote(pattern.pattern.strip())}}}'
        yield problem(f"is compared with product names; for an amount of memory write {wanted}", f"{path}.pattern")
    if pattern.name and (fault := resource_fault(pattern.name)):
        yield problem(fault, f"{path}.name")
    if pattern.memory is not None:
        try:
            parse_bound(pattern.memory)
        except ValueError as error:
            yield problem(str(error), f"{path}.memory")
