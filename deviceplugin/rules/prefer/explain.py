"""Why a set of devices was preferred: it and the runner-up side by side, criterion by criterion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from deviceplugin.model.errors import RequestError
from deviceplugin.model.health import Health
from deviceplugin.model.inventory import Policy, Resource
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.prefer.cards import Cards, Rule, Score, pairs_sum, score, smallest, touched
from deviceplugin.rules.prefer.ground import Ground, ground_of
from deviceplugin.rules.prefer.preference import Preference, Verdict, preference
from deviceplugin.rules.prefer.request import Request, check
from deviceplugin.rules.prefer.shares import shares
from deviceplugin.rules.prefer.stock import Stock, found
from deviceplugin.rules.prefer.whole import ranked_last, whole, wish_of
from deviceplugin.rules.prefer.wish import Wish

FEWER_IS_BETTER = frozenset(
    {Rule.HEALTH, Rule.DOMAINS, Rule.NUMA, Rule.LOAD, Rule.OPENED, Rule.OPENED_SHARES, Rule.HOLDERS}
)
"""Criteria whose scores are negative counts."""

Value = int | tuple[int, ...]


class Row(Struct, frozen=True):
    """One criterion: what the set has of it, and what the runner-up has."""

    rule: Rule
    chosen: Value
    runner_up: Value


class Explanation(Struct, frozen=True):
    """A preference with the set that it beat."""

    preference: Preference
    runner_up: tuple[str, ...]
    """Ids; empty where there was no other set."""
    rows: tuple[Row, ...]
    """Criteria down to the one that decided; empty where there was no other set."""


def explain(
    snapshot: Snapshot, resource: Resource, available: Sequence[str], must_include: Sequence[str], size: int
) -> Explanation:
    """The preference for a request, its runner-up, and what told them apart.

    Takes as many choices as there are devices in the set; for people, not for the kubelet.

    Args:
        snapshot: As for `prefer`.
        resource: As for `prefer`.
        available: As for `prefer`.
        must_include: As for `prefer`.
        size: As for `prefer`.

    Raises:
        RequestError: as `prefer` does.
    """
    ground = ground_of(snapshot.inventory.closeness, resource)
    request = check(resource, snapshot.health, available, must_include, size)
    if ground.stock.whole:
        must = sum(ground.stock.bits[name] for name in dict.fromkeys(must_include))
        verdict, second, scores = _whole(ground, snapshot.health, request, must)
    else:
        verdict, second, scores = _shares(ground, request)
    rows = tuple(_rows(scores))
    answer = preference(ground.chooser.cards, verdict, request.unknown)
    return Explanation(replace(answer, decided_by=rows[-1].rule if rows else answer.decided_by), second, rows)


Found = tuple[Verdict, tuple[str, ...], tuple[Score, ...]]


def _rows(scores: Sequence[Score]) -> Iterator[Row]:
    """Criteria down to the first that differs; none without a runner-up."""
    for (rule, first), (_, second) in zip(*scores, strict=True):
        yield Row(rule, _shown(rule, first), _shown(rule, second))
        if first != second:
            break


def _shown(rule: Rule, value: Value) -> Value:
    return -value if rule in FEWER_IS_BETTER and isinstance(value, int) else value


def _whole(ground: Ground, health: Health, request: Request, must: int) -> Found:
    cards, bits = ground.chooser.cards, ground.stock.bits
    verdict = whole(ground.chooser, bits, health, request)
    wish = wish_of(bits, health, request)
    last = ranked_last(bits, health) if wish.size > 1 else 0
    shunned = last | sum(bits[name] for name in request.available if name not in request.usable)

    def worth(mask: int) -> Score:
        criteria = (pair for pair in score(cards, mask, wish.available) if pair[0] is not Rule.LOAD)
        indices = tuple(cards.index[i] for i in cards.members(mask))
        return ((Rule.HEALTH, -(mask & shunned).bit_count()), *criteria, (Rule.INDEX, indices))

    if verdict.decided_by is Rule.HEALTH:
        free = sum(bits[name] for name in request.available) & ~verdict.mask
        others = _one_exchanged(cards, verdict.mask, verdict.mask & ~must, free)
    else:
        others = [ground.chooser.choose(other).mask for other in _without_one(cards, wish, verdict.mask)]
    if not others:
        return verdict, (), ()
    second = max(others, key=lambda mask: (worth(mask)[:-1], mask))
    return verdict, tuple(cards.uuids[i] for i in cards.members(second)), (worth(verdict.mask), worth(second))


def _one_exchanged(cards: Cards, mask: int, out: int, free: int) -> list[int]:
    """Sets that differ in one card: where health left no choice, the runner-up has one card more that it shuns."""
    return [mask ^ cards.bits[a] | cards.bits[b] for a in cards.members(out) for b in cards.members(free)]


def _without_one(cards: Cards, wish: Wish, mask: int) -> Iterator[Wish]:
    """Wishes that together are met by all sets but one: each keeps the first cards of that set and lacks the next."""
    forced = wish.forced
    for card in cards.members(mask & ~wish.forced):
        candidates = wish.candidates & ~cards.bits[card]
        if candidates.bit_count() >= wish.size:
            yield replace(wish, candidates=candidates, forced=forced)
        forced |= cards.bits[card]


def _shares(ground: Ground, request: Request) -> Found:
    chooser, stock = ground.chooser, ground.stock
    verdict = shares(chooser, stock, request)
    worth = partial(_share_score, chooser.cards, stock, request)
    others = []
    for fewer in _with_less_room(stock, request, verdict):
        with suppress(RequestError):
            others.append(shares(chooser, stock, fewer).ids)
    if not others:
        return verdict, (), ()
    second = max(others, key=lambda ids: _upwards(worth(ids)))
    return verdict, second, (worth(verdict.ids), worth(second))


def _upwards(scores: Score) -> tuple[Value, ...]:
    """A score of which the larger is better throughout: of indices the lower are."""
    return tuple(
        tuple(-one for one in value) if rule is Rule.INDEX and isinstance(value, tuple) else value
        for rule, value in scores
    )


def _with_less_room(stock: Stock, request: Request, verdict: Verdict) -> Iterator[Request]:
    """Requests that together are met by all other placements: each lets one holder give less than it did."""
    must = frozenset(request.must)
    for names in stock.shares:
        given = [name for name in names if name in verdict.ids and name not in must]
        if not given:
            continue
        spare = [name for name in names if name in request.usable and name not in must][len(given) - 1 :]
        usable = tuple(name for name in request.usable if name not in spare)
        if len(usable) >= request.size:
            yield replace(request, usable=usable)


def _share_score(cards: Cards, stock: Stock, request: Request, ids: Sequence[str]) -> Score:
    """The criteria of the resource's policy, in order."""
    holders = found(stock, request)
    given = Counter(stock.place[name] for name in ids if name not in request.must)
    used = [holder for holder in holders if holder.must or given[holder.place]]
    mask = 0
    for holder in used:
        mask |= holder.card
    opened = [given[holder.place] for holder in used if not holder.before]
    squares = sum((holder.before + given[holder.place]) ** 2 for holder in holders)
    members = cards.members(mask)
    near: Score = (
        (Rule.DOMAINS, -touched(cards.domains, mask)),
        (Rule.MIN_NVLINK, smallest(cards.nvlink, members)),
        (Rule.SUM_NVLINK, pairs_sum(cards.nvlink, members)),
    )
    near = () if stock.mig else near
    spread: Score = ((Rule.SPREAD, len(used)), *near, (Rule.LOAD, -squares))
    policies: dict[Policy, Score] = {
        Policy.DISTRIBUTED: ((Rule.LOAD, -squares), *near),
        Policy.PACKED: (
            (Rule.OPENED, -len(opened)),
            (Rule.OPENED_SHARES, -sum(opened)),
            (Rule.FULL, squares),
            (Rule.HOLDERS, -len(used)),
            *near,
        ),
        Policy.SPREAD: spread,
        Policy.STRICT: spread,
    }
    return (
        *policies[stock.resource.policy],
        (Rule.NUMA, -touched(cards.numas, mask)),
        (Rule.PCIE, pairs_sum(cards.pcie, members)),
        (Rule.INDEX, tuple(stock.resource.by_id[name].gpu_index for name in ids)),
    )
