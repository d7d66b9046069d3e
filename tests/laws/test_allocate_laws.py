"""What holds of `allocate` for any node, configuration and choice of ids."""

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from deviceplugin.config.document import Config
from deviceplugin.model.inventory import Handover, Inventory, Policy, Resource
from deviceplugin.model.node import Node
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.allocate import allocate
from deviceplugin.rules.offer import offer
from tests.laws.test_offer_laws import CONFIGS
from tests.strategies.nodes import nodes

ALL = ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")
ORDERS = st.sets(st.sampled_from(ALL), min_size=1).map(tuple)


def choose(inventory: Inventory, data: st.DataObject) -> tuple[Resource, list[str]]:
    assume(inventory.resources)
    resource = data.draw(st.sampled_from(sorted(inventory.resources.values(), key=lambda r: r.name)))
    resource = replace(resource, fail_above_one=False, policy=Policy.DISTRIBUTED)
    ids = data.draw(st.lists(st.sampled_from([share.id for share in resource.shares]), min_size=1, unique=True))
    return resource, ids


@given(nodes(4), CONFIGS, ORDERS, st.booleans(), st.data())
def test_each_device_is_handed_over_once_in_every_form(
    what: Node,
    config: Config,
    strategies: tuple[str, ...],
    by_index: bool,  # noqa: FBT001 - drawn by position
    data: st.DataObject,
) -> None:
    inventory = offer(what, config)
    resource, ids = choose(inventory, data)
    handover = Handover(strategies=strategies, by_index=by_index)
    snapshot = Snapshot(node=what, inventory=replace(inventory, handover=handover))
    grant = allocate(snapshot, resource, ids, lambda _: True, lambda: "u")

    devices = {resource.by_id[name].device for name in ids}
    names = list(
        dict.fromkeys(s.visible_index if by_index else s.device for s in resource.shares if s.device in devices)
    )
    kind = "k8s.device-plugin.nvidia.com/gpu="
    mounted = [m.container_path.rpartition("devices/")[2] for m in grant.mounts if m.host_path == "/dev/null"]
    visible = grant.envs.get("NVIDIA_VISIBLE_DEVICES")

    assert grant.cdi == (tuple(kind + name for name in names) if "cdi-cri" in strategies else ())
    assert list(grant.annotations.values()) == (
        [",".join(kind + name for name in names)] if "cdi-annotations" in strategies else []
    )
    assert mounted == (names if "volume-mounts" in strategies else [])
    if "volume-mounts" in strategies:
        assert visible == "/var/run/nvidia-container-devices"
    elif "envvar" in strategies:
        assert visible == ",".join(names)
    else:
        assert visible is None
