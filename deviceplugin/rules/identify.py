"""Names and ids that other software depends on: resources, shares, what a user may call a device."""

from __future__ import annotations

import re
from functools import lru_cache

from deviceplugin.config.names import DOMAIN

WHOLE_CARD = f"{DOMAIN}gpu"
REPLICA_MARK = "::"

_PCI = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)


def share_id(uuid: str, replica: int | None = None) -> str:
    """Id of a share in the device list: the hardware's UUID, `<uuid>::<n>` for a replica."""
    return uuid if replica is None else f"{uuid}{REPLICA_MARK}{replica}"


def split_id(identifier: str) -> tuple[str, int | None]:
    """UUID and replica number of a share's id; the number is None where the id names no replica."""
    uuid, mark, number = identifier.rpartition(REPLICA_MARK)
    if mark and number.isascii() and number.isdecimal():
        return uuid, int(number)
    return identifier, None


def mig_resource(profile: str) -> str:
    """Resource of a MIG profile under the mixed strategy: every `+` becomes `.`, a `-` stays."""
    return f"{DOMAIN}mig-{profile.replace('+', '.')}"


@lru_cache(maxsize=1024)
def pci_forms(pci: str) -> tuple[str, ...]:
    """The ways to write one PCI bus id, in lower case: NVML's, the kernel's, and without domain where that is 0.

    A text that is no bus id has no forms.
    """
    match = _PCI.fullmatch(pci)
    if match is None:
        return ()
    domain = int(match[1] or "0", 16)
    rest = f"{match[2]}:{match[3]}.{match[4]}".lower()
    forms = (f"{domain:08x}:{rest}", f"{domain:04x}:{rest}")
    return (*forms, rest) if domain == 0 else forms


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)


def matches(pattern: str, text: str) -> bool:
    """Whether the whole of `text` fits `pattern`, in which only `*` is special."""
    return _compiled(pattern).fullmatch(text) is not None


def matches_pci(pattern: str, pci: str) -> bool:
    """Whether `pattern` fits any way to write the bus id `pci`; letters may be in either case."""
    return any(matches(pattern.lower(), form) for form in pci_forms(pci))
