"""Amounts of memory: `80Gi`, and bounds on them: `>=80Gi`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from msgspec import Struct

from deviceplugin.config.wording import quote

_UNITS: dict[str, int] = {"": 1} | {
    unit: base**power
    for power, (binary, decimal) in enumerate((("Ki", "k"), ("Mi", "M"), ("Gi", "G"), ("Ti", "T")), start=1)
    for unit, base in ((binary, 1024), (decimal, 1000))
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(Ki|Mi|Gi|Ti|k|M|G|T|)")
_BOUND = re.compile(r"(>=|<=|==|=|>|<)\s*(.+)")
_TESTS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "==": operator.eq,
}


class MemoryBound(Struct, frozen=True):
    """One side of a comparison: `sign` and an amount in bytes."""

    sign: str
    amount: int

    def admits(self, memory: int | None) -> bool:
        """Whether this many bytes satisfy the bound; memory that is not known satisfies none."""
        return memory is not None and _TESTS[self.sign](memory, self.amount)


def parse_amount(text: str) -> int:
    """Bytes from a Kubernetes quantity: `8Gi`, `500M`, `1073741824`.

    Raises:
        ValueError: It is none.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if not match:
        raise ValueError(f"must be an amount such as 8Gi or 500M (units Ki Mi Gi Ti k M G T), is {quote(text)}")
    return round(float(match[1]) * _UNITS[match[2]])


def parse_bound(text: str) -> MemoryBound:
    """The bound that `resources.gpus[].memory` writes: `>=80Gi`, `<24Gi`.

    Raises:
        ValueError: It is none.
    """
    match = _BOUND.fullmatch(text.strip())
    if not match:
        raise ValueError(f'must be a comparison such as ">=80Gi" or "<24Gi", is {quote(text)}')
    return MemoryBound(match[1], parse_amount(match[2]))
