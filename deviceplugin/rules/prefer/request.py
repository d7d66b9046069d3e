"""A request of the kubelet against a resource: checked, with the shares that may be given."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from msgspec import Struct

from deviceplugin.model.errors import RequestError
from deviceplugin.model.health import Health
from deviceplugin.model.inventory import Resource


class Request(Struct, frozen=True):
    """What was asked for; ids are known to the resource and occur once."""

    size: int
    available: tuple[str, ...]
    """As the kubelet sees it, must-includes among them: what is not here is taken."""
    usable: tuple[str, ...]
    """What may be chosen: Unhealthy ids only where the size cannot be met otherwise."""
    must: tuple[str, ...]
    """What must be chosen: must-includes, and all healthy ids where Unhealthy ones are needed besides."""
    alternatives: int
    """How many sets of that size hold the must-includes."""
    unknown: int
    """Available ids that the resource does not have."""


def check(
    resource: Resource, health: Health, available: Sequence[str], must_include: Sequence[str], size: int
) -> Request:
    """Checks a request and leaves out what it should not have named.

    Raises:
        RequestError: INVALID_ARGUMENT, with the numbers, for a size below 1, above what is available, or below the
            number of must-includes, and for a must-include that the resource does not have.
    """
    shares = resource.by_id
    must = tuple(dict.fromkeys(must_include))
    if strangers := [name for name in must if name not in shares]:
        raise RequestError(
            f"{resource.name}: {len(strangers)} of {len(must)} must-include ids are not devices of this resource "
            f"(the first: {strangers[0]!r}); it may have changed since the kubelet's last list"
        )
    named = dict.fromkeys(available)
    known = dict.fromkeys((*must, *(name for name in named if name in shares)))
    if size < 1:
        raise RequestError(f"{resource.name}: {size} devices asked for; the size must be 1 or more")
    if len(must) > size:
        raise RequestError(f"{resource.name}: {len(must)} must-include ids for a size of {size}")
    if size > len(known):
        raise RequestError(
            f"{resource.name}: {size} devices asked for, {len(known)} available (of {len(shares)} in this resource)"
        )
    usable, forced = _fit(resource, health, tuple(known), must, size)
    alternatives = comb(len(known) - len(must), size - len(must))
    return Request(size, tuple(known), usable, forced, alternatives, sum(name not in shares for name in named))


def _fit(
    resource: Resource, health: Health, known: tuple[str, ...], must: tuple[str, ...], size: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not health.sick:
        return known, must
    shares, wanted = resource.by_id, frozenset(must)
    fit = tuple(i for i in known if i in wanted or not health.reasons(shares[i].device, shares[i].gpu))
    return (fit, must) if len(fit) >= size else (known, fit)
