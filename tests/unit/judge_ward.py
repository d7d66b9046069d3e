"""A node under judgement, for the tests of `rules.judge`."""

from msgspec.structs import replace
from msgspec.structs import replace as changed

from deviceplugin.config.document import HealthSection
from deviceplugin.model.evidence import (
    Evidence,
    PolicyChanged,
    ScanSeen,
)
from deviceplugin.model.health import Health, Transition
from deviceplugin.model.node import Gpu, Problem
from deviceplugin.model.vitals import Event, EventKind, Reading
from deviceplugin.rules.judge import health, judge, start
from tests.strategies.nodes import card, cut_card, node

A, B = card(0).uuid, card(1).uuid
POLICY = HealthSection()
WHOLE = 0xFFFFFFFF


def good(uuid: str = A) -> Reading:
    """A modern card that says that all is well."""
    return Reading(
        uuid, 0, alive=True, remap_supported=True, remap_pending=False, remap_failure=False, recovery_action=0
    )


def old(uuid: str = A) -> Reading:
    """A card without row remapping that says that all is well."""
    return Reading(uuid, 0, alive=True, remap_supported=False, retired_pending=False, volatile_uncorrectable=0)


class Ward:
    """A node under judgement."""

    def __init__(self, *gpus: Gpu, policy: HealthSection = POLICY, now: float = 1000.0) -> None:
        self.node = node(*(gpus or (card(0), card(1))))
        self.policy = policy
        self.now = now
        self.state = start(self.node, policy, (), "boot-1", now)
        self.notes: list[str] = []
        self.reread: tuple[str, ...] = ()

    def hear(self, evidence: Evidence, after: float = 0.0) -> tuple[Transition, ...]:
        self.now += after
        judged = judge(self.state, evidence, self.policy, self.now)
        self.state, self.notes, self.reread = judged.state, list(judged.notes), judged.reread
        return judged.transitions

    def xid(self, number: int, gpu: str = A, gi: int | None = None, ci: int | None = None) -> tuple[Transition, ...]:
        return self.hear(Event(gpu, EventKind.XID, number, gi, ci, self.now))

    def scan(self, *gpus: Gpu, problems: tuple[Problem, ...] = (), after: float = 0.0) -> tuple[Transition, ...]:
        return self.hear(ScanSeen(replace(node(*gpus), problems=problems)), after)

    def configure(self, **changes: object) -> tuple[Transition, ...]:
        self.policy = changed(self.policy, **changes)
        return self.hear(PolicyChanged())

    @property
    def health(self) -> Health:
        return health(self.state)

    @property
    def sick(self) -> dict[str, tuple[str, ...]]:
        return {uuid: tuple(one.reason for one in found) for uuid, found in self.health.sick.items()}

    @property
    def last(self) -> dict[str, tuple[str, ...]]:
        return {uuid: tuple(one.reason for one in found) for uuid, found in self.health.last.items()}


def mig_ward() -> Ward:
    """A card cut in three, and a whole one."""
    return Ward(cut_card(0, "1g.10gb", "1g.10gb", "2g.20gb"), card(1))


def slot(number: int) -> str:
    """UUID of an instance of the cut card."""
    return cut_card(0, "1g.10gb", "1g.10gb", "2g.20gb").instances[number].uuid
