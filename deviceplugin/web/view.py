"""Everything that one scrape, one page or one status document is made from, taken at one moment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from deviceplugin.config.document import Metrics
from deviceplugin.ledger import Histogram, Ledger, Phase
from deviceplugin.model.health import Transition
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.model.vitals import Load
from deviceplugin.rules.attribute import Attribution


class Finding(Struct, frozen=True):
    """The answer to a question such as `live` or `ready`; the reasons say why not."""

    ok: bool = True
    reasons: tuple[str, ...] = ()


class Plugin(Struct, frozen=True):
    """What the daemon knows of itself and its surroundings beside snapshot and ledger."""

    version: str = ""
    started: float = 0.0
    """Unix time in seconds."""
    hostname: str = ""
    settings: Metrics = field(default_factory=Metrics)
    kubelet_socket: str = ""
    """Empty: serving without registering."""
    troubles: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By resource: why it is not streaming."""
    pods_seen: bool | None = None
    """Whether the pod resources API answered last; None while it was not asked."""
    warnings: tuple[str, ...] = ()
    """Of the configuration."""
    config_refused: str = ""
    """Why the newest configuration was not taken in; empty when it was."""
    xids: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """How each Xid counts under the policy in force; `other` stands for those in no list."""
    live: Finding = Finding()
    ready: Finding = Finding()
    tasks: int = 0
    """Of the event loop: a number that grows without end is a leak."""


class Books(Struct, frozen=True):
    """A copy of the ledger; see `Ledger` for the meaning."""

    counts: Mapping[tuple[str, tuple[str, ...]], float] = field(default_factory=lambda: MappingProxyType({}))
    histograms: Mapping[str, Histogram] = field(default_factory=lambda: MappingProxyType({}))
    phases: Mapping[str, Phase] = field(default_factory=lambda: MappingProxyType({}))
    streams: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    times: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    transitions: tuple[Transition, ...] = ()
    """The newest last."""


class View(Struct, frozen=True):
    """One consistent world, as seen from outside."""

    snapshot: Snapshot = field(default_factory=Snapshot)
    load: Load = field(default_factory=Load)
    books: Books = field(default_factory=Books)
    attribution: Attribution = field(default_factory=Attribution)
    plugin: Plugin = field(default_factory=Plugin)
    at: float = 0.0
    """Unix time in seconds at which it was taken."""


def gather(snapshot: Snapshot, load: Load, ledger: Ledger, attribution: Attribution, plugin: Plugin) -> View:
    """Takes a view: copies what goes on changing, keeps references to what does not."""
    books = Books(
        counts=ledger.counts,
        histograms=ledger.histograms,
        phases=ledger.phases,
        streams=ledger.streams,
        times=ledger.times,
        transitions=tuple(ledger.turns),
    )
    return View(snapshot, load, books, attribution, plugin, at=time.time())
