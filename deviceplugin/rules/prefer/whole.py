"""Whole cards: the set that keeps a tensor-parallel group on one NVLink domain and the rest of the node useful."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from deviceplugin.model.health import Health
from deviceplugin.rules.prefer.cards import Rule
from deviceplugin.rules.prefer.chooser import Chooser
from deviceplugin.rules.prefer.preference import Verdict
from deviceplugin.rules.prefer.request import Request
from deviceplugin.rules.prefer.wish import Wish


def whole(chooser: Chooser, bits: Mapping[str, int], health: Health, request: Request) -> Verdict:
    """The best set of whole cards.

    Args:
        chooser: Of the cards of the resource.
        bits: The bit of each card, by UUID, which is the id of its only share.
        health: Whose `last` cards are taken last, for more than one card.
        request: Checked.
    """
    wish = wish_of(bits, health, request)
    choice = chooser.choose(wish)
    if choice.decided_by is Rule.ONLY and request.alternatives > 1:
        choice = replace(choice, decided_by=Rule.HEALTH)
    ids = tuple(chooser.cards.uuids[i] for i in chooser.cards.members(choice.mask))
    return Verdict(ids, choice.mask, choice.decided_by, choice.exact)


def wish_of(bits: Mapping[str, int], health: Health, request: Request) -> Wish:
    """What is wanted, once health has its say: cards that it ranks last only as far as the others do not suffice."""
    usable = sum(bits[name] for name in request.usable)
    must = sum(bits[name] for name in request.must)
    candidates, forced = usable, must
    if health.last and request.size > 1:
        first = usable & ~ranked_last(bits, health) | must
        if first.bit_count() >= request.size:
            candidates = first
        else:
            forced = first
    return Wish(request.size, candidates, forced, usable)


def ranked_last(bits: Mapping[str, int], health: Health) -> int:
    """The cards that health ranks last."""
    return sum(bits[uuid] for uuid in health.last if uuid in bits)
