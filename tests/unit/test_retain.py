from deviceplugin.model.inventory import Inventory, Resource, Share
from deviceplugin.model.node import Gpu, MigInstance, Node
from deviceplugin.rules.retain import devices, retain

GPU = "nvidia.com/gpu"


def share(uuid: str, replica: int | None = None, gpu: str = "") -> Share:
    name = uuid if replica is None else f"{uuid}::{replica}"
    return Share(id=name, device=uuid, gpu=gpu or uuid, gpu_index=0, visible_index="0", replica=replica)


def inventory(**resources: tuple[Share, ...]) -> Inventory:
    return Inventory(resources={name: Resource(name, shares) for name, shares in resources.items()})


def ids(of: Inventory) -> dict[str, list[str]]:
    return {name: [s.id for s in resource.shares] for name, resource in of.resources.items()}


def test_devices_are_cards_and_their_instances() -> None:
    instance = MigInstance("MIG-1", "GPU-a", 0, 1, 0, "1g.10gb")
    node = Node(gpus=(Gpu(0, "GPU-a", "0", "A", instances=(instance,)), Gpu(1, "GPU-b", "1", "B")))
    assert devices(node) == {"GPU-a", "MIG-1", "GPU-b"}


def test_nothing_gone_changes_nothing() -> None:
    before, now = inventory(gpu=(share("a"), share("b"))), inventory(gpu=(share("a"),))
    assert retain(before, now, ()) is now


def test_all_shares_of_a_vanished_card_stay_listed_behind_the_others() -> None:
    before = inventory(gpu=(share("a", 0), share("a", 1), share("b", 0), share("b", 1)))
    now = inventory(gpu=(share("b", 0), share("b", 1)))
    assert ids(retain(before, now, {"a"})) == {"gpu": ["b::0", "b::1", "a::0", "a::1"]}


def test_a_resource_that_lost_its_last_device_stays_until_the_grace_time_is_over() -> None:
    before, now = inventory(gpu=(share("a"),), mig=(share("m", gpu="a"),)), inventory(gpu=(share("a"),))
    assert ids(retain(before, now, {"m"})) == {"gpu": ["a"], "mig": ["m"]}
    assert ids(retain(before, now, {"other"})) == {"gpu": ["a"]}


def test_retaining_twice_lists_a_share_once() -> None:
    before, now = inventory(gpu=(share("a"), share("b"))), inventory(gpu=(share("b"),))
    once = retain(before, now, {"a"})
    assert ids(retain(once, now, {"a"})) == ids(once) == {"gpu": ["b", "a"]}
    assert ids(retain(once, once, {"a"})) == ids(once)
