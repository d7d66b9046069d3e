"""From ailments to verdicts: the health of the node, and what changed between two states."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from deviceplugin.model.health import Health, Kind, Sickness, Transition, Verdict
from deviceplugin.rules.judge.damping import hold
from deviceplugin.rules.judge.declarations import checked
from deviceplugin.rules.judge.rulings import FAULTS, how_back, ruling, way_back
from deviceplugin.rules.judge.state import Ailment, Card, Flaps, JudgeState, Key
from deviceplugin.rules.judge.xids import Ruling

_GRAVITY = {kind: rank for rank, kind in enumerate(Kind)}
_LEVEL = {verdict: rank for rank, verdict in enumerate(Verdict)}


class _Effect(Struct, frozen=True):
    verdict: Verdict
    sickness: Sickness


def _ruled(state: JudgeState, ailment: Ailment) -> Ruling:
    return ruling(ailment, state.policy, state.cards.get(ailment.gpu) or Card(ailment.gpu, present=False))


def sickness(state: JudgeState, ailment: Ailment) -> Sickness:
    """The ailment as it is shown and kept."""
    ruled = _ruled(state, ailment)
    card = state.cards.get(ailment.gpu) or Card(ailment.gpu, present=False)
    wait = hold(ruled, state.flaps.get(ailment.target, Flaps()), state.policy.quiet_period)
    what = ailment.what[:1].upper() + ailment.what[1:]
    ending = "It comes back" if ruled.verdict is Verdict.UNHEALTHY else "That ends"
    return Sickness(
        uuid=ailment.target,
        reason=ailment.reason,
        kind=ruled.kind,
        since=ailment.since,
        detail=f"{what}. {ending} {way_back(ailment, ruled.kind, wait)}.",
        pci=card.pci,
        rule=ruled.rule,
        boot_id=ailment.boot_id,
        gpu_index=card.index,
        xid=ailment.xid,
    )


def _effects(state: JudgeState) -> Mapping[Key, _Effect]:
    """What counts, for devices that a scan has shown or that have not long been gone."""
    shown = {target for target, reason in state.ailments if reason == "vanished"}
    for card in state.cards.values():
        if card.present:
            shown.add(card.uuid)
            shown.update(instance.uuid for instance in card.instances)
    effects = {}
    for key, ailment in state.ailments.items():
        verdict = _ruled(state, ailment).verdict
        if verdict is not Verdict.HEALTHY and ailment.target in shown:
            effects[key] = _Effect(verdict, sickness(state, ailment))
    return effects


def health(state: JudgeState) -> Health:
    """The verdicts over the whole node; the gravest and then the oldest sickness of a device comes first."""
    by_verdict: dict[Verdict, dict[str, list[Sickness]]] = {Verdict.UNHEALTHY: {}, Verdict.RANK_LAST: {}}
    effects = sorted(_effects(state).values(), key=lambda effect: _order(effect.sickness))
    for effect in effects:
        by_verdict[effect.verdict].setdefault(effect.sickness.uuid, []).append(effect.sickness)
    sick, last = (
        MappingProxyType({uuid: tuple(found) for uuid, found in by_verdict[verdict].items()})
        for verdict in (Verdict.UNHEALTHY, Verdict.RANK_LAST)
    )
    return Health(sick, last, checked(state.sources))


def _order(shown: Sickness) -> tuple[int, float, str, str]:
    return _GRAVITY[Kind(shown.kind)], shown.since, shown.uuid, shown.reason


def remember(state: JudgeState) -> tuple[Sickness, ...]:
    """What hardware has done and a restart must not wash away, also where the policy ignores it at present.

    What is declared is declared again after a restart, and what vanished is vanished again.
    """
    kept = (sickness(state, one) for one in state.ailments.values() if one.reason != "vanished")
    return tuple(sorted((one for one in kept if one.kind in FAULTS), key=_order))


def transitions(before: JudgeState, after: JudgeState, now: float) -> tuple[Transition, ...]:
    """One transition for each cause that began, ended or changed in weight, in order of device and gravity."""
    old, new = _effects(before), _effects(after)
    shown = {**old, **new}
    levels = _levels(old)
    told = []
    for key, effect in sorted(shown.items(), key=lambda item: _order(item[1].sickness)):
        if _verdict(old, key) is not _verdict(new, key):
            standing = levels.setdefault(key[0], {})
            was = _worst(standing)
            standing[key] = _verdict(new, key)
            told.append(_transition(_Change(effect.sickness, was, _worst(standing), key in new), after, now))
    return tuple(told)


class _Change(Struct, frozen=True):
    what: Sickness
    before: Verdict
    to: Verdict
    stands: bool


def _verdict(effects: Mapping[Key, _Effect], key: Key) -> Verdict:
    return effects[key].verdict if key in effects else Verdict.HEALTHY


def _levels(effects: Mapping[Key, _Effect]) -> dict[str, dict[Key, Verdict]]:
    levels: dict[str, dict[Key, Verdict]] = {}
    for key, effect in effects.items():
        levels.setdefault(key[0], {})[key] = effect.verdict
    return levels


def _worst(verdicts: Mapping[Key, Verdict]) -> Verdict:
    return max(verdicts.values(), key=_LEVEL.__getitem__, default=Verdict.HEALTHY)


def _transition(change: _Change, after: JudgeState, now: float) -> Transition:
    what = change.what
    detail, rule = (what.detail, what.rule) if change.stands else _ending(what, change.to, after)
    return Transition(
        at=now,
        uuid=what.uuid,
        pci=what.pci,
        gpu_index=what.gpu_index,
        before=change.before,
        to=change.to,
        reason=what.reason,
        rule=rule,
        detail=detail,
        kind=what.kind,
        xid=what.xid,
        over=not change.stands,
    )


def _ending(what: Sickness, to: Verdict, after: JudgeState) -> tuple[str, str]:
    """Why a cause counts no more, and by which entry of the configuration."""
    left = "" if to is Verdict.HEALTHY else f" It is still {to} for other reasons."
    standing = after.ailments.get((what.uuid, what.reason))
    if standing is not None:
        rule = _ruled(after, standing).rule
        return f"{what.reason} does not count any more, {rule} says so now.{left}", rule
    return f"{what.reason} is over: {how_back(Kind(what.kind))}.{left}", what.rule
