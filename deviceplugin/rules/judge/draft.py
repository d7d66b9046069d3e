"""The next state in the making: a copy that the handlers of evidence write into."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType

from msgspec.structs import replace

from deviceplugin.model.health import Kind, Verdict
from deviceplugin.rules.judge.damping import fell, hold
from deviceplugin.rules.judge.rulings import FAULTS, ruling
from deviceplugin.rules.judge.state import Ailment, Card, Flaps, JudgeState, Key
from deviceplugin.rules.judge.table import Phase, Signal, step
from deviceplugin.rules.judge.xids import Ruling


class Draft:
    """Lives for one judgement; `done` gives the state it has become."""

    def __init__(self, state: JudgeState, now: float) -> None:
        self.now = now
        self.policy = state.policy
        self.cards = dict(state.cards)
        self.ailments = dict(state.ailments)
        self.flaps = dict(state.flaps)
        self.sources = dict(state.sources)
        self.injections = state.injections
        self.unmatched = state.unmatched
        self.boot_id = state.boot_id
        self.driver_version = state.driver_version
        self.notes: list[str] = []
        self.reread: list[str] = []

    def done(self) -> JudgeState:
        """The finished state."""
        return JudgeState(
            cards=MappingProxyType(self.cards),
            ailments=MappingProxyType(self.ailments),
            flaps=MappingProxyType(self.flaps),
            sources=MappingProxyType(self.sources),
            injections=self.injections,
            unmatched=self.unmatched,
            policy=self.policy,
            boot_id=self.boot_id,
            driver_version=self.driver_version,
        )

    def card(self, uuid: str) -> Card:
        """The card, also one that no scan has shown yet."""
        return self.cards.get(uuid) or Card(uuid, present=False)

    def ruling(self, ailment: Ailment) -> Ruling:
        """What the ailment does under the policy in force."""
        return ruling(ailment, self.policy, self.card(ailment.gpu))

    def see(self, ailment: Ailment) -> None:
        """It happened: the ailment begins, or is seen once more. One that does not count never begins."""
        old = self.ailments.get(ailment.key)
        if old is not None:
            phase = step(self.ruling(old).kind, old.phase, Signal.SEEN)
            self.ailments[old.key] = replace(old, phase=phase, seen=max(old.seen, ailment.seen), what=ailment.what)
            return
        ruled = self.ruling(ailment)
        if ailment.xid is not None and ruled.verdict is Verdict.HEALTHY:
            return
        if self._counts(ruled) and not self._ill(ailment.target):
            before = self.flaps.get(ailment.target, Flaps())
            self.flaps[ailment.target] = fell(before, self.now, self.policy.quiet_period)
        self.take(ailment)

    def take(self, ailment: Ailment) -> None:
        """Keeps an ailment, with the class of recovery that it has under the policy in force."""
        self.ailments[ailment.key] = replace(ailment, kind=self.ruling(ailment).kind)

    def signal(self, signal: Signal, which: Callable[[Ailment], bool]) -> None:
        """Gives a signal to the ailments that `which` picks."""
        for ailment in [one for one in self.ailments.values() if which(one)]:
            self._to(ailment, step(self.ruling(ailment).kind, ailment.phase, signal))

    def tell(self, key: Key, signal: Signal) -> None:
        """Gives a signal to one ailment, if it is there."""
        if key in self.ailments:
            ailment = self.ailments[key]
            self._to(ailment, step(self.ruling(ailment).kind, ailment.phase, signal))

    def declare(self, reason: str, wanted: Iterable[Ailment]) -> None:
        """Makes the declared ailments of this reason those of `wanted`."""
        fresh = {ailment.key: ailment for ailment in wanted}
        self.signal(Signal.LIFTED, lambda one: one.reason == reason and one.key not in fresh)
        for key, ailment in fresh.items():
            old = self.ailments.get(key)
            self.ailments[key] = replace(ailment, since=old.since, seen=old.seen) if old else ailment

    def quiet(self, card: str | None = None) -> None:
        """Ends the ailments (of one card, or all) whose quiet period is over."""
        self.signal(Signal.QUIET, lambda one: (card is None or one.gpu == card) and self._quiet(one))

    def _quiet(self, ailment: Ailment) -> bool:
        flaps = self.flaps.get(ailment.target, Flaps())
        return self.now - ailment.seen >= hold(self.ruling(ailment), flaps, self.policy.quiet_period)

    def _to(self, ailment: Ailment, phase: Phase) -> None:
        if phase is not Phase.WELL:
            self.ailments[ailment.key] = replace(ailment, phase=phase)
            return
        counted = self._counts(self.ruling(ailment))
        del self.ailments[ailment.key]
        if counted and not self._ill(ailment.target):
            self.flaps[ailment.target] = replace(self.flaps.get(ailment.target, Flaps()), returned=self.now)

    def _ill(self, target: str) -> bool:
        return any(one.target == target and self._counts(self.ruling(one)) for one in self.ailments.values())

    @staticmethod
    def _counts(ruled: Ruling) -> bool:
        return ruled.verdict is Verdict.UNHEALTHY and ruled.kind in FAULTS

    def rekind(self, before: dict[Key, Kind]) -> None:
        """After a change of policy: evidence for another class of recovery is no evidence for this one."""
        for key, ailment in list(self.ailments.items()):
            moved = self.ruling(ailment).kind is not before[key] and ailment.phase is Phase.BETTER
            self.take(replace(ailment, phase=Phase.SICK) if moved else ailment)
