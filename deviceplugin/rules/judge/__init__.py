"""Which hardware is fit: evidence in, state and transitions out.

state = start(node, policy, remembered, boot_id, now)
judged = judge(state, evidence, policy, now)
health(judged.state)

An ailment is one thing that is wrong with one device. `table` says how it comes and goes, `rulings` what it does under
the policy in force. Any ailment that counts makes its device unfit; what is unknown changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from deviceplugin.config.document import HealthSection
from deviceplugin.model.evidence import (
    ChecksFailed,
    ChecksWorked,
    DriverReloaded,
    Evidence,
    Forgotten,
    Injected,
    PolicyChanged,
    ScanSeen,
    TakenUp,
    Tick,
    Unanswered,
)
from deviceplugin.model.health import Kind, Sickness, Transition
from deviceplugin.model.node import Node
from deviceplugin.model.vitals import Event, Reading
from deviceplugin.rules.judge.boots import another_load
from deviceplugin.rules.judge.damping import forgotten
from deviceplugin.rules.judge.declarations import checks_failed, checks_worked, declare, injected
from deviceplugin.rules.judge.draft import Draft
from deviceplugin.rules.judge.hardware import driver_reloaded, event_seen, reading_seen, taken_up, unanswered
from deviceplugin.rules.judge.rulings import known
from deviceplugin.rules.judge.scans import scan_seen
from deviceplugin.rules.judge.state import Ailment, Judged, JudgeState
from deviceplugin.rules.judge.table import Phase
from deviceplugin.rules.judge.verdicts import health, remember, transitions
from deviceplugin.rules.judge.xids import classes, in_force

__all__ = ["JudgeState", "Judged", "classes", "health", "in_force", "judge", "remember", "standing", "start"]


def start(
    node: Node, policy: HealthSection, remembered: Sequence[Sickness], boot_id: str = "", now: float = 0.0
) -> JudgeState:
    """The first state: what an earlier process remembered, and what the first scan shows.

    Args:
        node: The first scan; one that is not READY tells nothing yet.
        policy: The health section in force.
        remembered: Sicknesses from the state file. Where their boot is another one, the reboot counts as a reset.
        boot_id: Identity of this boot (and load of the driver); see `judge.boots`; empty where it cannot be told.
        now: Unix time in seconds.
    """
    draft = Draft(JudgeState(policy=policy, boot_id=boot_id), now)
    for one in remembered:
        ailment = _taken_up(one, node, boot_id, now)
        if ailment is not None:
            draft.take(ailment)
    scan_seen(draft, ScanSeen(node))
    declare(draft)
    draft.quiet()
    return draft.done()


def _taken_up(one: Sickness, node: Node, boot_id: str, now: float) -> Ailment | None:
    number = one.reason.removeprefix("xid-")
    xid = int(number) if number != one.reason and number.isascii() and number.isdecimal() else None
    if not known(one.reason, xid):
        return None
    gpu = node.gpu(one.uuid) or next((gpu for gpu in node.gpus if one.pci and gpu.pci == one.pci), None)
    return Ailment(
        target=one.uuid,
        gpu=gpu.uuid if gpu else one.uuid,
        reason=one.reason,
        since=min(one.since, now),
        # What happened while nobody listened is unknown: the quiet period begins anew.
        seen=now,
        what=f"{one.reason.replace('-', ' ')}, remembered from before this process began",
        phase=Phase.RESET if another_load(one.boot_id, boot_id) else Phase.SICK,
        xid=xid,
        kind=Kind.RECOVERABLE if one.kind == Kind.RECOVERABLE else Kind.RESET_REQUIRED,
        boot_id=one.boot_id,
    )


def standing(state: JudgeState, now: float) -> tuple[Transition, ...]:
    """What counts in a first state, told as transitions: so that what was bad before this process began is logged."""
    return transitions(JudgeState(), state, now)


def judge(state: JudgeState, evidence: Evidence, policy: HealthSection, now: float) -> Judged:
    """The state after one piece of evidence, and what changed by it. Never raises, whatever the evidence holds.

    Args:
        state: What was known.
        evidence: What was heard.
        policy: The health section in force; another one than before re-evaluates everything that stands.
        now: Unix time in seconds.
    """
    draft = Draft(state, now)
    changed = policy != state.policy
    if changed:
        before = {key: draft.ruling(ailment).kind for key, ailment in draft.ailments.items()}
        draft.policy = policy
        draft.rekind(before)
    _HANDLERS[type(evidence)](draft, evidence)
    if isinstance(evidence, Event | Reading) and not changed:
        draft.quiet(evidence.uuid)
    else:
        _settle(draft)
    after = draft.done()
    # A device that is forgotten is not offered any more: there is no change to tell of.
    told = () if isinstance(evidence, Forgotten) else transitions(state, after, now)
    return Judged(after, told, tuple(draft.notes), tuple(dict.fromkeys(draft.reread)))


def _settle(draft: Draft) -> None:
    declare(draft)
    draft.quiet()
    quiet = draft.policy.quiet_period
    ill = {ailment.target for ailment in draft.ailments.values()}
    for target, flaps in list(draft.flaps.items()):
        if target not in ill and forgotten(flaps, draft.now, quiet):
            del draft.flaps[target]


def _time_passed(draft: Draft, _: Tick) -> None:
    """A clock that stepped back begins the quiet period anew, instead of stretching it by the step."""
    for key, ailment in list(draft.ailments.items()):
        draft.ailments[key] = replace(ailment, seen=min(ailment.seen, draft.now))


def _forget(draft: Draft, evidence: Forgotten) -> None:
    draft.ailments.pop((evidence.uuid, "vanished"), None)
    draft.flaps.pop(evidence.uuid, None)


def _nothing(draft: Draft, _: PolicyChanged) -> None:
    """The policy is compared with every judgement: being told of it only gives the occasion."""


_HANDLERS: Mapping[type[Any], Callable[[Draft, Any], None]] = MappingProxyType(
    {
        Event: event_seen,
        Reading: reading_seen,
        ScanSeen: scan_seen,
        DriverReloaded: driver_reloaded,
        TakenUp: taken_up,
        Injected: injected,
        ChecksFailed: checks_failed,
        Unanswered: unanswered,
        ChecksWorked: checks_worked,
        Forgotten: _forget,
        PolicyChanged: _nothing,
        Tick: _time_passed,
    }
)
