"""From devices and claims to resources: whole devices, and the replicas that sharing makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from msgspec import Struct

from deviceplugin.config.document import Config
from deviceplugin.model.inventory import Policy, Resource, Share, Sharing
from deviceplugin.rules.identify import share_id
from deviceplugin.rules.offer.candidate import Candidate
from deviceplugin.rules.offer.claim import Block, Claim, Claims, block_of, claim
from deviceplugin.rules.offer.fit import fit
from deviceplugin.rules.offer.mps import MpsDraft
from deviceplugin.rules.offer.name import Placed

MPS_CLIENTS = 48
"""Clients of one MPS server since Volta's successor (compute capability 7.5)."""
MPS_CLIENTS_BEFORE = 16
_MANY_CLIENTS_SINCE = (7, 5)


class Shared(Struct, frozen=True):
    """The resources of a node, and what is wrong with their sharing on it."""

    resources: Mapping[str, Resource]
    conflicts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Draft:
    """A resource while its shares are collected."""

    name: str
    policy: Policy
    shares: list[Share] = field(default_factory=list)
    profiles: set[str | None] = field(default_factory=set)
    sharing: Sharing = Sharing.NONE
    fail_above_one: bool = False
    policy_of_entry: bool = False
    origin: str = ""
    """Path of the entry that made the replicas."""
    mps: MpsDraft = field(default_factory=MpsDraft)

    def finish(self) -> Resource:
        profile = next(iter(self.profiles)) if len(self.profiles) == 1 else None
        return Resource(
            self.name, tuple(self.shares), self.sharing, self.policy, self.fail_above_one, profile, self.mps.finish()
        )


def share(placed: Sequence[Placed], config: Config) -> Shared:
    """Applies the sharing section; shares come in the order (GPU index, MIG slot, replica)."""
    block = block_of(config.sharing)
    claims = Claims(MappingProxyType({})) if block is None else claim(placed, block, config.flags.mig_strategy)
    default = config.flags.plugin.shared_devices_allocation_policy
    conflicts = [*claims.conflicts]
    drafts: dict[str, _Draft] = {}
    for device in placed:
        taken = claims.by_uuid.get(device.candidate.uuid)
        name = device.resource if taken is None or block is None else block.target(taken.entry)
        draft = drafts.get(name)
        if draft is None:
            draft = drafts[name] = _Draft(name, device.policy or default)
        draft.profiles.add(device.candidate.profile)
        if taken is None or block is None:
            draft.shares += _shares(device.candidate, None)
        else:
            replicas = taken.entry.replicas
            if block.sharing is Sharing.MPS:
                replicas = _by_mps(device.candidate, taken, draft.mps, conflicts)
            draft.shares += _shares(device.candidate, replicas)
            _mark(draft, taken, block)
    resources: dict[str, Resource] = {}
    for name, draft in drafts.items():
        resources[name], problem = fit(draft.finish())
        if problem is not None:
            conflicts.append(f"{draft.origin}.replicas: {problem}" if draft.origin else problem)
    return Shared(MappingProxyType(resources), tuple(conflicts), claims.warnings)


def _mark(draft: _Draft, taken: Claim, block: Block) -> None:
    """Notes on the resource how its shares came about; the first entry with a policy decides that."""
    draft.sharing = block.sharing
    draft.origin = draft.origin or taken.path
    draft.fail_above_one = block.fail_above_one
    policy = taken.entry.allocation_policy
    if policy is not None and not draft.policy_of_entry:
        draft.policy = policy
        draft.policy_of_entry = True


def _by_mps(candidate: Candidate, taken: Claim, draft: MpsDraft, conflicts: list[str]) -> int:
    """How many clients a card takes; what MPS cannot do is a conflict."""
    wanted = taken.entry.replicas
    if candidate.gpu.mig_enabled:
        conflicts.append(
            f"{taken.path}: {candidate.label} is in MIG mode, and MPS shares whole cards only; switch MIG off "
            "(nvidia-smi -mig 0), leave it out by devices, or use timeSlicing"
        )
    capability = candidate.gpu.compute_capability
    clients = MPS_CLIENTS_BEFORE if capability is not None and capability < _MANY_CLIENTS_SINCE else MPS_CLIENTS
    if wanted > clients:
        conflicts.append(
            f"{taken.path}.replicas: {candidate.label} takes {clients} MPS clients, {wanted} are asked for; "
            f"set replicas to {clients} or fewer"
        )
    replicas = min(wanted, clients)
    fault = draft.add(candidate, taken.entry, replicas)
    if fault is not None:
        conflicts.append(f"{taken.path}.memoryLimit: {fault}")
    return replicas


def _shares(candidate: Candidate, replicas: int | None) -> list[Share]:
    gpu, instance, uuid, index = candidate.gpu, candidate.instance, candidate.uuid, candidate.index
    nodes = () if instance is None else (instance.gi_capability, instance.ci_capability)
    capabilities = tuple(node for node in nodes if node)
    numbers: Sequence[int | None] = (None,) if replicas is None else range(replicas)
    return [
        Share(share_id(uuid, n), uuid, gpu.uuid, gpu.index, index, n, gpu.numa, gpu.minor, capabilities)
        for n in numbers
    ]
