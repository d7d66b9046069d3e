"""How the C library hands out memory."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_SETTINGS = ((-8, 1), (-3, 128 * 1024), (-1, 128 * 1024))
"""M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of mallopt(3); the last two at the values they begin with."""


def keep_flat() -> None:
    """Has all threads share one arena, and large blocks go back to the system however often they come.

    With an arena each, memory that one thread has freed is not there for the others; and left alone, the library
    learns to keep large blocks, so that one of them at the top of the heap stays for ever.

    To be called before threads begin. Does nothing where the C library is not glibc.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        for setting, value in _SETTINGS:
            mallopt(setting, value)
