"""How the C library hands out memory."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_ARENA_MAX = -8
"""M_ARENA_MAX of mallopt(3)."""


def keep_flat() -> None:
    """Has all threads share one arena: with one each, memory that one has freed is not there for the others.

    To be called before threads begin. Does nothing where the C library is not glibc.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
