"""What judging remembers: the cards, their ailments, how often they flapped, and which sources answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from deviceplugin.config.document import HealthSection
from deviceplugin.model.evidence import Injection
from deviceplugin.model.health import Kind, Transition, Verdict
from deviceplugin.model.node import MigInstance
from deviceplugin.rules.judge.table import Phase

Key = tuple[str, str]
"""UUID of the device concerned, and reason."""


class Card(Struct, frozen=True):
    """A physical GPU as far as judging needs it. It is kept while the GPU is away."""

    uuid: str
    pci: str = ""
    index: int = -1
    instances: tuple[MigInstance, ...] = ()
    present: bool = True
    gone: bool = False
    """Lost or vanished since it last answered a whole scan: when it is back, it was reset."""
    remaps: bool | None = None
    """Whether it remaps rows."""
    asked_reset: bool = False
    """Its last known recovery action was one that only a reset ends."""
    odd: frozenset[str] = frozenset()
    """Queries that fail although the card is well: they are no sign that it is still lost."""


class Ailment(Struct, frozen=True):
    """One thing that is wrong with one device. Whether and how it counts, the policy in force says."""

    target: str
    """UUID of the device."""
    gpu: str
    """UUID of its card."""
    reason: str
    since: float
    seen: float
    """When it last happened; the quiet period runs from here."""
    what: str
    """What was seen, a clause without a full stop."""
    phase: Phase = Phase.SICK
    xid: int | None = None
    kind: Kind = Kind.RESET_REQUIRED
    """For an Xid: its class of recovery when it last counted, which it keeps while the policy ignores it."""
    boot_id: str = ""
    named: str = ""
    """For what a person declared: the name of the device in the declaration."""
    rule: str = ""
    verdict: Verdict = Verdict.UNHEALTHY
    """For what a person declared."""

    @property
    def key(self) -> Key:
        """Identity: a device has an ailment once."""
        return self.target, self.reason


class Flaps(Struct, frozen=True):
    """How often a device came back and fell sick again."""

    count: int = 0
    returned: float | None = None
    """When it last came back."""


class Source(Struct, frozen=True):
    """A source of health."""

    rounds: int = 0
    """Failures in a row."""
    ours: bool = True
    """The last failure is this process's own (or the driver's as a whole), not that of some hardware."""
    worked: bool = False
    """It could be read at least once."""


class JudgeState(Struct, frozen=True):
    """Everything known of the health of a node; replaced whole by each judgement."""

    cards: Mapping[str, Card] = field(default_factory=lambda: MappingProxyType({}))
    ailments: Mapping[Key, Ailment] = field(default_factory=lambda: MappingProxyType({}))
    flaps: Mapping[str, Flaps] = field(default_factory=lambda: MappingProxyType({}))
    sources: Mapping[str, Source] = field(default_factory=lambda: MappingProxyType({}))
    injections: tuple[Injection, ...] = ()
    unmatched: frozenset[str] = frozenset()
    """Declarations that name no device of this node."""
    policy: HealthSection = field(default_factory=HealthSection)
    boot_id: str = ""
    driver_version: str | None = None


class Judged(Struct, frozen=True):
    """The outcome of one piece of evidence."""

    state: JudgeState
    transitions: tuple[Transition, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for the log about what concerns no single device, each said once when it becomes true."""
    reread: tuple[str, ...] = ()
    """Cards whose states should be read now: the evidence hints that they changed."""
