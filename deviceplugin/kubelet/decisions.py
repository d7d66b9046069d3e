"""The decisions that the kubelet's door asks for and does not make itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from deviceplugin.model.grant import Grant
from deviceplugin.model.inventory import Resource
from deviceplugin.model.snapshot import Snapshot


class Preference(Protocol):
    """What this service reads of a preferred allocation."""

    @property
    def ids(self) -> Sequence[str]:
        """The ids to give."""

    @property
    def domains(self) -> int:
        """NVLink domains that they come from."""

    @property
    def exact(self) -> bool:
        """Whether it is proved to be the best, not only the best found."""

    @property
    def decided_by(self) -> str:
        """The criterion that told it from the runner-up."""

    @property
    def unknown(self) -> int:
        """How many available ids were skipped, since the resource does not have them."""


class Rules(Struct, frozen=True):
    """The two decisions behind the service; both raise `RequestError` for a request that cannot be answered."""

    allocate: Callable[[Snapshot, Resource, Sequence[str], Callable[[str], bool], Callable[[], str]], Grant]
    """Snapshot, resource, ids, whether a path exists, a unique suffix -> what the container gets."""
    prefer: Callable[[Snapshot, Resource, Sequence[str], Sequence[str], int], Preference]
    """Snapshot, resource, available ids, ids that must be included, size -> the ids to give."""
