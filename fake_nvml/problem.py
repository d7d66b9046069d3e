"""What goes wrong when a pretend machine is asked for something it cannot do."""

from __future__ import annotations


class Refused(ValueError):  # noqa: N818  what a driver does
    """An operation that a real driver would refuse, or that makes no sense on this machine."""


class InUse(Refused):
    """Refused because a process holds the driver open; `force` does it all the same."""


class Malformed(ValueError):  # noqa: N818  the word for it
    """The text is no topology matrix; the message says where it stops being one."""

    def __init__(self, line: int, column: int, what: str, path: str = "") -> None:
        super().__init__(f"{path and path + ': '}line {line}, column {column}: {what}")
        self.line = line
        self.column = column
        self.what = what
