"""Whether two identities of boot and driver load are the same.

An identity is the boot, the load of the module, and the version of the driver, with slashes between them; what could
not be told is empty, and is the same as anything.
"""

from __future__ import annotations


def another_load(before: str, after: str) -> bool:
    """Whether the node was rebooted or the driver loaded anew between the two."""
    return any(a != b for a, b in zip(before.split("/"), after.split("/"), strict=False) if a and b)
