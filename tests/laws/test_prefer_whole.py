"""Whole cards against an oracle that looks at every set, on fabrics of any kind and on all machines."""

import random
from collections.abc import Iterable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.model.health import Health, Sickness
from deviceplugin.model.inventory import Closeness
from deviceplugin.rules.prefer.cards import Rule, cards_of
from deviceplugin.rules.prefer.chooser import Chooser
from deviceplugin.rules.prefer.kinds import plan
from deviceplugin.rules.prefer.layers import choose
from deviceplugin.rules.prefer.prefer import prefer
from deviceplugin.rules.prefer.wish import Wish
from tests.laws.prefer_oracle import ranking
from tests.strategies.fabrics import MACHINES, closeness, closeness_of, irregular, relabelled, trees, whole_cards

RULES = [
    Rule.HEALTH,
    Rule.DOMAINS,
    Rule.MIN_NVLINK,
    Rule.SUM_NVLINK,
    Rule.LEFT_DOMAINS,
    Rule.NUMA,
    Rule.LEFT_NUMA,
    Rule.PCIE,
    Rule.LEFT_NVLINK,
    Rule.LEFT_PCIE,
    Rule.INDEX,
]


@st.composite
def requests(draw: st.DrawFn, count: int) -> tuple[set[int], set[int], int]:
    """Available cards, must-includes among them or not, and a size that can be met."""
    available = draw(st.sets(st.integers(0, count - 1), min_size=1))
    must = draw(st.sets(st.integers(0, count - 1), max_size=count))
    size = draw(st.integers(max(1, len(must)), len(available | must)))
    return available, must, size


def uuids(close: Closeness, cards: Iterable[int]) -> list[str]:
    return [close.uuids[i] for i in cards]


def deciding(ranked: list[tuple[tuple[object, ...], frozenset[int]]]) -> Rule:
    if len(ranked) == 1:
        return Rule.ONLY
    return next(rule for rule, a, b in zip(RULES, ranked[0][0], ranked[1][0], strict=True) if a != b)


@given(st.data(), st.one_of(irregular(), trees()))
def test_answer_is_the_best_of_all_sets(data: st.DataObject, close: Closeness) -> None:
    available, must, size = data.draw(requests(len(close.uuids)))
    last = data.draw(st.sets(st.integers(0, len(close.uuids) - 1), max_size=3))
    pending = Sickness(uuid="", reason="remap-pending", kind="state", since=0.0)
    snapshot, resource = whole_cards(close, Health(last={close.uuids[i]: (pending,) for i in last}))
    order = data.draw(st.permutations(sorted(available)))
    answer = prefer(snapshot, resource, uuids(close, order), uuids(close, must), size)
    ranked = ranking(close, available, must, size, last)
    assert set(answer.gpu_indices) == ranked[0][1]
    assert answer.decided_by == deciding(ranked)
    assert answer.exact
    assert set(answer.ids) == set(uuids(close, ranked[0][1]))
    assert set(uuids(close, must)) <= set(answer.ids)


@given(st.data(), st.one_of(irregular(8), trees()))
def test_choosing_by_kinds_is_the_best_of_all_sets_too(data: st.DataObject, close: Closeness) -> None:
    available, must, size = data.draw(requests(len(close.uuids)))
    cards = cards_of(close, tuple(zip(close.uuids, close.index, close.numa, strict=True)))
    everything = cards.mask(available | must)
    choice = choose(cards, plan(cards), Wish(size, everything, cards.mask(must), everything))
    ranked = ranking(close, available, must, size)
    assert set(cards.members(choice.mask)) == ranked[0][1]
    assert choice.decided_by == deciding(ranked)


@given(st.data(), st.one_of(irregular(7), trees()))
def test_kinds_and_tables_agree_where_nothing_is_said_of_the_rest_and_loads_differ(
    data: st.DataObject, close: Closeness
) -> None:
    available, must, size = data.draw(requests(len(close.uuids)))
    cards = cards_of(close, tuple(zip(close.uuids, close.index, close.numa, strict=True)))
    count = len(close.uuids)
    load = data.draw(st.none() | st.lists(st.integers(0, 3), min_size=count, max_size=count).map(tuple))
    wish = Wish(size, cards.mask(available | must), cards.mask(must), load=load)
    assert choose(cards, plan(cards), wish) == Chooser(cards).choose(wish)


@given(st.data(), st.one_of(irregular(7), trees(7)))
def test_relabelling_changes_the_answer_only_through_the_lowest_indices(data: st.DataObject, close: Closeness) -> None:
    count = len(close.uuids)
    order = data.draw(st.permutations(range(count)))
    available, must, size = data.draw(requests(count))
    other = relabelled(close, order)
    moved = {old: new for new, old in enumerate(order)}
    snapshot, resource = whole_cards(other)
    answer = prefer(
        snapshot,
        resource,
        uuids(other, [moved[i] for i in available]),
        uuids(other, [moved[i] for i in must]),
        size,
    )
    ranked = ranking(close, available, must, size)
    ties = [chosen for key, chosen in ranked if key[:-1] == ranked[0][0][:-1]]
    assert {order[i] for i in answer.gpu_indices} in ties


@pytest.mark.parametrize("machine", MACHINES)
def test_every_size_on_every_machine(machine: str) -> None:
    """Exhaustive up to 8 cards; beyond, sizes at which sets can still be looked at one by one."""
    close = closeness_of(machine)
    count = len(close.uuids)
    snapshot, resource = whole_cards(close)
    chance = random.Random(machine)
    requests = [
        (set(range(count)), set[int](), size) for size in range(1, count + 1) if count <= 8 or size in (1, 2, 3, 8, 14)
    ]
    for _ in range(40):
        available = {i for i in range(count) if chance.random() < min(0.8, 9 / count)} or {0}
        size = chance.randint(1, len(available))
        must = set(chance.sample(range(count), chance.randint(0, size // 2)))
        requests.append((available, must, size))
    for available, must, size in requests:
        answer = prefer(snapshot, resource, uuids(close, available), uuids(close, must), size)
        ranked = ranking(close, available, must, size)
        assert (frozenset(answer.gpu_indices), answer.decided_by) == (ranked[0][1], deciding(ranked))


LARGE = {
    "boards of 8 on two sockets each": closeness(
        64, lambda a, b: 18 if a // 8 == b // 8 else 0, lambda a, b: 2 if a // 4 == b // 4 else 1, lambda a: a // 4 % 2
    ),
    "boards of 16": closeness(
        64, lambda a, b: 6 if a // 16 == b // 16 else 0, lambda a, b: 3 if a // 8 == b // 8 else 1, lambda a: a // 8
    ),
    "PCIe only": closeness(64, lambda a, b: 0, lambda a, b: 5 if a // 4 == b // 4 else 2, lambda a: a // 16),
    "one switch": closeness(40, lambda a, b: 18, lambda a, b: 3 if a // 8 == b // 8 else 1, lambda a: a // 8),
    "bridged pairs across sockets": closeness(
        32, lambda a, b: 12 if a // 2 == b // 2 else 0, lambda a, b: 2 if a % 4 == b % 4 else 1, lambda a: a % 4
    ),
    "uneven boards": closeness(
        24,
        lambda a, b: (12 if {a % 8, b % 8} & {0, 1} else 18) if a // 8 == b // 8 else 0,
        lambda a, b: 2 if a // 4 == b // 4 else 1,
        lambda a: a // 4 % 2,
    ),
}


@pytest.mark.parametrize("shape", LARGE)
def test_large_machines_of_few_kinds_are_exact(shape: str) -> None:
    close = LARGE[shape]
    count = len(close.uuids)
    snapshot, resource = whole_cards(close)
    chance = random.Random(shape)
    for _ in range(30):
        few = chance.sample(range(count), 9)
        size = chance.randint(1, 8)
        must = few[: chance.randint(0, size // 3)]
        answer = prefer(snapshot, resource, uuids(close, few), uuids(close, must), size)
        ranked = ranking(close, few, must, size)
        assert (frozenset(answer.gpu_indices), answer.decided_by) == (ranked[0][1], deciding(ranked))
        assert answer.exact
    for size in range(1, count + 1):
        assert prefer(snapshot, resource, close.uuids, (), size).exact


def test_large_machines_without_order_are_searched_within_bounds() -> None:
    """Eight cards are linked better than any others, anywhere on a fabric without order: they are found."""
    chance = random.Random(7)
    best = set(chance.sample(range(24), 8))
    narrow = tuple(sorted(best))[:2]
    widths = {(a, b): 4 if {a, b} <= best else chance.randint(1, 4) for b in range(24) for a in range(b)}
    widths[narrow[0], narrow[1]] = 1
    levels = {pair: chance.randint(1, 5) for pair in widths}
    close = closeness(24, lambda a, b: widths[a, b], lambda a, b: levels[a, b], lambda a: a % 3)
    snapshot, resource = whole_cards(close)
    answer = prefer(snapshot, resource, close.uuids, uuids(close, narrow), 8)
    assert set(answer.gpu_indices) == best
    assert (answer.exact, answer.decided_by) == (False, Rule.SUM_NVLINK)
    assert (answer.min_nvlink, answer.sum_nvlink) == (1, 4 * 28 - 3)


@pytest.mark.parametrize("seed", range(6))
def test_a_bounded_search_is_far_above_chance(seed: int) -> None:
    chance = random.Random(seed)
    widths = {(a, b): chance.randint(1, 9) for b in range(20) for a in range(b)}
    close = closeness(20, lambda a, b: widths[a, b])
    snapshot, resource = whole_cards(close)
    answer = prefer(snapshot, resource, close.uuids, uuids(close, [3]), 10)
    assert 3 in answer.gpu_indices
    drawn = (sorted([3, *chance.sample([i for i in range(20) if i != 3], 9)]) for _ in range(500))
    sets = [[widths[a, b] for a, b in combinations(cards, 2)] for cards in drawn]
    assert (answer.min_nvlink, answer.sum_nvlink) >= max((min(pairs), sum(pairs)) for pairs in sets)
