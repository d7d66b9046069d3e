"""What the daemon knows, and how anything that happens becomes the next snapshot. No clock, no thread, no door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from deviceplugin.config.document import HealthSection
from deviceplugin.config.load import Loaded
from deviceplugin.model.errors import ConfigError
from deviceplugin.model.evidence import Evidence, Forgotten, PolicyChanged, ScanSeen
from deviceplugin.model.health import Sickness, Transition
from deviceplugin.model.inventory import Handover, Inventory, LeftOut
from deviceplugin.model.mps import MpsStanding
from deviceplugin.model.node import DriverState, Node
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.confirm import confirm
from deviceplugin.rules.judge import JudgeState, health, judge, remember, standing, start
from deviceplugin.rules.judge.address import devices as named
from deviceplugin.rules.offer import offer, withhold
from deviceplugin.rules.offer.handover import compile_handover
from deviceplugin.rules.retain import devices, retain


class News(Struct, frozen=True):
    """What one happening brought about besides the snapshot."""

    transitions: tuple[Transition, ...] = ()
    notes: tuple[str, ...] = ()
    reread: tuple[str, ...] = ()
    """Cards whose health states should be read now."""


class World:
    """Node, configuration and health of now; each method takes in one happening and says what came of it."""

    def __init__(self, loaded: Loaded, host_root: str, boot_id: str, remembered: Sequence[Sickness]) -> None:
        self.loaded = loaded
        self.node = Node()
        self.inventory = Inventory()
        self.host_root = host_root
        self._boot_id = boot_id
        self._remembered = tuple(remembered)
        self._judge: JudgeState | None = None
        self._gone: dict[str, float] = {}
        self._flaws: tuple[LeftOut, ...] = ()
        self.standings: Mapping[str, MpsStanding] = {}
        """By resource: how its MPS control daemon was found."""

    @property
    def snapshot(self) -> Snapshot:
        """The world as one value; the board gives it its version."""
        return Snapshot(
            node=self.node,
            inventory=self.inventory,
            health=confirm(health(self._state), self.inventory, self.standings),
            config=self.loaded.stamp,
        )

    @property
    def remembered(self) -> tuple[Sickness, ...]:
        """What a later process should know."""
        return remember(self._state) if self._judge else self._remembered

    def scanned(self, node: Node, now: float, flaws: tuple[LeftOut, ...] = ()) -> News:
        """Takes in a scan. A scan that could not be made leaves the offer as it is: not knowing changes nothing.

        Args:
            node: The scan.
            now: Unix time in seconds.
            flaws: Devices that are not to be offered for reasons that are not in the scan.
        """
        forgotten = self._count_gone(node, now)
        news = []
        if self._judge is None:
            self._judge = start(node, self._policy, self._remembered, self._boot_id, now)
            news.append(News(standing(self._judge, now)))
        if forgotten or (node, flaws) != (self.node, self._flaws):
            self.node, self._flaws = node, flaws
            self._offer()
        news.append(self.witnessed(ScanSeen(node), now))
        news += [self.witnessed(Forgotten(uuid), now) for uuid in forgotten]
        return _joined(news)

    def compiled(self, loaded: Loaded) -> Inventory:
        """What this node would offer under another configuration.

        Raises:
            ConfigError: It does not fit this node.
        """
        inventory = offer(self.node, loaded.config, self.host_root)
        if inventory.conflicts:
            raise ConfigError(*map(loaded.placed, inventory.conflicts))
        return inventory

    def configured(self, loaded: Loaded, now: float, flaws: tuple[LeftOut, ...] = ()) -> News:
        """Takes over another configuration.

        Raises:
            ConfigError: It does not fit this node; everything stays as it was.
        """
        inventory = self.compiled(loaded)
        self.loaded, self._flaws = loaded, flaws
        self.inventory = retain(self.inventory, withhold(inventory, flaws), self._gone)
        return self.witnessed(PolicyChanged(), now)

    def witnessed(self, evidence: Evidence, now: float) -> News:
        """Takes in evidence of health."""
        judged = judge(self._state, evidence, self._policy, now)
        self._judge = judged.state
        return News(judged.transitions, judged.notes, judged.reread)

    @property
    def handover(self) -> Handover:
        """How devices reach containers, also before anything is offered."""
        return compile_handover(self.loaded.config, self.host_root)

    def cards_called(self, word: str) -> frozenset[str]:
        """UUIDs of the cards that a UUID, index or PCI id means."""
        return frozenset(card.uuid for _, card in named(word, self._state.cards.values()))

    @property
    def released_for(self) -> frozenset[str]:
        """Cards that a cordon with `release: true` names: what the driver is let go for."""
        words = [str(cordon.device) for cordon in self._policy.cordon if cordon.release]
        return frozenset[str]().union(*map(self.cards_called, words))

    @property
    def _policy(self) -> HealthSection:
        return self.loaded.config.health

    @property
    def _state(self) -> JudgeState:
        return self._judge or JudgeState(policy=self._policy)

    def _offer(self) -> None:
        offered = offer(self.node, self.loaded.config, self.host_root)
        self.inventory = retain(self.inventory, withhold(offered, self._flaws), self._gone)

    def _count_gone(self, node: Node, now: float) -> list[str]:
        """Notes what vanished and what is back; the devices whose grace time is over are forgotten and returned."""
        if node.state is not DriverState.READY:
            return []
        before, present = devices(self.node), devices(node)
        for uuid in before - present:
            self._gone.setdefault(uuid, now)
        for uuid in present & self._gone.keys():
            del self._gone[uuid]
        grace = self.loaded.config.daemon.vanished_grace
        over = [uuid for uuid, since in self._gone.items() if now - since >= grace]
        for uuid in over:
            del self._gone[uuid]
        return over


def _joined(news: Sequence[News]) -> News:
    return News(
        tuple(one for item in news for one in item.transitions),
        tuple(one for item in news for one in item.notes),
        tuple(one for item in news for one in item.reread),
    )
