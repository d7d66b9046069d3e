"""Whose a device is (M1): ids to hardware, one holder per pod, nothing of other plugins."""

from deviceplugin.kubelet.podresources import Holding
from deviceplugin.model.node import Gpu, MigInstance, Node
from deviceplugin.rules.attribute import Holder, attribute

MIG = MigInstance("MIG-1", "GPU-b", slot=0, gi=1, ci=0, profile="1g.10gb")
OTHER = MigInstance("MIG-2", "GPU-b", slot=1, gi=2, ci=0, profile="1g.10gb")
NODE = Node(gpus=(Gpu(0, "GPU-a", "0:1", "A"), Gpu(1, "GPU-b", "0:2", "A", instances=(MIG, OTHER))))


def claim(*ids: str, pod: str = "p", container: str = "c", resource: str = "nvidia.com/gpu") -> Holding:
    return Holding("ns", pod, container, resource, ids)


def test_a_whole_card_is_held_by_its_pod() -> None:
    found = attribute(NODE, [claim("GPU-a")])
    assert found.cards == {"GPU-a": (Holder("ns", "p", "c", "nvidia.com/gpu"),)}
    assert found.instances == {}
    assert found.ids == {"nvidia.com/gpu": {"GPU-a"}}


def test_a_replica_counts_for_its_card() -> None:
    found = attribute(NODE, [claim("GPU-a::3")])
    assert found.cards["GPU-a"] == (Holder("ns", "p", "c", "nvidia.com/gpu"),)
    assert found.ids == {"nvidia.com/gpu": {"GPU-a::3"}}


def test_a_mig_instance_counts_for_itself_and_for_its_card() -> None:
    found = attribute(NODE, [claim("MIG-1::0", resource="nvidia.com/mig-1g.10gb")])
    assert found.instances == {"MIG-1": (Holder("ns", "p", "c", "nvidia.com/mig-1g.10gb"),)}
    assert found.cards == {"GPU-b": (Holder("ns", "p", "c", "nvidia.com/mig-1g.10gb"),)}


def test_each_pod_on_a_shared_card_is_one_holder_in_a_steady_order() -> None:
    claims = [claim("GPU-a::1", pod="b"), claim("GPU-a::0", pod="a")]
    found = attribute(NODE, claims)
    assert [holder.pod for holder in found.cards["GPU-a"]] == ["a", "b"]
    assert found == attribute(NODE, reversed(claims))


def test_two_containers_of_one_pod_are_one_holder() -> None:
    claims = [
        claim("GPU-a::1", container="side"),
        claim("GPU-a::0", container="main", resource="nvidia.com/gpu.shared"),
        claim("GPU-a::2", container="main"),
    ]
    assert attribute(NODE, claims).cards["GPU-a"] == (
        Holder("ns", "p", "main,side", "nvidia.com/gpu,nvidia.com/gpu.shared", shares=3),
    )


def test_several_instances_of_one_card_are_one_holder_of_the_card() -> None:
    found = attribute(NODE, [claim("MIG-1", "MIG-2")])
    assert [holder.shares for holder in found.cards["GPU-b"]] == [2]
    assert [holder.shares for holder in found.instances["MIG-2"]] == [1]


def test_devices_of_other_plugins_are_left_out() -> None:
    found = attribute(NODE, [claim("eth0", resource="example.com/nic"), claim("GPU-gone")])
    assert (found.cards, found.instances, found.ids) == ({}, {}, {})


def test_a_replica_that_is_no_longer_offered_still_has_its_holder() -> None:
    assert (
        attribute(NODE, [claim("GPU-a::99", resource="nvidia.com/old")]).cards["GPU-a"][0].resource == "nvidia.com/old"
    )
