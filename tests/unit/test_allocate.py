"""Requests that are refused, and what depends on the node: devices gone, channels missing, roots."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Config, Flags, MigStrategy, Replicas, Replicated, SharingSection
from deviceplugin.model.errors import Refusal, RequestError
from deviceplugin.model.grant import DeviceNode, Grant, Mount
from deviceplugin.model.health import Health, Sickness
from deviceplugin.model.inventory import Handover, Inventory, Policy
from deviceplugin.model.node import Node
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.allocate import allocate
from deviceplugin.rules.offer import offer
from tests.strategies.nodes import card, cards, cut_card, instance, node

GPU = "nvidia.com/gpu"


def everything(path: str) -> bool:
    return True


def snapshot_of(inventory: Inventory, handover: Handover | None = None, health: Health | None = None) -> Snapshot:
    return Snapshot(
        inventory=inventory if handover is None else replace(inventory, handover=handover), health=health or Health()
    )


def ask(
    snapshot: Snapshot,
    ids: Sequence[str],
    name: str = GPU,
    exists: Callable[[str], bool] = everything,
) -> Grant:
    return allocate(snapshot, snapshot.inventory.resources[name], ids, exists, lambda: "u1")


def whole(count: int = 4, health: Health | None = None, **handover: Any) -> Snapshot:
    return snapshot_of(offer(cards(count), Config()), Handover(**handover), health)


def shared(what: Node, replicas: int = 4, *, mps: bool = False, **block: Any) -> Inventory:
    replicated = Replicated(resources=(Replicas(name=GPU, replicas=replicas),), **block)
    return offer(what, Config(sharing=SharingSection(**{"mps" if mps else "time_slicing": replicated})))


def refused(refusal: Refusal, snapshot: Snapshot, ids: Sequence[str], **more: Any) -> str:
    with pytest.raises(RequestError) as caught:
        ask(snapshot, ids, **more)
    assert caught.value.refusal is refusal
    return str(caught.value)


def test_an_unknown_id_is_named_with_the_resource() -> None:
    message = refused(Refusal.INVALID_ARGUMENT, whole(), [card(0).uuid, "GPU-unknown", "GPU-other"])
    assert message.startswith("nvidia.com/gpu has no device 'GPU-unknown'; ")


def test_a_request_for_nothing_is_refused() -> None:
    assert "no device id was given" in refused(Refusal.INVALID_ARGUMENT, whole(), [])


def test_an_id_given_twice_is_refused() -> None:
    message = refused(Refusal.INVALID_ARGUMENT, whole(), [card(0).uuid, card(1).uuid, card(1).uuid])
    assert message == f"nvidia.com/gpu: the id '{card(1).uuid}' was given twice; give each id once"


def sick(uuid: str, detail: str = "") -> Health:
    return Health(sick={uuid: (Sickness(uuid, "xid-79", "lost", 0.0, detail),)})


def test_an_unhealthy_card_is_refused_with_its_reason() -> None:
    health = sick(card(1).uuid, "fallen off the bus; reset the node")
    message = refused(Refusal.FAILED_PRECONDITION, whole(health=health), [card(0).uuid, card(1).uuid])
    assert message == (
        f"nvidia.com/gpu: device {card(1).uuid} is Unhealthy: xid-79 (fallen off the bus; reset the node)"
    )
    assert ask(whole(health=health), [card(0).uuid]).envs == {"NVIDIA_VISIBLE_DEVICES": card(0).uuid}


def test_a_reason_without_detail_is_shown_alone() -> None:
    message = refused(Refusal.FAILED_PRECONDITION, whole(health=sick(card(0).uuid)), [card(0).uuid])
    assert message.endswith("is Unhealthy: xid-79")


def test_shares_of_an_unhealthy_card_are_refused() -> None:
    snapshot = snapshot_of(shared(cards(1)), health=sick(card(0).uuid))
    message = refused(Refusal.FAILED_PRECONDITION, snapshot, [f"{card(0).uuid}::2"])
    assert f"device {card(0).uuid}::2 is Unhealthy" in message


@pytest.mark.parametrize("mps", [False, True])
def test_more_than_one_share_fails_where_the_key_says_so(*, mps: bool) -> None:
    inventory = shared(cards(1), mps=mps, fail_requests_greater_than_one=True)
    ids = [f"{card(0).uuid}::{n}" for n in range(2)]
    message = refused(Refusal.INVALID_ARGUMENT, snapshot_of(inventory), ids)
    key = "sharing.mps" if mps else "sharing.timeSlicing"
    assert message.startswith(
        f"nvidia.com/gpu: 2 shares were asked for and {key}.failRequestsGreaterThanOne allows one"
    )
    assert ask(snapshot_of(inventory), ids[:1]).envs["NVIDIA_VISIBLE_DEVICES"] == card(0).uuid


def test_whole_cards_of_such_a_resource_may_be_several() -> None:
    entry = Replicas(name=GPU, replicas=2, devices=(2,))
    replicated = Replicated(resources=(entry,), fail_requests_greater_than_one=True)
    snapshot = snapshot_of(offer(cards(3), Config(sharing=SharingSection(time_slicing=replicated))))
    ids = [card(1).uuid, card(0).uuid]
    assert ask(snapshot, ids).envs["NVIDIA_VISIBLE_DEVICES"] == f"{card(0).uuid},{card(1).uuid}"
    refused(Refusal.INVALID_ARGUMENT, snapshot, [card(0).uuid, f"{card(2).uuid}::0"])


def with_policy(inventory: Inventory, policy: Policy) -> Snapshot:
    resources = {name: replace(resource, policy=policy) for name, resource in inventory.resources.items()}
    return snapshot_of(replace(inventory, resources=resources))


def test_strict_wants_each_share_on_its_own_card() -> None:
    snapshot = with_policy(shared(cards(2)), Policy.STRICT)
    a, b = card(0).uuid, card(1).uuid
    message = refused(Refusal.FAILED_PRECONDITION, snapshot, [f"{a}::0", f"{a}::1", f"{b}::0"])
    assert message.startswith("nvidia.com/gpu: 3 shares on 2 devices, and the allocation policy strict wants each")
    assert ask(snapshot, [f"{a}::0", f"{b}::3"]).envs["NVIDIA_VISIBLE_DEVICES"] == f"{a},{b}"
    assert ask(with_policy(shared(cards(2)), Policy.SPREAD), [f"{a}::0", f"{a}::1"]).envs


def test_strict_wants_plain_instances_on_different_cards() -> None:
    slice_ = "nvidia.com/mig-1g.10gb"
    parts = tuple(instance(n, slot) for n in range(2) for slot in range(2))
    gpus = tuple(cut_card(n, instances=tuple(p for p in parts if p.gpu == card(n).uuid)) for n in range(2))
    snapshot = with_policy(offer(node(*gpus), Config(flags=Flags(mig_strategy=MigStrategy.MIXED))), Policy.STRICT)
    refused(Refusal.FAILED_PRECONDITION, snapshot, [parts[0].uuid, parts[1].uuid], name=slice_)
    grant = ask(snapshot, [parts[2].uuid, parts[1].uuid], name=slice_)
    assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == f"{parts[1].uuid},{parts[2].uuid}"


def test_devices_come_by_number_and_not_by_text() -> None:
    ids = [card(n).uuid for n in (10, 9, 2, 11)]
    envs = ask(whole(12, by_index=True), ids).envs
    assert envs == {"NVIDIA_VISIBLE_DEVICES": "2,9,10,11"}


def test_slots_of_one_card_come_by_number_too() -> None:
    parts = tuple(instance(0, slot) for slot in (2, 10))
    inventory = offer(node(cut_card(0, instances=parts)), Config(flags=Flags(mig_strategy=MigStrategy.SINGLE)))
    envs = ask(snapshot_of(inventory, Handover(by_index=True)), [parts[1].uuid, parts[0].uuid]).envs
    assert envs == {"NVIDIA_VISIBLE_DEVICES": "0:2,0:10"}


def test_host_paths_of_device_nodes_are_under_the_dev_root() -> None:
    snapshot = whole(1, pass_device_specs=True, dev_root="/run/nvidia/driver/", dev_root_seen="/driver-root")
    asked: list[str] = []

    def exists(path: str) -> bool:
        asked.append(path)
        return "uvm" not in path and "modeset" not in path

    assert ask(snapshot, [card(0).uuid], exists=exists).devices == (
        DeviceNode("/dev/nvidiactl", "/run/nvidia/driver/dev/nvidiactl", "rw"),
        DeviceNode("/dev/nvidia100", "/run/nvidia/driver/dev/nvidia100", "rw"),
    )
    assert set(asked) == {
        "/driver-root/dev",
        *(f"/driver-root/dev/nvidia{name}" for name in ("ctl", "-uvm", "-uvm-tools", "-modeset", "100")),
    }


@pytest.mark.parametrize(
    ("there", "looked_under"),
    [
        ({"/driver-root/dev", "/opt/driver/dev"}, "/driver-root"),
        ({"/opt/driver/dev"}, "/opt/driver"),
        (set(), ""),
    ],
)
def test_without_a_mounted_dev_root_the_host_s_own_paths_are_looked_at(there: set[str], looked_under: str) -> None:
    snapshot = whole(1, pass_device_specs=True, dev_root="/opt/driver", dev_root_seen="/driver-root")
    nodes = {f"{looked_under}/dev/nvidia100", f"{looked_under}/dev/nvidiactl"}
    devices = ask(snapshot, [card(0).uuid], exists=(there | nodes).__contains__).devices
    assert [device.container_path for device in devices] == ["/dev/nvidiactl", "/dev/nvidia100"]


@pytest.mark.parametrize("path", ["/dev/nvidia100", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-caps/nvidia-cap2"])
def test_a_node_that_vanished_is_named(path: str) -> None:
    inventory = offer(node(cut_card(0, "1g.10gb")), Config(flags=Flags(mig_strategy=MigStrategy.SINGLE)))
    snapshot = snapshot_of(inventory, Handover(pass_device_specs=True, dev_root="/host", dev_root_seen="/seen"))
    message = refused(
        Refusal.FAILED_PRECONDITION, snapshot, [instance(0, 0).uuid], exists=lambda seen: seen != f"/seen{path}"
    )
    assert message.startswith(f"nvidia.com/gpu: the device node /host{path} is gone; ")


def test_a_card_of_unknown_minor_has_no_node_to_pass() -> None:
    inventory = offer(node(card(0, minor=None)), Config())
    snapshot = snapshot_of(inventory, Handover(pass_device_specs=True))
    assert all("nvidia0" not in device.host_path for device in ask(snapshot, [card(0).uuid]).devices)


def without_channel(path: str) -> bool:
    return not path.endswith("channel3")


@pytest.mark.parametrize("strategy", ["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"])
def test_a_required_channel_that_is_missing_is_named(strategy: str) -> None:
    snapshot = whole(strategies=(strategy,), imex_channels=(0, 3), imex_required=True, dev_root="/host")
    message = refused(Refusal.FAILED_PRECONDITION, snapshot, [card(0).uuid], exists=without_channel)
    assert message.startswith(
        "IMEX channel 3 is required and /host/dev/nvidia-caps-imex-channels/channel3 is not there"
    )
    assert ask(snapshot, [card(0).uuid]) != Grant()


def test_a_channel_that_is_missing_and_not_required_is_left_away() -> None:
    snapshot = whole(strategies=("envvar", "volume-mounts", "cdi-cri"), imex_channels=(3, 0), pass_device_specs=True)
    grant = ask(snapshot, [card(0).uuid], exists=without_channel)
    assert grant.envs["NVIDIA_IMEX_CHANNELS"] == "0"
    assert [m.container_path.rpartition("/")[2] for m in grant.mounts] == [card(0).uuid, "0"]
    assert [d.container_path for d in grant.devices if "imex" in d.container_path] == [
        "/dev/nvidia-caps-imex-channels/channel0"
    ]
    assert grant.cdi[1:] == ("k8s.device-plugin.nvidia.com/imex-channel=0",)


def test_where_nothing_needs_a_file_none_is_looked_at() -> None:
    def never(path: str) -> bool:
        raise AssertionError(path)

    assert ask(whole(), [card(0).uuid], exists=never).envs


@pytest.mark.parametrize("strategies", [("envvar",), ("cdi-cri",), ("cdi-annotations", "cdi-cri")])
def test_what_is_switched_on_is_said_in_variables_whatever_the_strategy(strategies: tuple[str, ...]) -> None:
    snapshot = whole(strategies=strategies, gdrcopy=True, gds=True, mofed=True)
    envs = dict(ask(snapshot, [card(0).uuid]).envs)
    envs.pop("NVIDIA_VISIBLE_DEVICES", None)
    assert envs == {"NVIDIA_GDRCOPY": "enabled", "NVIDIA_GDS": "enabled", "NVIDIA_MOFED": "enabled"}


def test_under_cdi_what_is_switched_on_has_a_name_too() -> None:
    snapshot = whole(strategies=("cdi-cri",), gdrcopy=True, gds=True, mofed=True)
    assert ask(snapshot, [card(0).uuid]).cdi == (
        f"k8s.device-plugin.nvidia.com/gpu={card(0).uuid}",
        "k8s.device-plugin.nvidia.com/gdrcopy=all",
        "k8s.device-plugin.nvidia.com/gds=all",
        "k8s.device-plugin.nvidia.com/mofed=all",
    )


def test_an_external_specification_is_named_by_its_own_kind() -> None:
    snapshot = whole(strategies=("cdi-annotations",), cdi_kind="nvidia.com/gpu", annotation_prefix="example.com/x-")
    assert ask(snapshot, [card(0).uuid]).annotations == {
        "example.com/x-nvidia-device-plugin_u1": f"nvidia.com/gpu={card(0).uuid}"
    }


def test_mps_is_for_shares_only() -> None:
    entry = Replicas(name=GPU, replicas=2, devices=(0,))
    inventory = offer(cards(2), Config(sharing=SharingSection(mps=Replicated(resources=(entry,)))))
    snapshot = snapshot_of(inventory, Handover(strategies=("cdi-cri",), mps_root="/run/mps/"))
    assert ask(snapshot, [card(1).uuid]).envs == {}
    grant = ask(snapshot, [f"{card(0).uuid}::1"])
    assert grant.envs == {"CUDA_MPS_PIPE_DIRECTORY": "/mps/nvidia.com/gpu/pipe"}
    assert grant.mounts == (
        Mount("/mps/nvidia.com/gpu/pipe", "/run/mps/nvidia.com/gpu/pipe"),
        Mount("/dev/shm", "/run/mps/shm"),
    )


def test_the_answer_is_the_same_in_whatever_order_ids_come() -> None:
    snapshot = snapshot_of(shared(cards(3)), Handover(strategies=("envvar", "volume-mounts", "cdi-cri")))
    ids = [f"{card(n).uuid}::{r}" for n in range(3) for r in range(2)]
    assert ask(snapshot, ids) == ask(snapshot, ids[::-1]) == ask(snapshot, ids[3:] + ids[:3])


def test_a_real_folder_can_be_looked_at(tmp_path: Any) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    (tmp_path / "dev" / "nvidia100").touch()
    snapshot = whole(1, pass_device_specs=True, dev_root_seen=str(tmp_path))
    devices = ask(snapshot, [card(0).uuid], exists=os.path.exists).devices
    assert [device.host_path for device in devices] == ["/dev/nvidiactl", "/dev/nvidia100"]
