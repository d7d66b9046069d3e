"""What goes wrong when a pretend machine is asked for something it cannot do."""

from __future__ import annotations


class Refused(ValueError):  # noqa: N818  what a driver does
    """An operation that a real driver would refuse, or that makes no sense on this machine."""


class InUse(Refused):
    """Refused because a process holds the driver open; `force` does it all the same."""
