"""What each policy does, in cases that one can check in the head."""

import pytest

from deviceplugin.model.inventory import Policy
from deviceplugin.rules.prefer.cards import Rule
from deviceplugin.rules.prefer.prefer import prefer
from tests.strategies.fabrics import closeness, closeness_of, instances, replicas

PAIRS = closeness(4, lambda a, b: 12 if a // 2 == b // 2 else 0)


def chosen(policy: Policy, taken: list[int], size: int, each: int = 4) -> list[int]:
    """How many shares come from each of four bridged cards, when some are taken already."""
    snapshot, resource = replicas(PAIRS, [each] * 4, policy)
    free = [s.id for s in resource.shares if s.replica is not None and s.replica >= taken[s.gpu_index]]
    ids = prefer(snapshot, resource, free[::-1], [], size).ids
    return [sum(resource.by_id[name].gpu_index == card for name in ids) for card in range(4)]


@pytest.mark.parametrize(
    ("policy", "taken", "size", "expected"),
    [
        (Policy.DISTRIBUTED, [0, 0, 0, 0], 2, [1, 1, 0, 0]),
        (Policy.DISTRIBUTED, [0, 1, 0, 0], 2, [0, 0, 1, 1]),
        (Policy.DISTRIBUTED, [2, 1, 1, 2], 2, [0, 1, 1, 0]),
        (Policy.DISTRIBUTED, [0, 3, 3, 3], 3, [3, 0, 0, 0]),
        (Policy.DISTRIBUTED, [0, 1, 0, 0], 3, [1, 0, 1, 1]),
        (Policy.PACKED, [0, 0, 0, 0], 2, [2, 0, 0, 0]),
        (Policy.PACKED, [0, 1, 0, 3], 1, [0, 0, 0, 1]),
        (Policy.PACKED, [0, 1, 0, 3], 2, [0, 1, 0, 1]),
        (Policy.PACKED, [0, 1, 0, 3], 5, [1, 3, 0, 1]),
        (Policy.PACKED, [0, 0, 0, 0], 6, [4, 2, 0, 0]),
        (Policy.PACKED, [0, 0, 3, 0], 5, [0, 0, 1, 4]),
        (Policy.SPREAD, [0, 0, 0, 0], 2, [1, 1, 0, 0]),
        (Policy.SPREAD, [1, 1, 0, 2], 2, [1, 1, 0, 0]),
        (Policy.SPREAD, [1, 1, 0, 2], 1, [0, 0, 1, 0]),
        (Policy.SPREAD, [3, 3, 3, 3], 4, [1, 1, 1, 1]),
        (Policy.SPREAD, [0, 2, 4, 4], 4, [3, 1, 0, 0]),
        (Policy.STRICT, [0, 0, 4, 0], 3, [1, 1, 0, 1]),
    ],
)
def test_shares_come_from_the_cards_the_policy_names(
    policy: Policy, taken: list[int], size: int, expected: list[int]
) -> None:
    assert chosen(policy, taken, size) == expected


def test_within_a_holder_must_includes_come_first_then_the_lowest_numbers() -> None:
    snapshot, resource = replicas(PAIRS, [4] * 4, Policy.PACKED)
    ids = [share.id for share in resource.shares]
    answer = prefer(snapshot, resource, ids[::-1], [ids[6]], 3)
    assert answer.ids == (ids[4], ids[5], ids[6])


def test_must_includes_alone_are_the_answer() -> None:
    snapshot, resource = replicas(PAIRS, [4] * 4)
    ids = [share.id for share in resource.shares]
    answer = prefer(snapshot, resource, ids, [ids[9], ids[1]], 2)
    assert answer.ids == (ids[1], ids[9])
    assert answer.decided_by is Rule.ONLY


def test_a_whole_card_beside_replicas_is_a_holder_of_one_share() -> None:
    snapshot, resource = replicas(PAIRS, [0, 0, 4, 4], Policy.SPREAD)
    ids = [share.id for share in resource.shares]
    answer = prefer(snapshot, resource, ids, [], 2)
    assert answer.gpu_indices == (0, 1)
    assert answer.min_nvlink == 12


def test_spread_keeps_to_linked_cards_before_it_looks_at_load() -> None:
    assert chosen(Policy.SPREAD, [1, 1, 0, 3], 2) == [1, 1, 0, 0]
    assert chosen(Policy.DISTRIBUTED, [1, 1, 0, 3], 2) == [0, 0, 2, 0]


def test_mig_instances_of_one_card_share_a_holder() -> None:
    snapshot, resource = instances(closeness_of("hgx-h100-8"), [7] * 8)
    ids = [share.id for share in resource.shares]
    answer = prefer(snapshot, resource, ids, [], 4)
    assert answer.gpu_indices == (0, 1, 2, 3)
    assert answer.numa_nodes == 1


def test_where_nothing_tells_one_card_from_two_the_shorter_list_is_the_lower() -> None:
    snapshot, resource = instances(closeness(2, lambda a, b: 0, lambda a, b: 0), [2, 2])
    free = [share.id for share in resource.shares if share.id != "MIG-1-0"]
    answer = prefer(snapshot, resource, free, [], 2)
    assert answer.ids == ("MIG-0-0", "MIG-0-1")
    assert answer.decided_by is Rule.INDEX


def test_replicas_of_mig_instances_are_spread_over_instances_on_near_cards() -> None:
    snapshot, resource = instances(closeness(2, lambda a, b: 0), [2, 2], Policy.STRICT, each=2)
    ids = [share.id for share in resource.shares]
    answer = prefer(snapshot, resource, ids, [ids[0]], 3)
    assert len({name.split("::")[0] for name in answer.ids}) == 3


@pytest.mark.parametrize(
    ("policy", "rule"),
    [(Policy.DISTRIBUTED, Rule.LOAD), (Policy.PACKED, Rule.FULL), (Policy.SPREAD, Rule.LOAD)],
)
def test_the_criterion_of_the_policy_is_named(policy: Policy, rule: Rule) -> None:
    snapshot, resource = replicas(closeness(2, lambda a, b: 0), [4, 4], policy)
    free = [share.id for share in resource.shares][1:]
    assert prefer(snapshot, resource, free, [], 1).decided_by is rule


def test_many_cards_are_placed_exactly_too() -> None:
    close = closeness(24, lambda a, b: 18 if a // 8 == b // 8 else 0, lambda a, b: 1, lambda a: a // 8)
    for policy in Policy:
        snapshot, resource = replicas(close, [4] * 24, policy)
        ids = [share.id for share in resource.shares]
        answer = prefer(snapshot, resource, ids[4:], [], 4)
        assert answer.exact
        assert answer.domains == 1


def test_many_cards_in_use_unequally_are_placed_exactly_too() -> None:
    """One of the shares fills a card up to the others; the second may go on that card, or on any other."""
    close = closeness(18, lambda a, b: 18, lambda a, b: 1, lambda a: a // 9)
    snapshot, resource = replicas(close, [2] * 18)
    free = [share.id for share in resource.shares if share.replica == 1 or share.gpu_index == 17]
    answer = prefer(snapshot, resource, free, [], 2)
    assert answer.gpu_indices == (9, 17)
    assert answer.exact


@pytest.mark.parametrize(
    ("rooms", "size", "expected"),
    [([4, 4, 1, 1], 6, [4, 2, 0, 0]), ([1, 4, 1, 3], 5, [1, 4, 0, 0]), ([1, 1, 3, 3], 7, [1, 0, 3, 3])],
)
def test_unequal_holders_are_opened_as_few_as_can_be(rooms: list[int], size: int, expected: list[int]) -> None:
    snapshot, resource = replicas(closeness(4, lambda a, b: 1), rooms, Policy.PACKED)
    ids = prefer(snapshot, resource, [share.id for share in resource.shares], [], size).ids
    assert [sum(resource.by_id[name].gpu_index == card for name in ids) for card in range(4)] == expected


def test_of_cards_that_can_be_exchanged_the_less_loaded_are_taken_and_that_decided() -> None:
    close = closeness(3, lambda a, b: 12)
    snapshot, resource = replicas(close, [4] * 3, Policy.SPREAD)
    free = [share.id for share in resource.shares if share.gpu_index != 1 or share.replica == 0]
    answer = prefer(snapshot, resource, free, [], 2)
    assert answer.gpu_indices == (0, 2)
    assert answer.decided_by is Rule.LOAD
