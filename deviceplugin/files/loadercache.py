"""The dynamic loader's cache, `/etc/ld.so.cache`: where a system keeps the library of a given SONAME.

Source: glibc, `sysdeps/generic/dl-cache.h`: a file of format 1.1, which may stand behind one of the older format.
"""

from __future__ import annotations

import struct

_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = 48
_ENTRY = struct.Struct("<iIIIQ")
_COUNT = struct.Struct("<I")
_ARCHITECTURES = frozenset({0x0300, 0x0500, 0x0A00})
"""64-bit x86, POWER and ARM; the other byte of the flags says that it is a library for glibc."""
_MOST = 100_000


def paths_of(cache: bytes, *sonames: str) -> tuple[str, ...]:
    """Paths of the 64-bit libraries with these SONAMEs, in the cache's order; empty where it cannot be understood."""
    start = cache.find(_MAGIC)
    if start < 0:
        return ()
    table = cache[start:]
    wanted = {name.encode() for name in sonames}
    found: list[str] = []
    try:
        (count,) = _COUNT.unpack_from(table, len(_MAGIC))
        for number in range(min(count, _MOST)):
            flags, key, value, _, _ = _ENTRY.unpack_from(table, _HEADER + number * _ENTRY.size)
            if flags & 0xFF00 in _ARCHITECTURES and _text(table, key) in wanted:
                found.append(_text(table, value).decode(errors="surrogateescape"))
    except struct.error:
        return tuple(found)
    return tuple(path for path in dict.fromkeys(found) if path.startswith("/"))


def _text(table: bytes, offset: int) -> bytes:
    end = table.find(b"\0", offset)
    return table[offset:end] if end >= 0 else b""
