"""sharing.mps: what each client of a card gets, and what MPS cannot do on a node."""

from typing import Any

import pytest

from deviceplugin.config.document import Config, Flags, MigStrategy, Replicas, Replicated, SharingSection
from deviceplugin.model.inventory import Inventory
from deviceplugin.model.mps import MpsDevice, MpsPlan
from deviceplugin.model.node import Node
from deviceplugin.rules.offer import offer
from tests.strategies.nodes import card, cards, cut_card, node

GPU = "nvidia.com/gpu"
MIB = 81559  # of a card


def shared(what: Node, *entries: Replicas, flags: Flags | None = None) -> Inventory:
    return offer(what, Config(flags=flags or Flags(), sharing=SharingSection(mps=Replicated(resources=entries))))


def plan(what: Node, *entries: Replicas) -> MpsPlan:
    inventory = shared(what, *entries)
    assert inventory.conflicts == ()
    found = inventory.resources[GPU].mps
    assert found is not None
    return found


def entry(replicas: int = 4, **more: Any) -> Replicas:
    return Replicas(name=GPU, replicas=replicas, **more)


def test_an_equal_part_of_memory_and_threads_is_the_default() -> None:
    assert plan(cards(2), entry(4)) == MpsPlan(
        (MpsDevice(card(0).uuid, 0, MIB // 4), MpsDevice(card(1).uuid, 1, MIB // 4)), 25
    )


@pytest.mark.parametrize(
    ("limit", "mib"),
    [
        (None, 20389),
        ("share", 20389),
        ("none", None),
        (0.5, 10194),
        ("0.5", 10194),
        (1, 20389),
        ("8Gi", 8192),
        ("500M", 476),
        ("79Gi", 80896),
        ("100k", 1),
    ],
)
def test_the_memory_limit_of_a_client(limit: Any, mib: int | None) -> None:
    assert [device.memory_mib for device in plan(cards(1), entry(4, memory_limit=limit)).devices] == [mib]


@pytest.mark.parametrize(
    ("replicas", "given", "percentage"), [(1, None, 100), (3, None, 33), (48, None, 2), (4, 60.0, 60), (4, 12.5, 12.5)]
)
def test_the_threads_of_a_client(replicas: int, given: float | None, percentage: float) -> None:
    assert plan(cards(1), entry(replicas, active_thread_percentage=given)).thread_percentage == percentage


def test_of_several_entries_for_one_resource_the_smallest_percentage_holds_and_each_card_has_its_own_limit() -> None:
    found = plan(cards(2), entry(2, devices=(0,)), entry(8, devices=(1,), memory_limit="1Gi"))
    assert [(device.index, device.memory_mib) for device in found.devices] == [(0, MIB // 2), (1, 1024)]
    assert found.thread_percentage == 12


@pytest.mark.parametrize(("limit", "mib"), [(None, None), (0.5, None), ("8Gi", 8192)])
def test_of_a_card_that_does_not_tell_its_memory_only_an_amount_can_be_kept(limit: Any, mib: int | None) -> None:
    devices = plan(node(card(0, memory=None)), entry(4, memory_limit=limit)).devices
    assert [device.memory_mib for device in devices] == [mib]


def test_more_memory_than_a_card_has_is_refused_with_what_it_has() -> None:
    inventory = shared(cards(1), entry(2, memory_limit="90Gi"))
    assert inventory.conflicts == (
        (
            f"sharing.mps.resources[0].memoryLimit: GPU 0 ({card(0).uuid}) has 81559 MiB, 90Gi is asked for; "
            "lower it, or write none"
        ),
    )


@pytest.mark.parametrize("strategy", [MigStrategy.NONE, MigStrategy.SINGLE])
def test_a_card_in_mig_mode_is_refused(strategy: MigStrategy) -> None:
    inventory = shared(node(cut_card(0, "1g.10gb")), entry(2), flags=Flags(mig_strategy=strategy))
    assert len(inventory.conflicts) == 1
    assert "is in MIG mode, and MPS shares whole cards only; switch MIG off" in inventory.conflicts[0]


def test_what_is_not_shared_has_no_plan() -> None:
    inventory = shared(cards(2), entry(2, devices=(1,), rename="nvidia.com/gpu.mps"))
    assert inventory.resources[GPU].mps is None
    assert inventory.resources["nvidia.com/gpu.mps"].mps is not None
    sliced = SharingSection(time_slicing=Replicated(resources=(entry(2),)))
    assert offer(cards(1), Config(sharing=sliced)).resources[GPU].mps is None
