"""Shares: replicas of time-slicing or MPS, and MIG instances of one profile, by the policy of their resource.

The policy says how many shares each holder gets, and where it does not care, the cards that are touched decide by the
rules of whole cards. Where those do not care either, holders of low index are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from deviceplugin.model.errors import Refusal, RequestError
from deviceplugin.model.inventory import Policy, Resource
from deviceplugin.rules.prefer.cards import Rule
from deviceplugin.rules.prefer.chooser import Chooser
from deviceplugin.rules.prefer.holders import Holder, Part, Placement, even_load
from deviceplugin.rules.prefer.packing import packed
from deviceplugin.rules.prefer.placing import place, place_one_each
from deviceplugin.rules.prefer.preference import Verdict
from deviceplugin.rules.prefer.request import Request
from deviceplugin.rules.prefer.stock import Stock, found, ids_of

POLICY_RULE = {
    Policy.DISTRIBUTED: Rule.LOAD,
    Policy.PACKED: Rule.FULL,
    Policy.SPREAD: Rule.SPREAD,
    Policy.STRICT: Rule.SPREAD,
}
"""What decided where the policy left nothing open."""


def shares(chooser: Chooser, stock: Stock, request: Request) -> Verdict:
    """The best set of shares.

    Args:
        chooser: Of the cards of the resource.
        stock: Its shares.
        request: Checked.

    Raises:
        RequestError: FAILED_PRECONDITION if policy strict finds fewer holders than shares wanted.
    """
    holders, policy = found(stock, request), stock.resource.policy
    if policy is Policy.STRICT:
        _enough(stock.resource, holders, request)
    number = request.size - len(request.must)
    cards = chooser.unlinked if stock.mig else chooser
    fresh = [holder for holder in holders if holder.room and not holder.must]
    base = _touched(holder for holder in holders if holder.must)
    if not number:
        return Verdict(ids_of(stock, request, {}), base, Rule.ONLY)
    if policy in (Policy.SPREAD, Policy.STRICT) and number <= len(fresh) and not stock.mig:
        choice, amounts = place_one_each(cards, base, fresh, number)
    else:
        choice, amounts = place(cards, base, _placements(policy, holders, fresh, number))
    decided = choice.decided_by
    if decided is Rule.ONLY and request.alternatives > 1:
        decided = POLICY_RULE[policy] if sum(holder.room > 0 for holder in holders) > 1 else Rule.INDEX
    return Verdict(ids_of(stock, request, amounts), choice.mask, decided, choice.exact)


def _enough(resource: Resource, holders: Sequence[Holder], request: Request) -> None:
    number = request.size - len(request.must)
    taken = sum(holder.must for holder in holders)
    fresh = sum(holder.room > 0 and not holder.must for holder in holders)
    if taken + min(number, fresh) < request.size:
        raise RequestError(
            f"{resource.name}: policy strict wants {request.size} shares on as many GPUs or MIG instances, "
            f"{taken + fresh} have one to give; ask for fewer shares, or set allocationPolicy to spread",
            Refusal.FAILED_PRECONDITION,
        )


def _touched(holders: Iterable[Holder]) -> int:
    mask = 0
    for holder in holders:
        mask |= holder.card
    return mask


def _placements(policy: Policy, holders: Sequence[Holder], fresh: Sequence[Holder], number: int) -> Sequence[Placement]:
    if policy is Policy.PACKED:
        return packed(holders, number)
    if policy is Policy.DISTRIBUTED:
        return [even_load(holders, number)]
    if number <= len(fresh):
        return [_lightest(fresh, number)]
    begun = {holder.place: replace(holder, before=holder.before + 1, room=holder.room - 1) for holder in fresh}
    rest = even_load([begun.get(holder.place, holder) for holder in holders], number - len(fresh))
    return [Placement((*((holder, 1) for holder in fresh), *rest.certain), rest.parts)]


def _lightest(fresh: Sequence[Holder], number: int) -> Placement:
    """One share on each of the holders with fewest in use."""
    loads = sorted(holder.before for holder in fresh)
    edge = loads[number - 1]
    certain = tuple((holder, 1) for holder in fresh if holder.before < edge)
    brim = tuple(holder for holder in fresh if holder.before == edge)
    rest = number - len(certain)
    return Placement(certain, (Part(((brim, rest),), (1,) * rest),))
