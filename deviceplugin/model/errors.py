"""Errors by whose fault they are; each is raised in the room that knows and handled in cli, daemon or service."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class PluginError(Exception):
    """Base of all errors that are somebody else's doing; anything else is our bug."""


class ConfigError(PluginError):
    """The configuration cannot be used. Each problem is one line: place, what is wrong, remedy."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class NvmlError(PluginError):
    """The driver could not be loaded or answered an error."""

    def __init__(self, message: str, *, code: int | None = None, call: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.call = call


class MpsError(PluginError):
    """An MPS control daemon could not be run, or does not answer."""


class KubeletError(PluginError):
    """The kubelet, its folder or its socket refused."""


class Refusal(StrEnum):
    """gRPC status names used in answers to the kubelet."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"


class RequestError(PluginError):
    """A request of the kubelet that cannot be answered."""

    def __init__(self, message: str, refusal: Refusal = Refusal.INVALID_ARGUMENT) -> None:
        super().__init__(message)
        self.refusal = refusal


class NodeGoneError(RequestError):
    """The device node of a granted device is not there: what the last scan saw has changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Refusal.FAILED_PRECONDITION)


class Trouble(StrEnum):
    """What is wrong with a request to the Kubernetes API; the `result` of its metric."""

    ABSENT = "absent"
    SLOW = "slow"
    BUSY = "busy"
    FORBIDDEN = "forbidden"
    CONFLICT = "conflict"
    GONE = "gone"
    MISSING = "missing"
    REFUSED = "refused"
    GARBAGE = "garbage"


class ClusterError(PluginError):
    """The Kubernetes API refused, or did not answer."""

    def __init__(self, message: str, trouble: Trouble, held: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.trouble = trouble
        self.held = dict(held or {})
        """Fields that other managers hold, with the API's sentence about each."""
