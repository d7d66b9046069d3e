"""The shares of a resource by holder, and what of them one call finds in use."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from deviceplugin.model.inventory import Resource, Share
from deviceplugin.rules.prefer.cards import Cards
from deviceplugin.rules.prefer.holders import Holder
from deviceplugin.rules.prefer.request import Request


class Stock(Struct, frozen=True):
    """All that is constant for a resource."""

    resource: Resource
    shares: tuple[tuple[str, ...], ...]
    """Ids by place of their holder, in the order of the resource."""
    card: tuple[int, ...]
    """Bit of the card, by place."""
    place: Mapping[str, int]
    """Place of the holder, by id."""
    bits: Mapping[str, int]
    """Bit of the card, by id."""
    whole: bool
    """Every share is a whole card."""
    mig: bool
    """There are MIG instances: rules about NVLink tell nothing."""


def _holder(share: Share) -> str:
    """What a share is cut from: the card or MIG instance of a replica; the card of an unshared MIG instance."""
    return share.gpu if share.replica is None else share.device


def stock_of(resource: Resource, cards: Cards) -> Stock:
    """Sorts the shares of a resource by holder."""
    bit = dict(zip(cards.uuids, cards.bits, strict=True))
    by_holder: dict[str, list[Share]] = {}
    for share in resource.shares:
        by_holder.setdefault(_holder(share), []).append(share)
    groups = tuple(by_holder.values())
    return Stock(
        resource=resource,
        shares=tuple(tuple(share.id for share in group) for group in groups),
        card=tuple(bit[group[0].gpu] for group in groups),
        place={share.id: place for place, group in enumerate(groups) for share in group},
        bits={share.id: bit[share.gpu] for share in resource.shares},
        whole=all(share.replica is None and share.device == share.gpu for share in resource.shares),
        mig=any(share.device != share.gpu for share in resource.shares),
    )


def found(stock: Stock, request: Request) -> list[Holder]:
    """The holders as a request finds them, in order of place."""
    free, room, must = ([0] * len(stock.shares) for _ in range(3))
    place = stock.place
    for name in request.available:
        free[place[name]] += 1
    for name in request.usable:
        room[place[name]] += 1
    for name in request.must:
        must[place[name]] += 1
    return [
        Holder(at, card, len(names) - free[at] + must[at], room[at] - must[at], must[at] > 0)
        for at, (card, names) in enumerate(zip(stock.card, stock.shares, strict=True))
    ]


def ids_of(stock: Stock, request: Request, amounts: Mapping[int, int]) -> tuple[str, ...]:
    """The ids to give, in the order of the resource: must-includes, and the lowest usable ones of each holder.

    Args:
        stock: Of the resource.
        request: What was asked for.
        amounts: How many to give besides must-includes, by place.
    """
    must, usable = frozenset(request.must), frozenset(request.usable)
    chosen = set(must)
    for at, amount in amounts.items():
        free = (name for name in stock.shares[at] if name in usable and name not in must)
        chosen.update(name for name, _ in zip(free, range(amount), strict=False))
    return tuple(name for names in stock.shares for name in names if name in chosen)
