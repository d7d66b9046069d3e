"""Faults of sharing and Allocate, one test per line S1 to S11: what operators have seen, and what must happen."""

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import jsonschema
import pytest

from tests.cdi_schema import SCHEMA
from tests.fake_kubelet import AdmissionFailed, Pod
from tests.fake_kubelet.model import Grant
from tests.fake_mps.node import MpsNode
from tests.node import GPU, ROOT, FakeNode
from tests.waiting import wait_until

MIG_MACHINE = "dgx-a100-8-mig-mixed"
Start = Callable[..., FakeNode]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a node whose plugin has this configuration."""
    with ExitStack() as stack:

        def begin(text: str, machine: str = "hgx-h100-8", arguments: Sequence[str] = ()) -> FakeNode:
            words = [f"--config-file={tmp_path / 'config.yaml'}", "--rescan-interval=1h", *arguments]
            node = stack.enter_context(FakeNode(tmp_path, machine, words))
            node.configure(text)
            node.plugin.start()
            return node

        yield begin


def admit(node: FakeNode, name: str, **wanted: int) -> Grant:
    """One container with so many of each resource, named without domain."""
    resources = {f"nvidia.com/{key.replace('_', '-')}": count for key, count in wanted.items()}
    return node.kubelet.admit(Pod(name, containers={"main": resources}))["main"]


def uuids(node: FakeNode, *more: str) -> list[str]:
    """UUIDs of all cards by index."""
    words = ["resources", "--json", f"--driver=fake:{node.machine}", *more]
    offered = json.loads(node.command(*words).stdout)["resources"][GPU]["gpus"]
    return [card["uuid"] for card in sorted(offered, key=lambda card: card["index"])]


def specification(node: FakeNode) -> dict[str, Any]:
    content = json.loads((node.cdi_folder / "k8s.device-plugin.nvidia.com-gpu.json").read_text())
    jsonschema.validate(content, SCHEMA)
    return dict(content)


def names(node: FakeNode) -> list[str]:
    return [device["name"] for device in specification(node)["devices"]]


def differs(node: FakeNode, before: list[str]) -> bool:
    """Whether the specification, read whole, names other devices than before."""
    return names(node) != before


def test_S1_rename_devices_and_patterns_work(start: Start) -> None:
    node = start(
        "resources: {gpus: [{pattern: '*H100*', memory: '<200Gi', name: h100}]}\n"
        "sharing: {timeSlicing: {resources: [{name: h100, rename: h100-shared, devices: [0, 5], replicas: 3}]}}\n"
    )
    node.wait_healthy(6, resource="nvidia.com/h100")
    node.wait_healthy(6, resource="nvidia.com/h100-shared")
    assert GPU not in node.kubelet.resources
    shares = node.kubelet.resources["nvidia.com/h100-shared"].devices
    cards = uuids(node)
    assert set(shares) == {f"{cards[index]}::{number}" for index in (0, 5) for number in range(3)}


def test_S2_replica_counts_may_differ_and_a_gpu_named_twice_is_an_error(start: Start) -> None:
    node = start(
        "sharing: {timeSlicing: {resources: [\n"
        "  {name: gpu, devices: [0], replicas: 2}, {name: gpu, devices: [1, 2], replicas: 4}]}}\n"
    )
    node.wait_healthy(2 + 8 + 5)
    node.configure(
        "sharing: {timeSlicing: {resources: [\n"
        f"  {{name: gpu, devices: [0], replicas: 2}}, {{name: gpu, devices: ['{uuids(node)[0]}'], replicas: 4}}]}}}}\n"
    )
    node.plugin.wait_for_log("configuration refused, the present one stays in force")
    refusal = next(line for line in node.plugin.log.splitlines() if "refused" in line)
    assert "config.yaml:2:" in refusal
    assert "is named twice, by sharing.timeSlicing.resources[0] first; name it in one place only" in refusal
    node.wait_healthy(2 + 8 + 5)


@pytest.mark.parametrize(
    ("block", "key"),
    [
        ("timeSlicing: {failRequestsGreaterThanOne: true, ", "sharing.timeSlicing.failRequestsGreaterThanOne"),
        ("mps: {", "sharing.mps.failRequestsGreaterThanOne"),
    ],
)
def test_S3_a_request_for_two_shares_fails_and_names_the_key(tmp_path: Path, block: str, key: str) -> None:
    with MpsNode(tmp_path) as node:
        node.configure(
            f"flags: {{mpsRoot: /run/nvidia/mps}}\nsharing: {{{block}resources: [{{name: gpu, replicas: 4}}]}}}}\n"
        )
        node.plugin.start()
        node.mps.start()
        node.wait_healthy(32)
        with pytest.raises(AdmissionFailed) as caught:
            admit(node, "greedy", gpu=2)
        assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
        assert f"2 shares were asked for and {key} allows one" in caught.value.message
        assert len(admit(node, "modest", gpu=1).all_ids) == 1


def test_S4_replicas_of_the_same_gpus_give_each_gpu_once_by_index(start: Start) -> None:
    node = start("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}\n")
    node.wait_healthy(16)
    grant = admit(node, "all", gpu=16)
    assert len(grant.all_ids) == 16
    assert grant.envs["NVIDIA_VISIBLE_DEVICES"].split(",") == uuids(node)


def test_S5_two_resources_in_one_container_add_up_under_cdi_and_mounts_and_are_documented_for_envvar(
    start: Start,
) -> None:
    text = (
        "flags: {{plugin: {{deviceListStrategy: {0}}}}}\n"
        "sharing: {{timeSlicing: {{resources: [{{name: gpu, rename: part, devices: [0], replicas: 2}}]}}}}\n"
    )
    node = start(text.format("volume-mounts"))
    for number, strategy in enumerate(("volume-mounts", "cdi-cri", "envvar")):
        node.configure(text.format(strategy))
        node.plugin.wait_for_log("configuration in force", count=number + 1)
        node.wait_healthy(7)
        node.wait_healthy(2, resource="nvidia.com/part")
        grant = admit(node, strategy, gpu=1, part=1)
        devices = {id_.partition("::")[0] for id_ in grant.all_ids}
        assert len(devices) == 2
        mounted = {mount.container_path.rpartition("/")[2] for mount in grant.mounts}
        named = {name.rpartition("=")[2] for name in grant.cdi}
        assert (mounted, named) == {"volume-mounts": (devices, set()), "cdi-cri": (set(), devices)}.get(
            strategy, (set(), set())
        )
        assert bool(grant.conflicts) is (strategy == "envvar")
        node.kubelet.delete(strategy)
    assert "the second variable overwrites the first" in (ROOT / "docs" / "strategies.md").read_text()


def test_S6_mps_that_is_not_ready_names_the_missing_piece_and_is_tried_again(tmp_path: Path) -> None:
    with MpsNode(tmp_path) as node:
        node.share(4)
        node.plugin.start()
        node.wait_healthy(0, 32)
        ready = ("health", "ready", f"--control-socket={node.control_socket()}")
        said = node.command(*ready, check=False)
        assert said.returncode == 1
        assert "is not there; mount the host's /run/nvidia/mps into this container at /mps" in said.stdout
        node.mps.start()
        node.wait_healthy(32)
        wait_until(lambda: node.command(*ready, check=False).returncode == 0, what="readiness")
        # The keeper is killed: its daemon and its ready file stay, and are of the configuration of then.
        node.mps.kill()
        assert (node.mps_root / GPU / "ready.json").exists()
        node.wait_healthy(32)
        node.share(8)
        node.wait_healthy(0, 64)
        said = node.command(*ready, check=False)
        assert "limits GPU 0 to 20389 MiB, 10194 MiB is configured" in said.stdout
        assert "must run with the same configuration" in said.stdout
        node.mps.start()
        node.wait_healthy(64)
        assert node.control_program.orders().count("start") == 2


def test_S7_memory_and_threads_of_a_share_can_be_set_and_one_replica_is_allowed(tmp_path: Path) -> None:
    with MpsNode(tmp_path) as node:
        entries = [
            "{name: gpu, rename: a, devices: [0], replicas: 4, memoryLimit: 0.5, activeThreadPercentage: 40}",
            "{name: gpu, rename: b, devices: [1], replicas: 2, memoryLimit: 8Gi}",
            "{name: gpu, rename: c, devices: [2], replicas: 1, memoryLimit: none}",
            "{name: gpu, rename: d, devices: [3], replicas: 1}",
        ]
        node.configure(
            f"flags: {{mpsRoot: /run/nvidia/mps}}\nsharing: {{mps: {{resources: [\n  {', '.join(entries)}]}}}}\n"
        )
        node.plugin.start()
        node.mps.start()
        for name, count in {"a": 4, "b": 2, "c": 1, "d": 1}.items():
            node.wait_healthy(count, resource=f"nvidia.com/{name}")
        limit, threads = "set_default_device_pinned_mem_limit", "set_default_active_thread_percentage"
        told = {name: node.control_program.orders(f"nvidia.com/{name}")[1:] for name in "abcd"}
        assert told == {
            "a": [f"{limit} 0 10194M", f"{threads} 40"],
            "b": [f"{limit} 1 8192M", f"{threads} 50"],
            "c": [f"{threads} 100"],
            "d": [f"{limit} 3 81559M", f"{threads} 100"],
        }
        assert admit(node, "alone", c=1).envs["CUDA_MPS_PIPE_DIRECTORY"] == "/mps/nvidia.com/c/pipe"


def test_S8_optional_nodes_are_looked_up_at_allocate_time_under_the_hosts_dev_root(start: Start) -> None:
    node = start("flags: {nvidiaDevRoot: /run/nvidia/driver, plugin: {passDeviceSpecs: true}}\n")
    node.wait_healthy(8)
    tools = node.root / "dev" / "nvidia-uvm-tools"

    def passed(name: str) -> dict[str, str]:
        grant = admit(node, name, gpu=1)
        node.kubelet.delete(name)
        return {device.container_path: device.host_path for device in grant.devices}

    assert passed("one")["/dev/nvidia-uvm-tools"] == "/run/nvidia/driver/dev/nvidia-uvm-tools"
    tools.unlink()
    assert "/dev/nvidia-uvm-tools" not in passed("two")
    tools.touch()
    assert "/dev/nvidia-uvm-tools" in passed("three")


def test_S8_a_node_that_is_gone_is_named_and_has_the_cards_scanned(start: Start) -> None:
    node = start("flags: {migStrategy: mixed, plugin: {passDeviceSpecs: true}}\n", MIG_MACHINE)
    resource = "nvidia.com/mig-3g.20gb"
    wait_until(lambda: node.health(resource)[0], what=resource)
    before = len(node.health(resource)[0])
    wanted = Pod("one", containers={"main": {resource: 1}})
    paths = [d.host_path for d in node.kubelet.admit(wanted)["main"].devices if "/nvidia-caps/" in d.host_path]
    assert len(paths) == 2
    node.kubelet.delete("one")
    (node.root / paths[1].lstrip("/")).unlink()
    with pytest.raises(AdmissionFailed) as caught:
        node.kubelet.admit(Pod("all", containers={"main": {resource: before}}))
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION
    assert f"the device node {paths[1]} is gone" in caught.value.message
    node.wait_healthy(before - 1, resource=resource)
    assert "[no-capability-node]" in node.plugin.log


def test_S9_an_instance_without_its_capability_nodes_is_not_advertised_and_the_path_is_named(tmp_path: Path) -> None:
    with FakeNode(tmp_path, MIG_MACHINE, ["--mig-strategy=mixed"]) as node:
        folder = node.root / "dev" / "nvidia-caps"
        before = json.loads(
            node.command("resources", "--json", "--mig-strategy=mixed", f"--driver=fake:{MIG_MACHINE}").stdout
        )["resources"]
        of_instances = sorted(int(path.name.removeprefix("nvidia-cap")) for path in folder.iterdir())[2:]
        (folder / f"nvidia-cap{of_instances[0]}").unlink()
        node.plugin.start()
        node.plugin.wait_for_log("[no-capability-node]")
        wanted = {name: one["count"] - (name == "nvidia.com/mig-1g.5gb") for name, one in before.items()}
        wait_until(
            lambda: {name: len(view.devices) for name, view in node.kubelet.resources.items()} == wanted,
            what="all instances but one",
        )
        line = next(line for line in node.plugin.log.splitlines() if "[no-capability-node]" in line)
        assert "has no /dev/nvidia-caps/nvidia-cap<n> for gpu" in line
        assert "/access of /proc/driver/nvidia-caps/mig-minors; make the nodes" in line


def test_S10_the_specification_is_there_first_follows_mig_and_stays_at_the_end(start: Start) -> None:
    node = start("flags: {migStrategy: mixed, plugin: {deviceListStrategy: cdi-cri}}\n", MIG_MACHINE)
    wait_until(lambda: node.kubelet.resources, what="a registration")
    known = names(node)
    assert "all" in known
    for view in node.kubelet.resources.values():
        assert set(view.devices) <= set(known)
    cut = {name for name in known if name.startswith("MIG-")}
    assert cut
    layout = ",".join(["1g.5gb"] * 7)
    node.control("mig", "7", layout)
    node.plugin.signal(signal.SIGHUP)
    wait_until(lambda: set(names(node)) != set(known), what="the new instances in the specification")
    after = {name for name in names(node) if name.startswith("MIG-")}
    assert after - cut
    small = "nvidia.com/mig-1g.5gb"
    wait_until(lambda: len(node.health(small)[0] & after) == 7 + 7 + 2 + 2 + 1 + 7, what="the new instances offered")
    left = [path.name for path in node.cdi_folder.iterdir()]
    assert node.plugin.stop() == 0
    assert [path.name for path in node.cdi_folder.iterdir()] == left == ["k8s.device-plugin.nvidia.com-gpu.json"]
    node.command("cdi", "--remove", f"--cdi-folder={node.cdi_folder}")
    assert list(node.cdi_folder.iterdir()) == []


def test_S10_a_card_that_vanishes_goes_from_the_specification(start: Start) -> None:
    node = start("flags: {plugin: {deviceListStrategy: cdi-cri}}\n")
    node.wait_healthy(8)
    gone = uuids(node)[3]
    assert gone in names(node)
    node.control("unplug", "3")
    node.plugin.signal(signal.SIGHUP)
    wait_until(lambda: gone not in names(node), what="the specification without the card")
    assert len(names(node)) == 2 * 7 + 1


def test_S10_both_cdi_strategies_give_both_answers_and_one_warning(start: Start) -> None:
    node = start("flags: {plugin: {deviceListStrategy: [cdi-annotations, cdi-cri]}}\n")
    node.wait_healthy(8)
    grant = admit(node, "one", gpu=1)
    (value,) = grant.annotations.values()
    assert list(grant.cdi) == [value] == [f"k8s.device-plugin.nvidia.com/gpu={grant.all_ids[0]}"]
    assert next(iter(grant.annotations)).startswith("cdi.k8s.io/nvidia-device-plugin_")
    assert not grant.envs
    assert node.plugin.log.count("cdi-annotations and cdi-cri are both answered") == 1


def test_S10_a_reader_never_sees_half_a_specification(start: Start) -> None:
    node = start("flags: {migStrategy: mixed, plugin: {deviceListStrategy: cdi-cri}}\n", MIG_MACHINE)
    wait_until(lambda: node.kubelet.resources, what="a registration")
    for turn in range(3):
        before = names(node)
        node.control("mig", "7", ",".join(["1g.5gb"] * (turn + 1)))
        node.plugin.signal(signal.SIGHUP)
        wait_until(partial(differs, node, before), what="another specification")
    assert all(not path.name.startswith(".") or path.suffix == ".new" for path in node.cdi_folder.iterdir())


def test_S10_a_folder_that_cannot_be_written_withholds_the_devices_and_says_so(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    node = start("flags: {plugin: {deviceListStrategy: cdi-cri}}\n", arguments=[f"--cdi-folder={tmp_path}/file/cdi"])
    node.plugin.wait_for_log("[cdi-not-written]")
    assert f"make {tmp_path}/file/cdi writable, or name another by --cdi-folder" in node.plugin.log
    assert not node.kubelet.resources


def test_S11_envvar_is_warned_about_with_the_strategies_that_cannot_be_forged(start: Start) -> None:
    node = start("version: v1\n")
    node.wait_healthy(8)
    sentence = "under envvar any image that sets NVIDIA_VISIBLE_DEVICES=all sees every GPU"
    assert node.plugin.log.count(sentence) == 1
    assert "volume-mounts, cdi-annotations and cdi-cri cannot be forged" in node.plugin.log
    assert "cannot be forged" in (ROOT / "docs" / "configuration.md").read_text()
    node.configure("flags: {plugin: {deviceListStrategy: cdi-cri}}\n")
    node.plugin.wait_for_log("configuration in force", count=2)
    assert node.plugin.log.count(sentence) == 1


def test_S10_an_external_specification_must_name_the_devices(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "cdi"
    folder.mkdir()
    node = start("flags: {plugin: {deviceListStrategy: cdi-cri}}\ncdi: {spec: external}\n")
    node.plugin.wait_for_log("[cdi-external-missing]")
    cards = uuids(node, f"--cdi-folder={folder}")
    kept = [{"name": name, "containerEdits": {"env": ["A=B"]}} for name in cards[:2]]
    document = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": kept}
    (folder / "nvidia.yaml").write_text(json.dumps(document))
    node.plugin.signal(signal.SIGHUP)
    node.wait_healthy(2)
    assert admit(node, "one", gpu=1).cdi[0] in {f"nvidia.com/gpu={name}" for name in cards[:2]}
    assert [path.name for path in folder.iterdir()] == ["nvidia.yaml"]
