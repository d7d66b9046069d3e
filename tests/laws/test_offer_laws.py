"""What holds of `offer` for any node and configuration."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deviceplugin.config.document import (
    Config,
    Devices,
    Flags,
    MigStrategy,
    Pattern,
    PluginFlags,
    Replicas,
    Replicated,
    Resources,
    SharingSection,
)
from deviceplugin.config.names import resource_fault
from deviceplugin.model.inventory import Inventory, NodeState, Sharing
from deviceplugin.model.node import Node
from deviceplugin.rules.identify import split_id
from deviceplugin.rules.offer import offer
from deviceplugin.rules.offer.fit import LIMIT, list_size
from tests.strategies.nodes import PRODUCTS, PROFILES, card, instance, nodes

NODES = nodes(5)
REFERENCES: st.SearchStrategy[Any] = st.one_of(
    st.integers(0, 8),
    st.sampled_from(("0:0", "1:3", "2", card(1).uuid, instance(0, 1).uuid, "*A100*", "11:00.0", "nothing")),
)
NAMES = st.sampled_from(("nvidia.com/gpu", "gpu", "mig-1g.10gb", "nvidia.com/mig-3g.40gb", "l40s", "bad name"))
ENTRIES = st.builds(
    Replicas,
    name=NAMES,
    replicas=st.integers(1, 5),
    rename=st.sampled_from((None, None, "shared", "nvidia.com/gpu", "-")),
    devices=st.one_of(st.just("all"), st.integers(1, 9), st.lists(REFERENCES, min_size=1, max_size=4).map(tuple)),
)
BLOCKS = st.builds(
    Replicated,
    resources=st.lists(ENTRIES, min_size=1, max_size=4).map(tuple),
    rename_by_default=st.booleans(),
)
PATTERNS = st.builds(
    Pattern,
    pattern=st.sampled_from(("*", *PRODUCTS, *PROFILES, "1g*")),
    name=st.sampled_from(("", "l40s", "nvidia.com/gpu", "not a name")),
    memory=st.sampled_from((None, ">=80Gi", "<24Gi", "bad")),
    pci=st.sampled_from((None, "11:00.0", "*")),
)
CONFIGS = st.builds(
    Config,
    flags=st.builds(
        Flags,
        mig_strategy=st.sampled_from(MigStrategy),
        plugin=st.builds(PluginFlags, pass_device_specs=st.booleans()),
    ),
    resources=st.builds(
        Resources, gpus=st.lists(PATTERNS, max_size=2).map(tuple), mig=st.lists(PATTERNS, max_size=2).map(tuple)
    ),
    sharing=st.one_of(
        st.just(SharingSection()),
        BLOCKS.map(lambda block: SharingSection(time_slicing=block)),
        BLOCKS.map(lambda block: SharingSection(mps=block)),
    ),
    devices=st.builds(
        Devices,
        include=st.lists(REFERENCES, max_size=2).map(tuple),
        exclude=st.lists(REFERENCES, max_size=2).map(tuple),
    ),
)


def shares_of(inventory: Inventory) -> Iterator[Any]:
    for resource in inventory.resources.values():
        yield from resource.shares


@given(NODES, CONFIGS)
def test_the_same_hardware_and_configuration_give_the_same_offer(what: Node, config: Config) -> None:
    once, again = offer(what, config), offer(replace(what), config)
    assert once == again
    assert list(once.resources) == list(again.resources)


@given(NODES, CONFIGS)
def test_every_device_is_offered_once_or_left_out_with_a_reason(what: Node, config: Config) -> None:
    inventory = offer(what, config)
    offered = {share.device for share in shares_of(inventory)}
    left_out = {out.device for out in inventory.left_out}
    assert not offered & left_out
    for gpu in what.gpus:
        for part in gpu.instances:
            assert part.uuid in offered | left_out or gpu.uuid in offered | left_out
        if not gpu.instances:
            assert gpu.uuid in offered | left_out
        assert not (gpu.uuid in offered and any(part.uuid in offered for part in gpu.instances))
    assert all(out.reason and out.device in out.detail for out in inventory.left_out)


@given(NODES, CONFIGS)
def test_ids_are_unique_on_the_node_and_one_device_is_in_one_resource(what: Node, config: Config) -> None:
    inventory = offer(what, config)
    assert max(Counter(share.id for share in shares_of(inventory)).values(), default=1) == 1
    homes: dict[str, set[str]] = {}
    for name, resource in inventory.resources.items():
        for share in resource.shares:
            homes.setdefault(share.device, set()).add(name)
    assert all(len(home) == 1 for home in homes.values())


@given(NODES, CONFIGS)
def test_shares_are_what_their_hardware_is(what: Node, config: Config) -> None:
    inventory = offer(what, config)
    for resource in inventory.resources.values():
        assert resource.shares
        assert resource_fault(resource.name) is None
        assert list_size(resource.shares) <= LIMIT
        keys = [(s.gpu_index, int(s.visible_index.rpartition(":")[2]), s.replica or 0) for s in resource.shares]
        assert keys == sorted(keys)
        assert (resource.sharing is Sharing.NONE) == all(share.replica is None for share in resource.shares)
        for share in resource.shares:
            assert split_id(share.id) == (share.device, share.replica)
            gpu = what.gpus[share.gpu_index]
            assert (share.gpu, share.numa, share.minor) == (gpu.uuid, gpu.numa, gpu.minor)


@given(NODES, CONFIGS)
def test_the_state_says_whether_anything_is_served(what: Node, config: Config) -> None:
    inventory = offer(what, config)
    assert (inventory.state is NodeState.SERVING) == bool(inventory.resources)


@given(NODES, CONFIGS, st.integers(0, 4))
def test_a_card_that_is_excluded_is_nowhere(what: Node, config: Config, index: int) -> None:
    exclude = replace_devices(config, index)
    inventory = offer(what, exclude)
    assert all(share.gpu_index != index for share in shares_of(inventory))


def replace_devices(config: Config, index: int) -> Config:
    return Config(
        flags=config.flags,
        resources=config.resources,
        sharing=config.sharing,
        devices=Devices(include=config.devices.include, exclude=(*config.devices.exclude, index)),
    )
