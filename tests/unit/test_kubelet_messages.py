"""The model in the kubelet's words."""

from types import MappingProxyType

from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.kubelet import messages
from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.model.grant import DeviceNode, Grant, Mount
from deviceplugin.model.health import Health, Sickness
from deviceplugin.model.inventory import Inventory, Resource, Share
from deviceplugin.model.snapshot import Snapshot

SICK = (Sickness("GPU-b", "xid-79", "lost", 0.0),)


def share(id_: str, gpu: str = "GPU-a", device: str | None = None, numa: int | None = None) -> Share:
    return Share(id_, device or gpu, gpu, 0, "0", numa=numa)


def listed(resource: Resource, health: Health) -> wire.ListAndWatchResponse:
    """The list of one resource as a kubelet decodes it, made by a fresh lister."""
    snapshot = Snapshot(inventory=Inventory(resources={resource.name: resource}), health=health)
    return wire.ListAndWatchResponse.FromString(messages.Lister(resource.name).frame(snapshot).data)


def test_a_list_keeps_the_order_of_the_shares_and_names_the_numa_node_where_it_is_known() -> None:
    resource = Resource("nvidia.com/gpu", (share("GPU-b::0", numa=0), share("GPU-a::1"), share("GPU-a::0", numa=3)))
    fit = listed(resource, Health())
    assert [device.ID for device in fit.devices] == ["GPU-b::0", "GPU-a::1", "GPU-a::0"]
    assert [[node.ID for node in device.topology.nodes] for device in fit.devices] == [[0], [], [3]]
    assert [device.HasField("topology") for device in fit.devices] == [True, False, True]
    assert {device.health for device in fit.devices} == {"Healthy"}


def test_sickness_of_the_card_takes_out_all_that_is_on_it_and_sickness_of_an_instance_only_that() -> None:
    resource = Resource(
        "nvidia.com/mig-1g.10gb",
        (share("MIG-1", "GPU-b", "MIG-1"), share("MIG-2", "GPU-b", "MIG-2"), share("MIG-3", "GPU-a", "MIG-3")),
    )
    card = listed(resource, Health(sick=MappingProxyType({"GPU-b": SICK})))
    assert [device.health for device in card.devices] == ["Unhealthy", "Unhealthy", "Healthy"]
    instance = listed(resource, Health(sick=MappingProxyType({"MIG-2": SICK})))
    assert [device.health for device in instance.devices] == ["Healthy", "Unhealthy", "Healthy"]
    ranked = listed(resource, Health(last=MappingProxyType({"GPU-b": SICK})))
    assert [device.health for device in ranked.devices] == ["Healthy"] * 3


def test_a_frame_is_the_serialised_list_with_its_counts() -> None:
    resource = Resource("nvidia.com/gpu", (share("GPU-a"), share("GPU-b", "GPU-b")))
    snapshot = Snapshot(
        inventory=Inventory(resources={resource.name: resource}), health=Health(sick=MappingProxyType({"GPU-b": SICK}))
    )
    frame = messages.Lister(resource.name).frame(snapshot)
    assert (frame.devices, frame.unhealthy) == (2, 1)
    whole = wire.ListAndWatchResponse(
        devices=[wire.Device(ID="GPU-a", health="Healthy"), wire.Device(ID="GPU-b", health="Unhealthy")]
    )
    assert frame.data == whole.SerializeToString()


def test_a_resource_that_is_not_offered_has_an_empty_list() -> None:
    frame = messages.Lister("nvidia.com/gpu").frame(Snapshot())
    assert frame == messages.Frame(b"", 0, 0)
    assert not wire.ListAndWatchResponse.FromString(frame.data).devices


def test_all_of_a_grant_reaches_the_container() -> None:
    grant = Grant(
        envs={"NVIDIA_VISIBLE_DEVICES": "GPU-a"},
        mounts=(Mount("/in", "/host", read_only=True),),
        devices=(DeviceNode("/dev/nvidia0", "/host/dev/nvidia0", "rwm"),),
        annotations={"cdi.k8s.io/x": "nvidia.com/gpu=0"},
        cdi=("nvidia.com/gpu=0", "nvidia.com/gpu=1"),
    )
    answer = wire.AllocateResponse()
    messages.add_grant(answer, grant)
    messages.add_grant(answer, Grant())
    full, empty = answer.container_responses
    assert full == wire.ContainerAllocateResponse(
        envs={"NVIDIA_VISIBLE_DEVICES": "GPU-a"},
        mounts=[wire.Mount(container_path="/in", host_path="/host", read_only=True)],
        devices=[wire.DeviceSpec(container_path="/dev/nvidia0", host_path="/host/dev/nvidia0", permissions="rwm")],
        annotations={"cdi.k8s.io/x": "nvidia.com/gpu=0"},
        cdi_devices=[wire.CDIDevice(name="nvidia.com/gpu=0"), wire.CDIDevice(name="nvidia.com/gpu=1")],
    )
    assert empty == wire.ContainerAllocateResponse()


def test_register_says_the_version_and_the_options_that_the_service_answers() -> None:
    request = messages.register_request("nvidia.com/gpu", "nvidia-gpu-01234567.sock")
    assert (request.version, request.endpoint, request.resource_name) == (
        "v1beta1",
        "nvidia-gpu-01234567.sock",
        "nvidia.com/gpu",
    )
    assert request.options == messages.OPTIONS
    assert request.options.get_preferred_allocation_available
    assert not request.options.pre_start_required


def test_a_list_made_after_others_is_as_one_made_afresh() -> None:
    lister = messages.Lister("nvidia.com/gpu")
    worlds = [
        ((share("GPU-a"), share("GPU-b", "GPU-b")), ()),
        ((share("GPU-a"), share("GPU-b", "GPU-b")), ("GPU-b",)),
        ((share("GPU-a"), share("GPU-b", "GPU-b")), ()),
        ((share("GPU-a", numa=1), share("GPU-b", "GPU-b")), ("GPU-a",)),
        ((share("GPU-b", "GPU-b"),), ("GPU-a",)),
        ((), ()),
    ]
    for shares, sick in worlds:
        resource = Resource("nvidia.com/gpu", shares)
        health = Health(sick=MappingProxyType(dict.fromkeys(sick, SICK)))
        frame = lister.frame(Snapshot(inventory=Inventory(resources={resource.name: resource}), health=health))
        assert wire.ListAndWatchResponse.FromString(frame.data) == listed(resource, health)


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 7)), max_size=20),
    st.sets(st.sampled_from("abcd")),
)
def test_every_share_is_listed_once_and_healthy_exactly_when_its_card_is_not_sick(
    cards: list[tuple[str, int | None]], sick: set[str]
) -> None:
    shares = tuple(share(f"GPU-{card}::{n}", f"GPU-{card}", numa=numa) for n, (card, numa) in enumerate(cards))
    resource = Resource("nvidia.com/gpu", shares)
    health = Health(sick=MappingProxyType({f"GPU-{card}": SICK for card in sick}))
    snapshot = Snapshot(inventory=Inventory(resources={resource.name: resource}), health=health)
    frame = messages.Lister(resource.name).frame(snapshot)
    listed = wire.ListAndWatchResponse.FromString(frame.data).devices
    assert [device.ID for device in listed] == [s.id for s in shares]
    assert [device.health == "Healthy" for device in listed] == [card not in sick for card, _ in cards]
    assert frame.unhealthy == sum(device.health == "Unhealthy" for device in listed)
