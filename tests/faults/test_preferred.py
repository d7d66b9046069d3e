"""Faults of preferred allocation, P1 to P7: what the kubelet is told, whatever the driver does and however it asks."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import grpc
import pytest

import fake_nvml
from deviceplugin.board import Board
from deviceplugin.config.document import Config
from deviceplugin.daemon.preparing import prefer
from deviceplugin.kubelet.decisions import Rules
from deviceplugin.kubelet.observe import Observer
from deviceplugin.kubelet.service import Service
from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.kubelet.wire import deviceplugin_pb2_grpc as services
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.nvml.probe import probe
from deviceplugin.rules.allocate import allocate
from deviceplugin.rules.offer import offer
from tests.fake_kubelet import AdmissionFailed
from tests.faults.ailing import AilingNode
from tests.faults.conftest import Make
from tests.node import GPU
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

TIMEOUT = 5.0
"""Seconds for one call: one that waits for the driver does not end in time."""


class Wanted(NamedTuple):
    """One container's request."""

    available: Sequence[str]
    size: int
    must: Sequence[str] = ()

    def message(self) -> wire.ContainerPreferredAllocationRequest:
        return wire.ContainerPreferredAllocationRequest(
            available_deviceIDs=self.available, must_include_deviceIDs=self.must, allocation_size=self.size
        )


def message(*wanted: Wanted) -> wire.PreferredAllocationRequest:
    return wire.PreferredAllocationRequest(container_requests=[one.message() for one in wanted])


@contextmanager
def plugin_of(node: AilingNode, resource: str = GPU) -> Iterator[services.DevicePluginStub]:
    """The plugin's service as the kubelet dials it."""
    socket = node.kubelet_folder / node.kubelet.resources[resource].endpoint
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        yield services.DevicePluginStub(channel)  # type: ignore[no-untyped-call]


def ask(node: AilingNode, *wanted: Wanted, resource: str = GPU) -> list[list[str]]:
    """One call for some containers; the ids of each."""
    with plugin_of(node, resource) as plugin:
        answer = plugin.GetPreferredAllocation(message(*wanted), timeout=TIMEOUT)
    return [list(container.deviceIDs) for container in answer.container_responses]


def refusal(node: AilingNode, *wanted: Wanted, resource: str = GPU) -> tuple[grpc.StatusCode, str]:
    """Status and words of a call that must be refused."""
    with pytest.raises(grpc.RpcError) as caught:
        ask(node, *wanted, resource=resource)
    return caught.value.code(), caught.value.details() or ""


def cards(node: AilingNode, ids: Sequence[str]) -> list[int]:
    """Numbers of the cards that ids are cut from, ascending, one for each id."""
    return sorted(node.driver.uuids().index(id_.partition("::")[0]) for id_ in ids)


@pytest.mark.parametrize("trouble", ["fails", "hangs"])
def test_P1_answers_come_from_memory_while_a_gpu_is_lost_and_the_driver_fails_or_hangs(
    make: Make, trouble: str
) -> None:
    node = make("hgx-h100-8")
    node.plugin.start()
    node.wait_healthy(8)
    every = node.driver.uuids()
    node.driver.lose(3)
    node.wait_ids([every[3]])
    for size in range(1, 8):
        [answer] = ask(node, Wanted(every, size))
        assert len(set(answer)) == size
        assert every[3] not in answer, "a lost GPU is nobody's choice while others are free"
    [everything] = ask(node, Wanted(every, 8))
    assert set(everything) == set(every), "more cannot be had otherwise"
    if trouble == "fails":
        node.driver.fault("nvml*", code=999)
    else:
        node.driver.hang("nvml*")
    for size in range(1, 9):
        [answer] = ask(node, Wanted(every, size))
        assert len(set(answer)) == size


@pytest.mark.parametrize("machine", ["hgx-h100-8", "dgx1-v100-8"])
def test_P1_a_gpu_that_vanished_and_is_listed_still_is_taken_last_and_fails_nothing(make: Make, machine: str) -> None:
    node = make(machine, "--vanished-grace=1h")
    node.plugin.start()
    node.wait_healthy(8)
    every = node.driver.uuids()
    node.driver.unplug(0)
    node.wait_ids([every[0]], every[1:])
    for size in range(1, 8):
        [answer] = ask(node, Wanted(every, size))
        assert len(set(answer)) == size
        assert every[0] not in answer
    [pair], [everything] = ask(node, Wanted(every, 2, must=every[:1])), ask(node, Wanted(every, 8))
    assert every[0] in pair, "what the kubelet insists on is among the answer"
    assert set(everything) == set(every)


def test_P1_an_unreadable_link_is_unknown_and_no_call_fails(make: Make) -> None:
    node = make("hgx-a100-4")
    node.driver.fault("nvmlDeviceGetNvLinkRemote*", gpu=2, code=999)
    node.driver.fault("nvmlDeviceGetP2PStatus", code=999)
    node.plugin.start()
    node.wait_healthy(4)
    every = node.driver.uuids()
    for size in range(1, 5):
        [answer] = ask(node, Wanted(every, size))
        assert len(answer) == size
    [three] = ask(node, Wanted(every, 3))
    assert cards(node, three) == [0, 1, 3], "those whose links are known"


class Details(grpc.HandlerCallDetails):
    """What gRPC tells of a call before it is handled."""

    method = "/v1beta1.DevicePlugin/GetPreferredAllocation"
    invocation_metadata = ()


def test_P1_P2_links_are_read_once_per_scan_and_no_call_asks_the_driver() -> None:
    with fake_nvml.open("hgx-h100-8") as fake:
        fake.nvml.nvmlInit()
        node = probe(fake.nvml, str(fake.root))
        links = sum(len(gpu.links) for gpu in node.gpus)
        asked = Counter(fake.calls)
        assert links == 8 * 18
        assert asked["nvmlDeviceGetNvLinkState"] <= links + 8
        assert asked["nvmlDeviceGetNvLinkRemotePciInfo"] == links
        assert asked["nvmlDeviceGetP2PStatus"] <= 8 * 7
        probe(fake.nvml, str(fake.root), previous=node)
        assert fake.calls["nvmlDeviceGetNvLinkRemotePciInfo"] == links, "far ends do not change: asked once"

        asked = Counter(fake.calls)
        snapshot = Snapshot(node=node, inventory=offer(node, Config()))
        every = [gpu.uuid for gpu in node.gpus]

        async def serve() -> list[int]:
            service = Service(GPU, Board(snapshot), Rules(allocate=allocate, prefer=prefer), Observer())
            method: Any = service.handler().service(Details())
            sizes = []
            for size in [*range(1, 9), *range(1, 9)]:
                answer = await method.unary_unary(message(Wanted(every, size)), None)
                [container] = wire.PreferredAllocationResponse.FromString(answer).container_responses
                sizes.append(len(container.deviceIDs))
            return sizes

        assert asyncio.run(serve()) == [*range(1, 9), *range(1, 9)]
        assert fake.calls == asked


def test_P2_slow_link_queries_are_no_part_of_admission(make: Make) -> None:
    node = make("hgx-h100-8")
    node.plugin.start()
    node.wait_healthy(8)
    for call in ("nvmlDeviceGetNvLink*", "nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor"):
        node.driver.fault(call, delay=0.6)
    every = node.driver.uuids()
    ask(node, Wanted(every, 2))
    began = perf_counter()
    for size in range(1, 9):
        ask(node, Wanted(every, size))
    assert perf_counter() - began < 8 * 0.6


def test_P3_unknown_doubled_and_unlisted_ids_get_a_right_answer(make: Make) -> None:
    node = make("hgx-h100-8", "--log-level=debug")
    node.plugin.start()
    node.wait_healthy(8)
    u = node.driver.uuids()
    [answer] = ask(node, Wanted(["GPU-gone", u[5], u[5], "", u[2], "GPU-gone"], 2))
    assert cards(node, answer) == [2, 5]
    [answer] = ask(node, Wanted([u[0], u[1], u[2]], 3, must=[u[6], u[6]]))
    assert len(answer) == 3
    assert u[6] in answer, "a must-include that is not available counts as available"
    line = node.said("preferred allocation of 3", level="debug")["message"]
    assert all(part in line for part in (u[6], "decided by", " us"))
    node.wait_metric("preferred_allocation_unknown_ids_total", 2, resource=GPU)
    node.wait_metric("preferred_allocation_total", 1, resource=GPU, size="3", domains="1", exact="true")


def test_P3_several_containers_in_one_call_are_answered_each(make: Make) -> None:
    node = make("hgx-h100-8")
    node.plugin.start()
    node.wait_healthy(8)
    u = node.driver.uuids()
    answers = ask(node, Wanted(u[:4], 1), Wanted(u[4:], 3, must=[u[7]]), Wanted(u, 8))
    assert [cards(node, answer) for answer in answers] == [[0], [4, 5, 7], [*range(8)]]
    assert ask(node) == []


def test_P3_what_cannot_be_met_is_refused_with_the_numbers(make: Make) -> None:
    node = make("hgx-a100-4")
    node.plugin.start()
    node.wait_healthy(4)
    u = node.driver.uuids()
    odd = (
        (Wanted(u, 0), ["0 devices asked for"]),
        (Wanted(u, -1), ["-1 devices asked for"]),
        (Wanted([*u[:2], u[0], "GPU-gone"], 3), ["3 devices asked for", "2 available", "4 in this resource"]),
        (Wanted([], 1), ["1 devices asked for", "0 available"]),
        (Wanted(u, 1, must=u[:2]), ["2 must-include ids", "size of 1"]),
        (Wanted(u, 2, must=["GPU-gone"]), ["1 of 1 must-include ids", "GPU-gone"]),
    )
    for wanted, words in odd:
        code, said = refusal(node, wanted)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert all(part in said for part in words), said
    code, _ = refusal(node, Wanted(u, 1), odd[0][0])
    assert code is grpc.StatusCode.INVALID_ARGUMENT, "one container that cannot be answered refuses the call"
    assert len(ask(node, Wanted(u, 4))[0]) == 4
    node.wait_metric("preferred_allocation_total", len(odd) + 1, resource=GPU, size="refused")


def test_P4_single_gpus_come_from_what_is_broken_already(make: Make) -> None:
    node = make("a100-pcie-4-bridges")
    node.plugin.start()
    node.wait_healthy(4)
    first, second = (cards(node, node.admit(name).all_ids) for name in ("one", "another"))
    assert {*first, *second} in ({0, 1}, {2, 3}), "the second pod takes the GPU that lost its bridge"
    pair = cards(node, node.admit("tensor-parallel", 2).all_ids)
    assert pair in ([0, 1], [2, 3])


def test_P4_one_gpu_is_that_without_a_partner(make: Make) -> None:
    node = make("a100-pcie-4-bridges")
    node.plugin.start()
    node.wait_healthy(4)
    u = node.driver.uuids()
    assert [cards(node, answer) for answer in ask(node, Wanted(u[:3], 1), Wanted(u[1:], 1))] == [[2], [1]]


def test_P5_every_size_of_sixteen_gpus_takes_no_time(make: Make) -> None:
    """Three of sixteen GPUs took the vendor's allocator 24 s: all sizes together are far below."""
    node = make("dgx2-v100-16")
    node.plugin.start()
    node.wait_healthy(16)
    every = node.driver.uuids()
    ask(node, Wanted(every, 2))
    began = perf_counter()
    assert [len(ask(node, Wanted(every, size))[0]) for size in range(1, 17)] == [*range(1, 17)]
    assert perf_counter() - began < 2
    node.wait_metric("preferred_allocation_total", 1, resource=GPU, size="8", domains="1", exact="true")


def test_P5_a_search_that_was_bounded_says_so_in_metric_and_log(make: Make, tmp_path: Path) -> None:
    """Twenty GPUs, no two alike: more than can be looked at one by one."""
    chance = random.Random(5)
    words = {(a, b): chance.choice(("PIX", "PXB", "PHB", "NODE", "SYS")) for b in range(20) for a in range(b)}
    names = [f"GPU{i}" for i in range(20)]
    rows = [[words.get((min(a, b), max(a, b)), "X") for b in range(20)] for a in range(20)]
    text = ["\t".join(["", *names]), *("\t".join([name, *row]) for name, row in zip(names, rows, strict=True))]
    box = tmp_path / "box.topo"
    box.write_text("\n".join(text) + "\n")
    node = make(str(box))
    node.plugin.start()
    node.wait_healthy(20)
    [answer] = ask(node, Wanted(node.driver.uuids(), 10))
    assert len(set(answer)) == 10
    node.said("the search for 10 devices was bounded: a better set may exist", level="info")
    node.wait_metric("preferred_allocation_total", 1, resource=GPU, size="10", domains="10", exact="false")
    ask(node, Wanted(node.driver.uuids()[:9], 9))
    node.wait_metric("preferred_allocation_total", 1, resource=GPU, size="9", domains="9", exact="true")


def test_P5_four_of_eight_hundred_shares_take_no_time(make: Make) -> None:
    node = make("hgx-h100-8", config="sharing: {timeSlicing: {resources: [{name: gpu, replicas: 100}]}}\n")
    node.plugin.start()
    node.wait_healthy(800)
    every = sorted(node.kubelet.resources[GPU].healthy)
    ask(node, Wanted(every, 2))
    began = perf_counter()
    for size in (1, 2, 4, 8, 100, 799):
        assert len(ask(node, Wanted(every, size))[0]) == size
    assert perf_counter() - began < 2


@pytest.mark.parametrize("machine", ["hgx-h100-8", "hgx-b200-8", "dgx-a100-8"])
def test_P6_links_behind_switches_are_found_shown_or_hidden(make: Make, machine: str) -> None:
    node = make(machine)
    node.plugin.start()
    node.wait_healthy(8)
    every = node.driver.uuids()
    ask(node, Wanted(every, 8))
    node.wait_metric("preferred_allocation_total", 1, resource=GPU, size="8", domains="1")
    assert node.lines(message="topology: ") == []


def test_P6_links_that_cannot_be_read_are_said_and_counted_and_numa_decides(make: Make) -> None:
    node = make("hgx-h100-8")
    node.driver.fault("nvmlDeviceGetNvLinkState", code=999)
    node.plugin.start()
    node.wait_healthy(8)
    every = node.driver.uuids()
    said = node.said("topology: GPU 0: the state of 18 of 18 NVLinks could not be read", level="warning")
    assert "NUMA and PCIe distances decide instead" in said["message"]
    wait_until(lambda: node.metric("nvml_errors_total", call="nvmlDeviceGetNvLinkState", code="999"), what="a count")
    answers = ask(node, Wanted(every[2:6], 2), Wanted(every[3:], 4), Wanted(every, 4))
    assert [cards(node, answer) for answer in answers] == [[2, 3], [4, 5, 6, 7], [0, 1, 2, 3]]


def test_P6_one_gpu_whose_links_cannot_be_read_is_taken_last(make: Make) -> None:
    node = make("hgx-h100-8")
    node.driver.fault("nvmlDeviceGetNvLinkState", gpu=1, code=999)
    node.plugin.start()
    node.wait_healthy(8)
    every = node.driver.uuids()
    node.said("topology: GPU 1: the state of 18 of 18 NVLinks could not be read")
    assert not any("GPU 0:" in line["message"] for line in node.lines(message="topology: "))
    answers = ask(node, Wanted(every, 2), Wanted(every, 7), Wanted(every, 1))
    assert [cards(node, answer) for answer in answers] == [[0, 2], [0, 2, 3, 4, 5, 6, 7], [1]]


SHARED = "sharing: {{timeSlicing: {{resources: [{{name: gpu, replicas: 4, allocationPolicy: {0}}}]}}}}\n"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("distributed", [[0, 1], [1, 3], [2, 2, 3]]),
        ("packed", [[0, 0], [0, 0], [1, 2, 2]]),
        ("spread", [[0, 1], [0, 1], [1, 2, 3]]),
        ("strict", [[0, 1], [0, 1], [1, 2, 3]]),
    ],
)
def test_P7_shares_of_one_pod_go_where_the_policy_says(make: Make, policy: str, expected: list[list[int]]) -> None:
    """On two bridged pairs: with nothing in use, with a share of each pair, and with seven of the first pair."""
    node = make("a100-pcie-4-bridges", config=SHARED.format(policy))
    node.plugin.start()
    node.wait_healthy(16)
    u = node.driver.uuids()
    shares = [f"{card}::{number}" for card in u for number in range(4)]
    answers = ask(
        node,
        Wanted(shares, 2),
        Wanted([share for share in shares if share not in (f"{u[0]}::0", f"{u[2]}::0")], 2),
        Wanted([share for share in shares if share not in shares[:7]], 3),
    )
    assert [cards(node, answer) for answer in answers] == expected


def test_P7_strict_refuses_too_few_gpus_here_and_in_allocate(make: Make) -> None:
    node = make("hgx-a100-4", config=SHARED.format("strict"))
    node.plugin.start()
    node.wait_healthy(16)
    shares = [f"{card}::{number}" for card in node.driver.uuids() for number in range(4)]
    code, said = refusal(node, Wanted(shares, 5))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "policy strict wants 5 shares" in said
    twice = wire.AllocateRequest(container_requests=[wire.ContainerAllocateRequest(devices_ids=shares[:2])])
    with plugin_of(node) as plugin, pytest.raises(grpc.RpcError, match="strict") as caught:
        plugin.Allocate(twice, timeout=TIMEOUT)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert cards(node, node.admit("group", 4).all_ids) == [0, 1, 2, 3]
    with pytest.raises(AdmissionFailed):
        node.admit("too many", 5)


@pytest.mark.parametrize("odd", ["twice", "none", "unknown"])
def test_P7_a_request_that_names_no_set_of_gpus_is_refused_in_words(make: Make, odd: str) -> None:
    node = make("hgx-a100-4")
    node.plugin.start()
    node.wait_healthy(4)
    one = node.uuid(0)
    ids, said = {
        "twice": ([one, one], "was given twice"),
        "none": ([], "no device id was given"),
        "unknown": ([one, "GPU-of-another-node"], "has no device 'GPU-of-another-node'"),
    }[odd]
    request = wire.AllocateRequest(container_requests=[wire.ContainerAllocateRequest(devices_ids=ids)])
    with plugin_of(node) as plugin, pytest.raises(grpc.RpcError, match=said) as caught:
        plugin.Allocate(request, timeout=TIMEOUT)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    node.wait_metric("allocations_total", 1, resource=GPU, result="refused")


def test_P7_a_policy_for_all_resources_changes_without_restart(make: Make) -> None:
    shared = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}\n"
    node = make("hgx-a100-4", config=shared)
    node.plugin.start()
    node.wait_healthy(16)
    shares = [f"{card}::{number}" for card in node.driver.uuids() for number in range(4)]
    assert cards(node, ask(node, Wanted(shares, 2))[0]) == [0, 1]
    node.configure(f"version: v1\nflags: {{plugin: {{sharedDevicesAllocationPolicy: packed}}}}\n{shared}")
    node.said("configuration in force")
    node.plugin.wait_for_log("configuration in force", count=2)
    assert cards(node, ask(node, Wanted(shares, 2))[0]) == [0, 0]
    assert len(node.frames()) == 1, "the list is the same: nothing was sent"
