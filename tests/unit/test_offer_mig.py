"""MIG strategies on nodes that no catalogue machine shows."""

import pytest

from deviceplugin.config.document import Cdi, CdiSpec, Config, Flags, ListStrategy, MigStrategy, PluginFlags
from deviceplugin.model.inventory import Inventory, NodeState
from deviceplugin.model.node import Node
from deviceplugin.rules.offer import offer
from tests.strategies.nodes import card, cut_card, instance, node


def offer_under(strategy: MigStrategy, what: Node, host_root: str = "/") -> Inventory:
    return offer(what, Config(flags=Flags(mig_strategy=strategy)), host_root)


def offered(inventory: Inventory) -> dict[str, list[str]]:
    return {name: [share.visible_index for share in r.shares] for name, r in inventory.resources.items()}


def reasons(inventory: Inventory) -> dict[str, str]:
    return {out.device: out.reason for out in inventory.left_out}


def test_single_leaves_an_empty_card_out_and_serves_the_rest() -> None:
    inventory = offer_under(MigStrategy.SINGLE, node(cut_card(0), cut_card(1, "1g.10gb", "1g.10gb")))
    assert offered(inventory) == {"nvidia.com/gpu": ["1:0", "1:1"]}
    assert reasons(inventory) == {card(0).uuid: "mig-mode-empty"}
    assert inventory.state is NodeState.SERVING
    assert inventory.warnings == (inventory.left_out[0].detail,)


@pytest.mark.parametrize("strategy", [MigStrategy.SINGLE, MigStrategy.MIXED])
def test_only_empty_cards_are_a_state_of_their_own(strategy: MigStrategy) -> None:
    inventory = offer_under(strategy, node(cut_card(0), cut_card(1)))
    assert inventory.state is NodeState.MIG_EMPTY
    assert offered(inventory) == {}
    assert "nvidia-smi mig -cgi" in inventory.left_out[0].detail


def test_mixed_leaves_an_empty_card_out_and_serves_the_rest() -> None:
    inventory = offer_under(MigStrategy.MIXED, node(cut_card(0), card(1)))
    assert offered(inventory) == {"nvidia.com/gpu": ["1"]}
    assert inventory.state is NodeState.SERVING


def test_single_serves_cards_that_know_no_mig() -> None:
    inventory = offer_under(MigStrategy.SINGLE, node(card(0, mig_enabled=None, mig_pending=None)))
    assert offered(inventory) == {"nvidia.com/gpu": ["0"]}


def test_single_names_what_differs() -> None:
    partial = offer_under(MigStrategy.SINGLE, node(card(0), cut_card(1, "1g.10gb"), card(2)))
    assert partial.state is NodeState.MIG_PARTIAL
    assert "on for GPU 1 and off for GPU 0, 2" in partial.left_out[0].detail
    unequal = offer_under(MigStrategy.SINGLE, node(cut_card(0, "3g.40gb", "1g.10gb")))
    assert unequal.state is NodeState.MIG_UNEQUAL
    assert "here are 1g.10gb, 3g.40gb" in unequal.left_out[0].detail


def test_profiles_with_and_without_media_extensions_are_unequal() -> None:
    assert offer_under(MigStrategy.SINGLE, node(cut_card(0, "1g.10gb", "1g.10gb+me"))).state is NodeState.MIG_UNEQUAL


def test_instances_that_are_not_offered_do_not_make_profiles_unequal() -> None:
    odd = instance(0, 1, "1c.3g.40gb", complete=False)
    inventory = offer_under(MigStrategy.SINGLE, node(cut_card(0, instances=(instance(0, 0), odd))))
    assert offered(inventory) == {"nvidia.com/gpu": ["0:0"]}
    assert reasons(inventory) == {odd.uuid: "partial-compute-instance"}
    assert "(1c.3g.40gb) has a compute instance smaller than its GPU instance" in inventory.left_out[0].detail


def test_an_instance_of_unknown_profile_is_left_out() -> None:
    inventory = offer_under(MigStrategy.MIXED, node(cut_card(0, None, "1g.10gb")))
    assert offered(inventory) == {"nvidia.com/mig-1g.10gb": ["0:1"]}
    assert reasons(inventory) == {instance(0, 0).uuid: "mig-profile-unknown"}


def test_a_card_of_partial_instances_only_is_not_an_empty_one() -> None:
    parts = (instance(0, 0, None, complete=False),)
    inventory = offer_under(MigStrategy.MIXED, node(cut_card(0, instances=parts)))
    assert reasons(inventory) == {parts[0].uuid: "partial-compute-instance"}
    assert inventory.state is NodeState.NOTHING


@pytest.mark.parametrize("strategy", [MigStrategy.SINGLE, MigStrategy.MIXED])
def test_a_pending_mode_is_warned_about(strategy: MigStrategy) -> None:
    (warning,) = offer_under(strategy, node(card(0, mig_pending=True))).warnings
    assert warning == (
        f"GPU 0 ({card(0).uuid}) has MIG mode off and on pending: "
        "reset the GPU (nvidia-smi --gpu-reset) once nothing uses it"
    )


def test_instances_come_by_slot_whatever_order_they_were_found_in() -> None:
    found = (instance(0, 10), instance(0, 2), instance(0, 0))
    inventory = offer_under(MigStrategy.MIXED, node(cut_card(0, instances=found)))
    assert offered(inventory) == {"nvidia.com/mig-1g.10gb": ["0:0", "0:2", "0:10"]}


def test_lost_cards_stay_listed() -> None:
    inventory = offer_under(MigStrategy.NONE, node(card(0), card(1, lost=True)))
    assert offered(inventory) == {"nvidia.com/gpu": ["0", "1"]}


def test_an_instance_carries_its_nodes() -> None:
    inventory = offer_under(MigStrategy.MIXED, node(cut_card(3, "1g.10gb", "1g.10gb")))
    share = inventory.resources["nvidia.com/mig-1g.10gb"].shares[1]
    assert share.capabilities == ("/dev/nvidia-caps/nvidia-cap303", "/dev/nvidia-caps/nvidia-cap304")
    assert share.minor == 103
    assert share.gpu == card(3).uuid
    assert inventory.resources["nvidia.com/mig-1g.10gb"].mig_profile == "1g.10gb"


@pytest.mark.parametrize(
    ("missing", "entries"),
    [
        ({"gi_capability": None}, "gpu100/gi7/access of"),
        ({"ci_capability": None}, "gpu100/gi7/ci0/access of"),
        ({"gi_capability": None, "ci_capability": None}, "gpu100/gi7/access and gpu100/gi7/ci0/access of"),
    ],
)
def test_an_instance_without_capability_nodes_is_not_advertised(missing: dict[str, None], entries: str) -> None:
    bare = instance(0, 0, **missing)
    inventory = offer_under(MigStrategy.MIXED, node(cut_card(0, instances=(bare, instance(0, 1)))))
    assert offered(inventory) == {"nvidia.com/mig-1g.10gb": ["0:1"]}
    (out,) = inventory.left_out
    assert (out.device, out.reason) == (bare.uuid, "no-capability-node")
    assert f"for {entries} /proc/driver/nvidia-caps/mig-minors" in out.detail


def bare_node() -> Node:
    bare = instance(0, 0, gi_capability=None, ci_capability=None)
    return node(cut_card(0, instances=(bare,), minor=None))


def test_where_no_node_is_seen_and_none_is_handed_over_instances_are_served_with_a_warning() -> None:
    inventory = offer_under(MigStrategy.MIXED, bare_node())
    assert offered(inventory) == {"nvidia.com/mig-1g.10gb": ["0:0"]}
    assert "gpu?/gi7/access" in inventory.warnings[0]


def test_a_host_root_that_was_given_shows_all_there_is() -> None:
    assert offered(offer_under(MigStrategy.MIXED, bare_node(), "/fake")) == {}


@pytest.mark.parametrize(
    "config",
    [
        Config(flags=Flags(plugin=PluginFlags(pass_device_specs=True))),
        Config(flags=Flags(plugin=PluginFlags(device_list_strategy=(ListStrategy.ENVVAR, ListStrategy.CDI_CRI)))),
    ],
)
def test_where_nodes_are_handed_over_they_must_be_seen(config: Config) -> None:
    flags = Flags(mig_strategy=MigStrategy.MIXED, plugin=config.flags.plugin)
    inventory = offer(bare_node(), Config(flags=flags))
    assert offered(inventory) == {}
    assert inventory.left_out[0].reason == "no-capability-node"


def test_an_external_cdi_specification_names_its_own_nodes() -> None:
    flags = Flags(mig_strategy=MigStrategy.MIXED, plugin=PluginFlags(device_list_strategy=(ListStrategy.CDI_CRI,)))
    inventory = offer(bare_node(), Config(flags=flags, cdi=Cdi(spec=CdiSpec.EXTERNAL)))
    assert offered(inventory) == {"nvidia.com/mig-1g.10gb": ["0:0"]}


@pytest.mark.parametrize(
    ("strategies", "kept"),
    [
        ((ListStrategy.ENVVAR,), []),
        ((ListStrategy.CDI_CRI, ListStrategy.VOLUME_MOUNTS), []),
        ((ListStrategy.CDI_CRI, ListStrategy.CDI_ANNOTATIONS), ["0"]),
    ],
)
def test_device_specs_need_a_minor_number(strategies: tuple[ListStrategy, ...], kept: list[str]) -> None:
    plugin = PluginFlags(pass_device_specs=True, device_list_strategy=strategies)
    inventory = offer(node(card(0, minor=None)), Config(flags=Flags(plugin=plugin)))
    assert offered(inventory).get("nvidia.com/gpu", []) == kept
    assert [out.reason for out in inventory.left_out] == ([] if kept else ["no-minor-number"])
