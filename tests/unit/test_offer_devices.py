"""devices.include and devices.exclude."""

import pytest

from deviceplugin.config.document import Config, Devices, Flags, MigStrategy
from deviceplugin.model.inventory import Inventory, NodeState
from deviceplugin.rules.offer import offer
from tests.strategies.nodes import card, cards, cut_card, instance, node

MIXED = Flags(mig_strategy=MigStrategy.MIXED)


def offered(inventory: Inventory) -> list[str]:
    return [share.visible_index for resource in inventory.resources.values() for share in resource.shares]


def reasons(inventory: Inventory) -> dict[str, str]:
    return {out.device: out.reason for out in inventory.left_out}


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        (1, ["1"]),
        ("1", ["1"]),
        (card(1).uuid, ["1"]),
        ("00000000:11:00.0", ["1"]),
        ("0000:11:00.0", ["1"]),
        ("11:00.0", ["1"]),
        ("*:11:*", ["1"]),
        ("NVIDIA H100 80GB HBM3", ["0", "1", "3"]),
        ("*H100*", ["0", "1", "3"]),
        ("*", ["0", "1", "2", "3"]),
    ],
)
def test_a_card_is_named_by_index_uuid_bus_id_or_product(entry: str | int, kept: list[str]) -> None:
    mixed_models = node(card(0), card(1), card(2, name="NVIDIA L40S"), card(3))
    inventory = offer(mixed_models, Config(devices=Devices(include=(entry,))))
    assert offered(inventory) == kept
    assert inventory.warnings == ()
    inverse = offer(mixed_models, Config(devices=Devices(exclude=(entry,))))
    assert sorted(offered(inverse) + kept) == ["0", "1", "2", "3"]


def test_who_is_left_out_is_told_why_and_what_to_do() -> None:
    inventory = offer(cards(3), Config(devices=Devices(include=(0, 1), exclude=(1,))))
    assert offered(inventory) == ["0"]
    assert reasons(inventory) == {card(1).uuid: "excluded", card(2).uuid: "not-included"}
    assert inventory.left_out[0].detail == (
        f"GPU 1 ({card(1).uuid}) is named by devices.exclude; take the entry out to offer it"
    )
    assert "add it there" in inventory.left_out[1].detail


@pytest.mark.parametrize("section", ["include", "exclude"])
def test_an_entry_that_matches_nothing_is_warned_about(section: str) -> None:
    devices = Devices(include=(0, "9")) if section == "include" else Devices(exclude=("9",))
    (warning,) = offer(cards(1), Config(devices=devices)).warnings
    assert warning.startswith(f"devices.{section}: '9' names no GPU or MIG instance of this node; give a UUID")


def test_a_node_without_gpus_says_nothing_about_entries() -> None:
    assert offer(node(), Config(devices=Devices(include=("9",)))).warnings == ()


def test_an_excluded_card_takes_its_instances_along() -> None:
    inventory = offer(
        node(cut_card(0, "1g.10gb", "1g.10gb"), cut_card(1, "1g.10gb")),
        Config(flags=MIXED, devices=Devices(exclude=(0,))),
    )
    assert offered(inventory) == ["1:0"]
    assert reasons(inventory) == {card(0).uuid: "excluded"}


@pytest.mark.parametrize("entry", ["0:1", instance(0, 1).uuid])
def test_one_instance_can_be_excluded(entry: str) -> None:
    inventory = offer(
        node(cut_card(0, "1g.10gb", "1g.10gb"), card(1)), Config(flags=MIXED, devices=Devices(exclude=(entry,)))
    )
    assert offered(inventory) == ["0:0", "1"]
    assert reasons(inventory) == {instance(0, 1).uuid: "excluded"}


@pytest.mark.parametrize("entry", ["0:1", instance(0, 1).uuid])
def test_one_instance_can_be_included(entry: str) -> None:
    inventory = offer(
        node(cut_card(0, "1g.10gb", "1g.10gb"), card(1)), Config(flags=MIXED, devices=Devices(include=(entry,)))
    )
    assert offered(inventory) == ["0:1"]
    assert reasons(inventory) == {instance(0, 0).uuid: "not-included", card(1).uuid: "not-included"}


def test_a_card_whose_instances_are_all_excluded_is_not_taken_for_an_empty_one() -> None:
    inventory = offer(node(cut_card(0, "1g.10gb")), Config(flags=MIXED, devices=Devices(exclude=("0:0",))))
    assert reasons(inventory) == {instance(0, 0).uuid: "excluded"}
    assert inventory.state is NodeState.NOTHING
    assert inventory.warnings == ()


def test_exclusion_comes_before_the_strategy() -> None:
    single = Flags(mig_strategy=MigStrategy.SINGLE)
    inventory = offer(node(card(0), cut_card(1, "1g.10gb")), Config(flags=single, devices=Devices(exclude=(1,))))
    assert inventory.state is NodeState.SERVING
    assert offered(inventory) == ["0"]


def test_indices_stay_those_of_the_driver() -> None:
    inventory = offer(cards(3), Config(devices=Devices(exclude=(0,))))
    assert offered(inventory) == ["1", "2"]
    assert [share.minor for share in inventory.resources["nvidia.com/gpu"].shares] == [101, 102]
