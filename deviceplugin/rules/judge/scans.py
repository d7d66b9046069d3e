"""What a scan says: which devices are there, which went, which came back."""

from __future__ import annotations

from msgspec.structs import replace

from deviceplugin.model.evidence import ScanSeen
from deviceplugin.model.node import LEFT_OUT, DriverState, Gpu, Node
from deviceplugin.rules.judge.draft import Draft
from deviceplugin.rules.judge.state import Ailment, Card
from deviceplugin.rules.judge.table import Phase, Signal

_TELLS = frozenset({DriverState.READY, DriverState.NO_DRIVER, DriverState.NO_HARDWARE})
"""States in which a card that is not shown is not there; in the others nobody could look."""

_ILL = frozenset({10, 11, 15, 16, 17, 27, 28, 29, 999})
"""Return codes that speak of the card (time-out, lost, reset required, unknown, ...), not of the query."""

_ABSENCE = frozenset({"lost", "vanished"})


def scan_seen(draft: Draft, evidence: ScanSeen) -> None:
    """Compares a scan with what was there before."""
    node = evidence.node
    if node.state not in _TELLS:
        return
    gpus: dict[str, Gpu] = {}
    for gpu in node.gpus:
        # Of cards that share a UUID the worst is believed: they cannot be told apart.
        if gpu.uuid and (gpu.uuid not in gpus or gpu.lost):
            gpus[gpu.uuid] = gpu
    for uuid, card in list(draft.cards.items()):
        if uuid not in gpus:
            _away(draft, card, node)
    for gpu in gpus.values():
        _here(draft, gpu, _ill_queries(node, gpu))
    _orphans(draft)
    version = node.driver_version or draft.driver_version
    if draft.driver_version not in {None, version}:
        draft.signal(Signal.RESET, lambda _: True)
    draft.driver_version = version


def _ill_queries(node: Node, gpu: Gpu) -> frozenset[str]:
    subjects = {gpu.uuid, gpu.pci, f"index {gpu.index}"}
    return frozenset(one.query for one in node.problems if one.subject in subjects and one.code in _ILL)


def _ail(draft: Draft, target: str, gpu: str, reason: str, what: str) -> Ailment:
    return Ailment(target, gpu, reason, draft.now, draft.now, what, boot_id=draft.boot_id)


def _away(draft: Draft, card: Card, node: Node) -> None:
    if card.present or (card.uuid, "vanished") in draft.ailments:
        where = (
            "a scan of the driver does not show it" if node.state is DriverState.READY else "the driver is not there"
        )
        draft.see(_ail(draft, card.uuid, card.uuid, "vanished", where))
    draft.cards[card.uuid] = replace(card, present=False, gone=True)


def _here(draft: Draft, gpu: Gpu, ill: frozenset[str]) -> None:
    own = [one.reason for one in draft.ailments.values() if one.target == gpu.uuid]
    before = draft.cards.get(gpu.uuid) or Card(gpu.uuid, gone=not _ABSENCE.isdisjoint(own))
    doubted = before.gone or "unanswering" in own
    answers = not gpu.lost and LEFT_OUT not in ill and not (doubted and ill - before.odd)
    unread = any(word in query for query in ill for word in ("Mig", "Instance"))
    card = replace(
        before,
        pci=gpu.pci,
        index=gpu.index,
        instances=gpu.instances if answers and not unread else before.instances or gpu.instances,
        present=True,
        gone=gpu.lost or (before.gone and not answers),
        odd=ill if answers and not doubted else before.odd,
    )
    draft.cards[gpu.uuid] = card
    _adopt(draft, card)
    if gpu.lost:
        draft.see(_ail(draft, gpu.uuid, gpu.uuid, "lost", "the driver answered GPU_IS_LOST"))
    if answers:
        _instances(draft, before, card)
        if before.gone:
            draft.signal(Signal.RESET, lambda one: one.gpu == gpu.uuid)
        draft.signal(Signal.BACK, lambda one: one.target == gpu.uuid)


def _adopt(draft: Draft, card: Card) -> None:
    """What was remembered of an instance before any scan could say whose it is belongs to this card from now on."""
    here = {instance.uuid for instance in card.instances}
    for key, ailment in list(draft.ailments.items()):
        if ailment.target in here and not draft.card(ailment.gpu).present:
            draft.ailments[key] = replace(ailment, gpu=card.uuid)
            draft.cards.pop(ailment.gpu, None)


def _instances(draft: Draft, before: Card, card: Card) -> None:
    here = {instance.uuid for instance in card.instances}
    for instance in before.instances:
        if instance.uuid not in here:
            what = f"MIG instance {instance.gi}/{instance.ci} is not on its GPU any more"
            draft.see(_ail(draft, instance.uuid, card.uuid, "vanished", what))
    draft.signal(Signal.BACK, lambda one: one.target in here)


def _orphans(draft: Draft) -> None:
    """Forgets what was remembered of cards that a reboot left without."""
    for key, ailment in list(draft.ailments.items()):
        if ailment.gpu not in draft.cards:
            if ailment.phase is Phase.RESET:
                del draft.ailments[key]
            else:
                draft.cards[ailment.gpu] = Card(ailment.gpu, present=False, gone=True)
