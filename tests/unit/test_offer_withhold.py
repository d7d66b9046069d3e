"""Devices taken out of an inventory after the fact."""

from deviceplugin.config.document import Config, Flags, MigStrategy
from deviceplugin.model.inventory import LeftOut, NodeState
from deviceplugin.rules.offer import offer, withhold
from tests.strategies.nodes import card, cards, cut_card, instance, node


def flaw(uuid: str) -> LeftOut:
    return LeftOut(uuid, 0, "cdi-incomplete", f"{uuid} lacks libcuda.so.1")


def test_a_card_goes_with_its_reason() -> None:
    inventory = withhold(offer(cards(2), Config()), [flaw(card(0).uuid)])
    assert [share.visible_index for share in inventory.resources["nvidia.com/gpu"].shares] == ["1"]
    assert list(inventory.resources["nvidia.com/gpu"].by_id) == [card(1).uuid]
    assert inventory.left_out == (flaw(card(0).uuid),)
    assert inventory.state is NodeState.SERVING


def test_instances_go_one_by_one_and_an_empty_resource_goes() -> None:
    flags = Flags(mig_strategy=MigStrategy.MIXED)
    before = offer(node(cut_card(0, "1g.10gb", "3g.40gb"), card(1)), Config(flags=flags))
    assert withhold(before, [flaw(card(0).uuid)]) is before
    one = withhold(before, [flaw(instance(0, 1).uuid)])
    assert list(one.resources) == ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu"]
    assert one.resources["nvidia.com/gpu"] is before.resources["nvidia.com/gpu"]


def test_nothing_left_is_a_state() -> None:
    inventory = withhold(offer(cards(1), Config()), [flaw(card(0).uuid)])
    assert (dict(inventory.resources), inventory.state) == ({}, NodeState.NOTHING)


def test_flaws_of_what_is_not_offered_change_nothing() -> None:
    before = offer(cards(1), Config())
    assert withhold(before, [flaw("GPU-else")]) is before
    assert withhold(before, []) is before
