"""sharing.timeSlicing and sharing.mps: replicas, their names, and which devices they are made of."""

from typing import Any

import pytest

from deviceplugin.config.document import (
    Config,
    Flags,
    MigStrategy,
    Pattern,
    PluginFlags,
    Replicas,
    Replicated,
    Resources,
    SharingSection,
)
from deviceplugin.model.inventory import Inventory, Policy, Sharing
from deviceplugin.model.node import Node
from deviceplugin.rules.offer import offer
from tests.strategies.nodes import card, cards, cut_card, node

GPU = "nvidia.com/gpu"


def slicing(*entries: Replicas, **block: Any) -> SharingSection:
    return SharingSection(time_slicing=Replicated(resources=entries, **block))


def entry(replicas: int = 2, devices: Any = "all", name: str = GPU, **more: Any) -> Replicas:
    return Replicas(name=name, replicas=replicas, devices=devices, **more)


def share_out(what: Node, *entries: Replicas, **block: Any) -> Inventory:
    return offer(what, Config(sharing=slicing(*entries, **block)))


def counts(inventory: Inventory) -> dict[str, dict[str, int]]:
    """Resource -> device -> number of shares."""
    found: dict[str, dict[str, int]] = {}
    for name, resource in inventory.resources.items():
        row = found.setdefault(name, {})
        for share in resource.shares:
            row[share.visible_index] = row.get(share.visible_index, 0) + 1
    return found


def test_every_card_is_cut_into_replicas_counted_from_nought() -> None:
    inventory = share_out(cards(2), entry(3))
    a, b = card(0).uuid, card(1).uuid
    resource = inventory.resources[GPU]
    assert [share.id for share in resource.shares] == [f"{a}::0", f"{a}::1", f"{a}::2", f"{b}::0", f"{b}::1", f"{b}::2"]
    assert [share.device for share in resource.shares] == [a, a, a, b, b, b]
    assert [share.replica for share in resource.shares] == [0, 1, 2, 0, 1, 2]
    assert resource.sharing is Sharing.TIME_SLICING
    assert inventory.conflicts == ()


@pytest.mark.parametrize(
    ("rename", "by_default", "name"),
    [
        (None, False, GPU),
        (None, True, "nvidia.com/gpu.shared"),
        ("gpu-slice", False, "nvidia.com/gpu-slice"),
        ("gpu-slice", True, "nvidia.com/gpu-slice"),
        ("example.com/slice", False, "example.com/slice"),
    ],
)
def test_shares_go_under_the_name_that_is_asked_for(rename: str | None, name: str, *, by_default: bool) -> None:
    inventory = share_out(cards(1), entry(rename=rename), rename_by_default=by_default)
    assert counts(inventory) == {name: {"0": 2}}


def test_names_without_domain_are_nvidia_s() -> None:
    assert counts(share_out(cards(1), entry(name="gpu"))) == {GPU: {"0": 2}}


@pytest.mark.parametrize(
    ("devices", "shared"),
    [
        ("all", ["0", "1", "2"]),
        (2, ["0", "1"]),
        ((1, "2"), ["1", "2"]),
        ((card(2).uuid,), ["2"]),
    ],
)
def test_devices_choose_what_is_shared(devices: Any, shared: list[str]) -> None:
    inventory = share_out(cards(3), entry(2, devices, rename="part"))
    assert list(counts(inventory)["nvidia.com/part"]) == shared
    assert list(counts(inventory).get(GPU, {})) == [index for index in ("0", "1", "2") if index not in shared]


def test_what_is_not_shared_stays_whole_in_the_same_resource() -> None:
    inventory = share_out(cards(2), entry(2, (1,)))
    assert [share.id for share in inventory.resources[GPU].shares] == [
        card(0).uuid,
        f"{card(1).uuid}::0",
        f"{card(1).uuid}::1",
    ]


def test_different_counts_on_one_node() -> None:
    inventory = share_out(cards(4), entry(2, (0, 1)), entry(4, (3,)))
    assert counts(inventory) == {GPU: {"0": 2, "1": 2, "2": 1, "3": 4}}
    assert inventory.conflicts == ()


def test_counts_add_up_and_take_what_no_list_names() -> None:
    inventory = share_out(cards(4), entry(2, 1), entry(3, 2), entry(4, (0,)))
    assert counts(inventory) == {GPU: {"0": 4, "1": 2, "2": 3, "3": 3}}
    assert inventory.conflicts == ()


@pytest.mark.parametrize(
    ("entries", "where"),
    [
        ((entry(2, (0,)), entry(3, ("0",))), "sharing.timeSlicing.resources[1].devices"),
        ((entry(2, (0,)), entry(3, (card(0).uuid,))), "sharing.timeSlicing.resources[1].devices"),
        ((entry(2, (0, card(0).uuid)),), "sharing.timeSlicing.resources[0].devices"),
        ((entry(3), entry(2, (0,))), "sharing.timeSlicing.resources[0].devices"),
        ((entry(2), entry(3)), "sharing.timeSlicing.resources[1].devices"),
    ],
)
def test_one_gpu_named_twice_is_a_conflict(entries: tuple[Replicas, ...], where: str) -> None:
    inventory = share_out(cards(1), *entries)
    (conflict,) = inventory.conflicts
    assert conflict.startswith(f"{where}: GPU 0 ({card(0).uuid}) is named twice, by sharing.timeSlicing.resources[")
    assert conflict.endswith("name it in one place only")
    assert counts(inventory) == {GPU: {"0": 2}}


def test_an_entry_that_matches_no_resource_is_warned_about_and_the_others_hold() -> None:
    inventory = share_out(cards(1), entry(), entry(name="nvidia.com/gpux"), entry(name="mig-1g.10gb"))
    end = "here are nvidia.com/gpu; the entry does nothing here"
    assert inventory.conflicts == ()
    assert inventory.warnings == (
        f"sharing.timeSlicing.resources[1].name: no device of this node is nvidia.com/gpux; {end}",
        f"sharing.timeSlicing.resources[2].name: no device of this node is nvidia.com/mig-1g.10gb; {end}",
    )


def test_profiles_that_are_not_there_yet_are_only_warned_about() -> None:
    flags = Flags(mig_strategy=MigStrategy.MIXED)
    inventory = offer(
        node(cut_card(0, "1g.10gb"), card(1)),
        Config(flags=flags, sharing=slicing(entry(name="mig-1g.10gb"), entry(name="nvidia.com/mig-3g.40gb"))),
    )
    assert inventory.conflicts == ()
    assert "nvidia.com/mig-3g.40gb" in inventory.warnings[0]
    assert counts(inventory) == {"nvidia.com/mig-1g.10gb": {"0:0": 2}, GPU: {"1": 1}}


@pytest.mark.parametrize("what", [node(), node(cut_card(0, "1g.10gb"), card(1))])
def test_where_nothing_is_offered_the_state_says_enough(what: Node) -> None:
    flags = Flags(mig_strategy=MigStrategy.SINGLE)
    assert offer(what, Config(flags=flags, sharing=slicing(entry(2, (5,))))).conflicts == ()


def test_a_device_that_is_not_there_is_warned_about() -> None:
    inventory = share_out(cards(2), entry(2, (1, 7)))
    assert inventory.conflicts == ()
    (warning,) = inventory.warnings
    assert warning.startswith("sharing.timeSlicing.resources[0].devices: '7' names no device of that resource now; ")
    assert warning.endswith("give a UUID, or an index of 0, 1")
    assert counts(inventory) == {GPU: {"0": 1, "1": 2}}


def test_a_count_of_more_than_there_are_takes_what_there_is_and_is_warned_about() -> None:
    inventory = share_out(cards(2), entry(2, (0,)), entry(3, 4))
    assert inventory.conflicts == ()
    (warning,) = inventory.warnings
    assert warning == (
        "sharing.timeSlicing.resources[1].devices: 4 devices are asked for, 1 of 2 are left for this entry; "
        "lower the count to 1, or write all"
    )
    assert counts(inventory) == {GPU: {"0": 2, "1": 3}}


def test_a_name_that_the_kubelet_would_refuse_is_a_conflict() -> None:
    inventory = share_out(cards(1), entry(rename="bad name"))
    assert len(inventory.conflicts) == 1
    assert inventory.conflicts[0].startswith("sharing.timeSlicing.resources[0]: ")
    assert counts(inventory) == {GPU: {"0": 1}}


def test_instances_are_shared_by_their_own_index() -> None:
    inventory = offer(
        node(cut_card(0, "1g.10gb", "1g.10gb", "3g.40gb")),
        Config(
            flags=Flags(mig_strategy=MigStrategy.MIXED),
            sharing=slicing(entry(2, ("0:1",), name="mig-1g.10gb"), rename_by_default=True),
        ),
    )
    assert counts(inventory) == {
        "nvidia.com/mig-1g.10gb": {"0:0": 1},
        "nvidia.com/mig-1g.10gb.shared": {"0:1": 2},
        "nvidia.com/mig-3g.40gb": {"0:2": 1},
    }
    assert inventory.resources["nvidia.com/mig-1g.10gb.shared"].mig_profile == "1g.10gb"


def test_resources_of_patterns_are_shared_too() -> None:
    config = Config(
        resources=Resources(gpus=(Pattern("*L40S", "l40s"),)), sharing=slicing(entry(4, name="nvidia.com/l40s"))
    )
    inventory = offer(node(card(0), card(1, name="NVIDIA L40S")), config)
    assert counts(inventory) == {GPU: {"0": 1}, "nvidia.com/l40s": {"1": 4}}
    assert inventory.resources[GPU].sharing is Sharing.NONE


@pytest.mark.parametrize(
    ("block", "given", "fails"),
    [
        ("time_slicing", None, False),
        ("time_slicing", True, True),
        ("mps", None, True),
        ("mps", False, False),
    ],
)
def test_requests_above_one_fail_as_the_block_says(block: str, given: bool | None, *, fails: bool) -> None:  # noqa: FBT001
    replicated = Replicated(resources=(entry(),), fail_requests_greater_than_one=given)
    inventory = offer(cards(1), Config(sharing=SharingSection(**{block: replicated})))
    assert inventory.resources[GPU].fail_above_one is fails


def test_the_policy_of_an_entry_comes_before_that_of_a_pattern_and_of_the_flag() -> None:
    config = Config(
        flags=Flags(plugin=PluginFlags(shared_devices_allocation_policy=Policy.PACKED)),
        resources=Resources(gpus=(Pattern("*L40S", "l40s", allocation_policy=Policy.SPREAD),)),
        sharing=slicing(
            entry(2, (1,), name="l40s", allocation_policy=Policy.STRICT),
            entry(2, (2,), name="l40s", allocation_policy=Policy.DISTRIBUTED),
        ),
    )
    two_models = node(card(0), *(card(n, name="NVIDIA L40S") for n in (1, 2, 3)))
    resources = offer(two_models, config).resources
    assert resources["nvidia.com/l40s"].policy is Policy.STRICT
    assert resources[GPU].policy is Policy.PACKED
    unshared = offer(two_models, Config(resources=config.resources)).resources
    assert unshared["nvidia.com/l40s"].policy is Policy.SPREAD


def mps(replicas: int) -> Config:
    return Config(sharing=SharingSection(mps=Replicated(resources=(entry(replicas),))))


def test_under_mps_one_share_is_allowed() -> None:
    inventory = offer(cards(1), mps(1))
    (share,) = inventory.resources[GPU].shares
    assert share.id == f"{card(0).uuid}::0"
    assert inventory.resources[GPU].sharing is Sharing.MPS


@pytest.mark.parametrize(("capability", "most"), [((9, 0), 48), ((7, 5), 48), ((7, 0), 16), ((6, 1), 16), (None, 48)])
def test_mps_takes_so_many_clients_and_no_more(capability: tuple[int, int] | None, most: int) -> None:
    what = node(card(0, compute_capability=capability))
    assert offer(what, mps(most)).conflicts == ()
    inventory = offer(what, mps(most + 1))
    (conflict,) = inventory.conflicts
    assert conflict == (
        f"sharing.mps.resources[0].replicas: GPU 0 ({card(0).uuid}) takes {most} MPS clients, "
        f"{most + 1} are asked for; set replicas to {most} or fewer"
    )
    assert len(inventory.resources[GPU].shares) == most
