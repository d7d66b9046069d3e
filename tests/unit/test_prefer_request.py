"""What the kubelet may ask for, and what it is told when it may not."""

import gc
import weakref
from collections.abc import Sequence

import pytest

from deviceplugin.model.errors import Refusal, RequestError
from deviceplugin.model.health import Health, Sickness
from deviceplugin.model.inventory import Policy
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.prefer.cards import Rule
from deviceplugin.rules.prefer.chooser import Chooser
from deviceplugin.rules.prefer.ground import ground_of
from deviceplugin.rules.prefer.prefer import prefer, prepare
from tests.strategies.fabrics import closeness, closeness_of, instances, offered, replicas, uuid, whole_cards

H100 = closeness_of("hgx-h100-8")
U = [f"{name}" for name in H100.uuids]
SICK = Sickness(uuid="", reason="xid-79", kind="lost", since=0.0)


def ask(available: Sequence[int], must: Sequence[int], size: int, health: Health | None = None) -> list[int]:
    snapshot, resource = whole_cards(H100, health or Health())
    answer = prefer(snapshot, resource, [U[i] for i in available], [U[i] for i in must], size)
    assert [U.index(name) for name in answer.ids] == list(answer.gpu_indices)
    return list(answer.gpu_indices)


@pytest.mark.parametrize(
    ("available", "must", "size", "numbers"),
    [
        (range(8), [], 0, ["0 devices asked for"]),
        (range(8), [], -3, ["-3 devices asked for"]),
        (range(4), [], 5, ["5 devices asked for", "4 available", "8 in this resource"]),
        (range(8), [1, 2, 3], 2, ["3 must-include ids", "size of 2"]),
        ([], [], 1, ["1 devices asked for", "0 available"]),
    ],
)
def test_sizes_that_cannot_be_met_are_refused_with_the_numbers(
    available: Sequence[int], must: Sequence[int], size: int, numbers: list[str]
) -> None:
    with pytest.raises(RequestError) as caught:
        ask(available, must, size)
    assert caught.value.refusal is Refusal.INVALID_ARGUMENT
    assert all(part in str(caught.value) for part in ("nvidia.com/gpu", *numbers))
    assert "\n" not in str(caught.value)


def test_a_must_include_that_the_resource_does_not_have_is_refused_by_name() -> None:
    snapshot, resource = whole_cards(H100)
    with pytest.raises(RequestError, match="GPU-gone") as caught:
        prefer(snapshot, resource, U, ["GPU-gone"], 2)
    assert caught.value.refusal is Refusal.INVALID_ARGUMENT


def test_unknown_ids_are_skipped_and_counted_and_duplicates_count_once() -> None:
    snapshot, resource = whole_cards(H100)
    answer = prefer(snapshot, resource, ["GPU-gone", U[5], U[5], "", U[2], "GPU-gone"], [], 2)
    assert answer.gpu_indices == (2, 5)
    assert answer.unknown == 2


def test_unknown_and_doubled_ids_do_not_make_up_numbers() -> None:
    snapshot, resource = whole_cards(H100)
    with pytest.raises(RequestError, match="2 devices asked for, 1 available"):
        prefer(snapshot, resource, [U[0], U[0], "GPU-gone"], [], 2)


def test_must_includes_count_as_available_and_once() -> None:
    assert ask([0, 1], [6, 6], 2) == [0, 6]
    assert ask([], [6, 7], 2) == [6, 7]


def test_all_that_is_there_is_the_only_choice() -> None:
    snapshot, resource = whole_cards(H100)
    assert prefer(snapshot, resource, U, [], 8).decided_by is Rule.ONLY
    assert prefer(snapshot, resource, U, U[:3], 3).decided_by is Rule.ONLY


def test_unhealthy_cards_are_taken_only_where_the_size_cannot_be_met_otherwise() -> None:
    health = Health(sick={U[0]: (SICK,), U[1]: (SICK,)})
    assert ask(range(8), [], 2, health) == [2, 3]
    assert ask(range(8), [], 6, health) == [2, 3, 4, 5, 6, 7]
    assert ask(range(8), [], 7, health) == [0, 2, 3, 4, 5, 6, 7]
    assert ask(range(8), [1], 2, health) == [1, 2]
    snapshot, resource = whole_cards(H100, health)
    assert prefer(snapshot, resource, U, [], 6).decided_by is Rule.HEALTH


def test_cards_that_health_ranks_last_are_taken_last_for_more_than_one() -> None:
    health = Health(last={U[0]: (SICK,), U[3]: (SICK,), "GPU-elsewhere": (SICK,)})
    assert ask(range(8), [], 2, health) == [1, 2]
    assert ask(range(8), [], 4, health) == [4, 5, 6, 7]
    assert ask(range(8), [], 7, health) == [0, 1, 2, 4, 5, 6, 7]
    assert ask(range(8), [0], 2, health) == [0, 1]
    assert ask(range(8), [], 1, health) == [0]


def test_a_card_that_the_scan_did_not_measure_is_far_from_all() -> None:
    snapshot, resource = whole_cards(H100)
    bare, same = offered(closeness(0, lambda a, b: 0), resource)
    answer = prefer(bare, same, U, [], 2)
    assert answer.gpu_indices == (0, 1)
    assert (answer.domains, answer.min_nvlink, answer.numa_nodes) == (2, 0, 1)
    assert prefer(snapshot, resource, U, [], 2).domains == 1


def test_a_resource_knows_its_cards_however_many_others_are_asked_about() -> None:
    first = whole_cards(H100)
    for width in range(1, 70):
        snapshot, resource = whole_cards(closeness(3, lambda a, b, width=width: width if b == 2 else 0))  # type: ignore[misc]
        assert prefer(snapshot, resource, [uuid(i) for i in range(3)], [], 2).sum_nvlink == width
    assert prefer(*first, U, [], 8).sum_nvlink == 18 * 28


@pytest.mark.parametrize("count", [4, 20])
def test_what_is_prepared_beforehand_gives_the_same_answer(count: int) -> None:
    close = closeness(count, lambda a, b: 2)
    cut, _ = instances(close, [2] * count)
    prepare(cut.inventory)
    snapshot, resource = whole_cards(close)
    prepare(snapshot.inventory)
    assert prefer(snapshot, resource, close.uuids, [], 3).gpu_indices == (0, 1, 2)


def test_what_belongs_to_earlier_scans_is_forgotten_and_what_is_the_same_is_not_worked_out_again() -> None:
    def scanned(width: int) -> Snapshot:
        close = closeness(12, lambda a, b: width if a < 3 else 1)
        snapshot, _ = whole_cards(close)
        prepare(snapshot.inventory)
        return snapshot

    def chooser(snapshot: Snapshot) -> "weakref.ref[Chooser]":
        return weakref.ref(
            ground_of(snapshot.inventory.closeness, snapshot.inventory.resources["nvidia.com/gpu"]).chooser
        )

    first, again = chooser(scanned(2)), chooser(scanned(2))
    assert first() is not None
    assert first() is again()
    chooser(scanned(3))
    gc.collect()
    assert first() is None


def test_strict_refuses_what_cannot_be_spread_with_the_numbers() -> None:
    close = closeness(3, lambda a, b: 0)
    snapshot, resource = replicas(close, [2, 2, 2], Policy.STRICT)
    ids = [share.id for share in resource.shares]
    with pytest.raises(RequestError, match="4 shares on as many GPUs or MIG instances, 3 have one") as caught:
        prefer(snapshot, resource, ids, [], 4)
    assert caught.value.refusal is Refusal.FAILED_PRECONDITION
    with pytest.raises(RequestError, match="policy strict"):
        prefer(snapshot, resource, ids, ids[:2], 3)
    assert len({name.split("::")[0] for name in prefer(snapshot, resource, ids, [], 3).ids}) == 3


def test_a_sick_card_gives_no_share_while_others_can() -> None:
    close = closeness(2, lambda a, b: 0)
    _, resource = replicas(close, [3, 3], Policy.DISTRIBUTED)
    snapshot, resource = offered(close, resource, Health(sick={uuid(0): (SICK,)}))
    ids = [share.id for share in resource.shares]
    assert prefer(snapshot, resource, ids, [], 3).gpu_indices == (1,)
    assert prefer(snapshot, resource, ids, [], 4).gpu_indices == (0, 1)


def test_a_sick_mig_instance_is_left_out_alone() -> None:
    snapshot, resource = instances(closeness(1, lambda a, b: 0), [3])
    snapshot, resource = offered(snapshot.inventory.closeness, resource, Health(sick={"MIG-0-0": (SICK,)}))
    assert prefer(snapshot, resource, [s.id for s in resource.shares], [], 2).ids == ("MIG-0-1", "MIG-0-2")
