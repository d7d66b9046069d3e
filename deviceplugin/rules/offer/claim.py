"""Which sharing entry claims which device: `sharing.*.resources[].devices`, each device once.

An entry, or a part of it, that finds nothing on this node is warned about and no more: one configuration serves nodes
of several kinds, and a card that is lost must not keep its neighbours from being offered at the next start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from deviceplugin.config.document import MigStrategy, Replicas, Replicated, SharingSection
from deviceplugin.config.names import DOMAIN, qualify, resource_fault, shared_name
from deviceplugin.model.inventory import Sharing
from deviceplugin.rules.offer.candidate import Candidate
from deviceplugin.rules.offer.name import Placed
from deviceplugin.rules.offer.select import names_device


class Block(Struct, frozen=True):
    """The sharing block that is given."""

    path: str
    sharing: Sharing
    replicated: Replicated

    @property
    def fail_above_one(self) -> bool:
        """Whether requests for more than one share fail: upstream's default is no for timeSlicing and yes for mps."""
        given = self.replicated.fail_requests_greater_than_one
        return self.sharing is Sharing.MPS if given is None else given

    def target(self, entry: Replicas) -> str:
        """The resource that the entry's shares go to."""
        by_default = self.replicated.rename_by_default
        return qualify(shared_name(qualify(entry.name), entry.rename, by_default=by_default))


class Claim(Struct, frozen=True):
    """One device in the hand of one entry."""

    path: str
    entry: Replicas


class Claims(Struct, frozen=True):
    """Claims by UUID, and what is wrong with the entries on this node."""

    by_uuid: Mapping[str, Claim]
    conflicts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def block_of(section: SharingSection) -> Block | None:
    """The one block that is given, None where nothing is shared."""
    if section.time_slicing is not None:
        return Block("sharing.timeSlicing", Sharing.TIME_SLICING, section.time_slicing)
    if section.mps is not None:
        return Block("sharing.mps", Sharing.MPS, section.mps)
    return None


def claim(placed: Sequence[Placed], block: Block, strategy: MigStrategy) -> Claims:
    """Deals the devices out to the entries: those named one by one first, then counts, then `all`.

    A count takes the lowest devices that no list names, so several counts of one resource add up.
    """
    books = _Books(placed, strategy)
    numbered = [(f"{block.path}.resources[{n}]", entry) for n, entry in enumerate(block.replicated.resources)]
    for path, entry in sorted(numbered, key=lambda item: _rank(item[1])):
        fault = resource_fault(block.target(entry))
        if fault is None:
            books.deal(path, entry)
        else:
            books.conflicts.append(f"{path}: {fault}")
    return Claims(MappingProxyType(books.claims), tuple(books.conflicts), tuple(books.warnings))


def _rank(entry: Replicas) -> int:
    if isinstance(entry.devices, tuple):
        return 0
    return 1 if isinstance(entry.devices, int) else 2


class _Books:
    """Who has claimed what so far."""

    def __init__(self, placed: Sequence[Placed], strategy: MigStrategy) -> None:
        self._pools: dict[str, list[Candidate]] = {}
        for device in placed:
            self._pools.setdefault(device.resource, []).append(device.candidate)
        self._strategy = strategy
        self.claims: dict[str, Claim] = {}
        self.conflicts: list[str] = []
        self.warnings: list[str] = []

    def deal(self, path: str, entry: Replicas) -> None:
        pool = self._pools.get(qualify(entry.name))
        if pool is None:
            self._nothing_named(path, entry)
            return
        chosen: Sequence[Candidate] = pool
        if isinstance(entry.devices, tuple):
            chosen = self._listed(path, entry.devices, pool)
        elif isinstance(entry.devices, int):
            chosen = self._counted(path, entry.devices, pool)
        for candidate in chosen:
            self._take(path, entry, candidate)

    def _nothing_named(self, path: str, entry: Replicas) -> None:
        name = qualify(entry.name)
        if not self._pools:
            return  # The node's state says why nothing is offered at all.
        problem = f"{path}.name: no device of this node is {name}; here are {', '.join(self._pools)}"
        later = self._strategy is MigStrategy.MIXED and name.startswith(f"{DOMAIN}mig-")
        self.warnings.append(
            f"{problem} (instances of that profile are shared once they are created)"
            if later
            else f"{problem}; the entry does nothing here"
        )

    def _listed(self, path: str, references: Sequence[str | int], pool: Sequence[Candidate]) -> list[Candidate]:
        chosen: list[Candidate] = []
        for reference in references:
            hits = [candidate for candidate in pool if names_device(reference, candidate)]
            if not hits:
                known = ", ".join(candidate.index for candidate in pool)
                self.warnings.append(
                    f"{path}.devices: {str(reference)!r} names no device of that resource now; "
                    f"give a UUID, or an index of {known}"
                )
            chosen += hits
        return chosen

    def _counted(self, path: str, count: int, pool: Sequence[Candidate]) -> Sequence[Candidate]:
        free = [candidate for candidate in pool if candidate.uuid not in self.claims]
        if count > len(free):
            self.warnings.append(
                f"{path}.devices: {count} devices are asked for, {len(free)} of {len(pool)} are left for this entry; "
                f"lower the count to {len(free)}, or write all"
            )
        return free[:count]

    def _take(self, path: str, entry: Replicas, candidate: Candidate) -> None:
        earlier = self.claims.get(candidate.uuid)
        if earlier is None:
            self.claims[candidate.uuid] = Claim(path, entry)
            return
        self.conflicts.append(
            f"{path}.devices: {candidate.label} is named twice, by {earlier.path} first; name it in one place only"
        )
