"""What the driver's events and readings say, and that it was loaded anew or taken up again."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from deviceplugin.model.evidence import DriverReloaded, TakenUp, Unanswered
from deviceplugin.model.health import Verdict
from deviceplugin.model.vitals import Event, EventKind, Reading
from deviceplugin.rules.judge import xids
from deviceplugin.rules.judge.address import instances
from deviceplugin.rules.judge.boots import another_load
from deviceplugin.rules.judge.draft import Draft
from deviceplugin.rules.judge.state import Ailment
from deviceplugin.rules.judge.states import RESETS, STATES, Answer, answer
from deviceplugin.rules.judge.table import Signal

_EVENTS: Mapping[EventKind, tuple[str, str]] = MappingProxyType(
    {
        EventKind.DOUBLE_BIT_ECC: ("ecc-double-bit", "the driver announced an uncorrectable ECC error"),
        EventKind.DRAM_RETIREMENT: ("remap-pending", "the driver announced memory that waits to be retired"),
        EventKind.DRAM_RETIREMENT_FAILURE: ("remap-failure", "the driver announced that retiring memory failed"),
        EventKind.CONTAINED_POISON: ("ecc-contained", "the driver announced a contained memory error"),
        EventKind.FATAL_POISON: ("ecc-fatal", "the driver announced an uncontained memory error"),
        EventKind.UNAVAILABLE: ("unavailable", "the driver announced that the GPU cannot be used"),
    }
)
"""Events other than Xids that count. Corrected errors do not, and a changed recovery action is only read."""


def event_seen(draft: Draft, event: Event) -> None:
    """Takes in one event of the driver."""
    if not event.uuid:
        if event.kind is EventKind.XID:
            draft.notes.append(
                f"{xids.describe(event.xid or 0)} came for a GPU that the driver did not name: no device is judged by "
                "it, the states of all are read now"
            )
        draft.reread.extend(draft.cards)
        return
    # The event's own clock may be anything; the quiet period runs from when it was heard.
    since = event.at if 0 < event.at <= draft.now else draft.now
    gpu = _card_of(draft, event.uuid)
    blank = Ailment(event.uuid, gpu, "", since, draft.now, "", boot_id=draft.boot_id)
    if event.kind is EventKind.XID:
        _xid(draft, event, blank)
    elif event.kind in _EVENTS:
        draft.reread.append(gpu)
        reason, what = _EVENTS[event.kind]
        draft.see(replace(blank, target=gpu, reason=_pending(draft, reason, gpu), what=what))
    elif event.kind is EventKind.RECOVERY_ACTION:
        draft.reread.append(gpu)


def _card_of(draft: Draft, uuid: str) -> str:
    """The card of a MIG instance, should the driver name that in an event; any other UUID is that of a card."""
    owners = (card.uuid for card in draft.cards.values() if any(one.uuid == uuid for one in card.instances))
    return next(owners, uuid)


def _pending(draft: Draft, reason: str, gpu: str) -> str:
    """What waits for a reset on this card: a remap of rows, or on older ones the retirement of pages."""
    return "retired-pages-pending" if reason == "remap-pending" and draft.card(gpu).remaps is False else reason


def _xid(draft: Draft, event: Event, blank: Ailment) -> None:
    xid, gpu = event.xid, blank.gpu
    if xid is None or xid <= 0:
        draft.notes.append(f"an Xid event for {gpu} carried {xid}, which is no Xid: it changes nothing")
        return
    special = xid in xids.SPECIAL and not xids.listed(xid, draft.policy)
    if special or xids.classify(xid, draft.policy).verdict is not Verdict.HEALTHY:
        # Not for Xids that applications cause: a storm of them would have the driver asked without end.
        draft.reread.append(gpu)
    told = replace(blank, what=xids.describe(xid))
    if not special:
        for target in instances(draft.card(gpu), event.gi, event.ci) or (blank.target,):
            draft.see(replace(told, target=target, reason=f"xid-{xid}", xid=xid))
    elif xid == xids.REMAP_PENDING:
        draft.see(replace(told, target=gpu, reason=_pending(draft, "remap-pending", gpu)))


def reading_seen(draft: Draft, reading: Reading) -> None:
    """Takes in the states of one card."""
    gpu = reading.uuid
    if not gpu:
        draft.notes.append("a reading of health states names no GPU: it changes nothing")
        return
    before = draft.card(gpu)
    if reading.alive is False:
        draft.cards[gpu] = replace(before, gone=True)
        _found(draft, gpu, "lost", "the driver answered GPU_IS_LOST")
    answers = {reason: answer(reading, state) for reason, state in STATES.items()}
    for reason, said in answers.items():
        if said is Answer.BAD:
            _found(draft, gpu, reason, STATES[reason].seen(reading))
        elif said in _SIGNALS and reading.alive is not False:
            draft.tell((gpu, reason), _SIGNALS[said])
    action = answers["recovery-action"]
    asked = {Answer.BAD: reading.recovery_action in RESETS, Answer.GOOD: False}.get(action, before.asked_reset)
    remaps = before.remaps if reading.remap_supported is None else reading.remap_supported
    draft.cards[gpu] = replace(draft.card(gpu), asked_reset=asked, remaps=remaps)
    summary = _summary([said for reason, said in answers.items() if STATES[reason].blocks])
    if summary is Signal.DIRTY or (summary is not None and reading.alive is not False):
        own = STATES.keys()
        draft.signal(summary, lambda one: one.gpu == gpu and one.reason not in own)


def unanswered(draft: Draft, evidence: Unanswered) -> None:
    """A card that a question hangs on serves nobody until it answers a whole scan again."""
    if evidence.uuid not in draft.cards:
        return
    what = f"calls about this GPU hang ({evidence.query}), while the driver answers otherwise"
    _found(draft, evidence.uuid, "unanswering", what)


_SIGNALS = MappingProxyType({Answer.GOOD: Signal.CLEARED, Answer.ABSENT: Signal.MUTE})


def _found(draft: Draft, gpu: str, reason: str, what: str) -> None:
    draft.see(Ailment(gpu, gpu, reason, draft.now, draft.now, what, boot_id=draft.boot_id))


def _summary(answers: list[Answer]) -> Signal | None:
    if Answer.BAD in answers:
        return Signal.DIRTY
    if Answer.UNKNOWN in answers:
        return None
    return Signal.CLEAN if Answer.GOOD in answers else Signal.MUTE


def driver_reloaded(draft: Draft, evidence: DriverReloaded) -> None:
    """The driver was loaded anew: a reset for all cards, or those named."""
    before, draft.boot_id = draft.boot_id, evidence.boot_id or draft.boot_id
    if evidence.boot_id and not another_load(before, evidence.boot_id):
        return
    draft.signal(Signal.RESET, lambda one: not evidence.gpus or one.gpu in evidence.gpus)


def taken_up(draft: Draft, evidence: TakenUp) -> None:
    """The driver was let go and taken up again: a reset where one was asked for."""
    hoped = evidence.gpus | {card.uuid for card in draft.cards.values() if card.asked_reset}
    draft.signal(Signal.RESET, lambda one: one.gpu in hoped)
