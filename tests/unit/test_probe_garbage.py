"""Answers that make no sense: the plugin stays up, says what it saw, and offers what is certain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from deviceplugin.model.node import DriverState, RemoteKind
from tests.drivers import altered, card, opened, problems_of


@pytest.mark.parametrize("count", [-1, 4096, 1 << 32])
def test_a_count_that_makes_no_sense_is_replaced_by_counting(count: int) -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlDeviceGetCount", value=count)
        node = machine.scan()
    assert len(node.gpus) == 8
    assert str(count) in problems_of(node, "nvmlDeviceGetCount")[0].detail


@pytest.mark.parametrize("uuid", ["", "GPU one", "GPU-1::0", "../GPU"])
def test_a_card_without_uuid_is_not_offered(uuid: str) -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlDeviceGetUUID", gpu=3, value=uuid)
        node = machine.scan()
    assert [gpu.index for gpu in node.gpus] == [0, 1, 2, 4, 5, 6, 7]
    (problem,) = problems_of(node, "nvmlDeviceGetUUID")
    assert problem.subject == "index 3"


def test_cards_with_one_and_the_same_uuid_are_not_offered() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlDeviceGetUUID", gpu=3, value=machine.uuids[2])
        node = machine.scan()
    assert [gpu.index for gpu in node.gpus] == [0, 1, 4, 5, 6, 7]
    (problem,) = problems_of(node, "nvmlDeviceGetUUID")
    assert problem.subject == machine.uuids[2]
    assert "2 devices" in problem.detail
    known = {gpu.uuid for gpu in node.gpus}
    assert all({pair.a, pair.b} <= known for pair in node.pairs)
    assert len(node.pairs) == 15


def test_two_cards_that_swap_places_stay_who_they_are() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.swap(1, 4)
        after = machine.scan(before)
        settled = machine.scan(after)
    assert {gpu.uuid for gpu in after.gpus} == {gpu.uuid for gpu in before.gpus}
    assert card(after, machine.uuids[1]).index == 4
    assert card(after, machine.uuids[4]).index == 1
    assert card(after, machine.uuids[1]).pci == card(before, machine.uuids[1]).pci
    assert {p.subject for p in problems_of(after, "nvmlDeviceGetHandleByIndex")} == {machine.uuids[1], machine.uuids[4]}
    assert settled.problems == ()
    assert {frozenset((p.a, p.b)): (p.ancestor, p.p2p_nvlink) for p in after.pairs} == {
        frozenset((p.a, p.b)): (p.ancestor, p.p2p_nvlink) for p in before.pairs
    }


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("nvmlDeviceGetMinorNumber", -3),
        ("nvmlDeviceGetCudaComputeCapability", [-1, 0]),
        ("nvmlDeviceGetTopologyCommonAncestor", 60),
        ("nvmlSystemGetCudaDriverVersion", -12),
    ],
)
def test_numbers_that_cannot_be_are_unknown(query: str, value: object) -> None:
    with opened("l40s-8") as machine:
        machine.fake.fault(query, value=value)
        node = machine.scan()
    assert node.state is DriverState.READY
    assert len(node.gpus) == 8
    assert problems_of(node, query)[0].detail
    facts = {
        "nvmlDeviceGetMinorNumber": {gpu.minor for gpu in node.gpus},
        "nvmlDeviceGetCudaComputeCapability": {gpu.compute_capability for gpu in node.gpus},
        "nvmlDeviceGetTopologyCommonAncestor": {pair.ancestor for pair in node.pairs},
        "nvmlSystemGetCudaDriverVersion": {node.cuda_version},
    }
    assert facts[query] == {None}


def test_words_of_a_future_driver_do_not_hurt() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlDeviceGetNvLinkRemoteDeviceType", value=7)
        machine.fake.fault("nvmlDeviceGetP2PStatus", value=42)
        machine.fake.fault("nvmlDeviceGetArchitecture", value=99)
        machine.fake.fault("nvmlDeviceGetBrand", value=99)
        node = machine.scan()
    assert {link.remote for gpu in node.gpus for link in gpu.links} == {RemoteKind.UNKNOWN}
    assert {pair.p2p_nvlink for pair in node.pairs} == {None}
    assert {(gpu.architecture, gpu.brand) for gpu in node.gpus} == {(99, 99)}


def test_the_architecture_unknown_is_none() -> None:
    with opened("t4x1") as machine:
        machine.fake.fault("nvmlDeviceGetArchitecture", value=0xFFFFFFFF)
        node = machine.scan()
    assert node.gpus[0].architecture is None


def test_bytes_that_are_no_text_cost_the_name() -> None:
    def no_text(_name: Callable[..., Any], *_arguments: Any) -> str:
        return b"NVIDIA \xff\xfe".decode()

    with altered("l40s-8", nvmlDeviceGetName=no_text) as machine:
        node = machine.scan()
    assert [gpu.name for gpu in node.gpus] == [""] * 8
    assert {problem.detail for problem in node.problems} == {
        "answered bytes that are no text, which makes no sense and is not used"
    }


def test_a_pci_id_that_is_none_costs_the_place() -> None:
    def nowhere(info: Callable[..., Any], handle: Any) -> Any:
        found = info(handle)
        found.busId = b"garbage"
        return found

    with altered("l40s-8", nvmlDeviceGetPciInfo=nowhere) as machine:
        node = machine.scan()
    assert {(gpu.pci, gpu.numa) for gpu in node.gpus} == {("", None)}
    assert "GARBAGE" in problems_of(node, "nvmlDeviceGetPciInfo")[0].detail
    assert len(node.gpus) == 8


def test_memory_that_is_nothing_is_unknown() -> None:
    def nothing(info: Callable[..., Any], handle: Any, *version: Any) -> Any:
        found = info(handle, *version)
        found.total = 0
        return found

    with altered("t4x1", nvmlDeviceGetMemoryInfo=nothing) as machine:
        node = machine.scan()
    assert node.gpus[0].memory is None
    assert problems_of(node, "nvmlDeviceGetMemoryInfo")


def test_a_fabric_state_of_a_future_driver_is_unknown() -> None:
    def future(info: Callable[..., Any], handle: Any, reference: Any) -> Any:
        code = info(handle, reference)
        reference._obj.state = 9
        return code

    with altered("gb200-4", nvmlDeviceGetGpuFabricInfoV=future) as machine:
        node = machine.scan()
    assert [gpu.fabric for gpu in node.gpus] == [None] * 4
    assert "fabric state 9" in problems_of(node, "nvmlDeviceGetGpuFabricInfoV")[0].detail


def test_a_fabric_of_an_older_driver_is_read_by_the_older_structure() -> None:
    def missing(_info: Callable[..., Any], *_arguments: Any) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    def plain(_info: Callable[..., Any], _handle: Any, reference: Any) -> int:
        reference._obj.state = 3
        reference._obj.cliqueId = 7
        reference._obj.clusterUuid = (pynvml.c_uint8 * 16)(*range(1, 17))
        return 0

    functions = {"nvmlDeviceGetGpuFabricInfoV": missing, "nvmlDeviceGetGpuFabricInfo": plain}
    with altered("gb200-4", **functions) as machine:
        node = machine.scan()
    fabric = node.gpus[0].fabric
    assert fabric is not None
    assert fabric.completed
    assert (fabric.clique, fabric.cluster) == (7, "01020304-0506-0708-090a-0b0c0d0e0f10")
    assert node.problems == ()


def test_a_link_fused_off_amid_others_does_not_end_them() -> None:
    def fused(state: Callable[..., Any], handle: Any, link: int) -> Any:
        if link == 3:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return state(handle, link)

    with altered("hgx-h100-8", nvmlDeviceGetNvLinkState=fused) as machine:
        node = machine.scan()
    assert [link.number for link in node.gpus[0].links] == [n for n in range(18) if n != 3]
    assert node.problems == ()


def test_a_card_lost_amid_its_links_is_asked_no_more() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.fault("nvmlDeviceGetNvLinkState", gpu=1, code=15, after=4)
        machine.forget_calls()
        node = machine.scan(before)
        assert machine.calls("nvmlDeviceGetNvLinkState") == 7 * 18 + 5
    assert card(node, machine.uuids[1]).lost
    assert card(node, machine.uuids[1]).links == before.gpus[1].links


def test_a_card_that_moved_is_read_from_the_beginning() -> None:
    with opened("l40s-8") as machine:
        before = machine.scan()
        with altered("l40s-8", nvmlDeviceGetPciInfo=_elsewhere) as other:
            other.scan(before)
            assert other.calls("nvmlDeviceGetName") == 8
            assert other.calls("nvmlDeviceGetTopologyCommonAncestor") == 28


def _elsewhere(info: Callable[..., Any], handle: Any) -> Any:
    found = info(handle)
    found.busId = f"0001{found.busId[4:]}".encode()
    return found


def test_an_instance_without_uuid_and_a_card_lost_amid_its_slots() -> None:
    with opened("hgx-h100-8-mig-1g") as machine:
        machine.fake.fault("nvmlDeviceGetUUID", gpu=0, value="", after=1, times=1)
        node = machine.scan()
        assert [i.slot for i in node.gpus[0].instances] == [1, 2, 3, 4, 5, 6]
        machine.fake.fault("nvmlDeviceGetMigDeviceHandleByIndex", gpu=2, code=15, after=2)
        machine.forget_calls()
        after = machine.scan(node)
        assert machine.calls("nvmlDeviceGetMigDeviceHandleByIndex") == 7 * 7 + 3
    assert card(after, machine.uuids[2]).lost
    assert card(after, machine.uuids[2]).instances == node.gpus[2].instances


def test_a_structure_that_makes_no_sense_is_shown_by_its_members_and_the_same_each_time() -> None:
    with opened("hgx-a100-4") as machine:
        machine.fake.fault("nvmlDeviceGetMemoryInfo", gpu=1, value={"total": 0})
        first = machine.scan()
        again = machine.scan(first)
    (problem,) = problems_of(first, "nvmlDeviceGetMemoryInfo")
    assert problem.detail.startswith("answered total=0, free=")
    assert again.problems == first.problems


def test_cards_that_change_places_while_they_are_read_are_looked_at_again() -> None:
    swapped: list[int] = []

    def by_index(ask: Callable[[int], Any], index: int) -> Any:
        handle = ask({0: 5, 5: 0}.get(index, index) if swapped else index)
        if index == 4 and not swapped:
            swapped.append(index)
        return handle

    with altered("hgx-h100-8", nvmlDeviceGetHandleByIndex=by_index) as machine:
        before = machine.scan()
        node = machine.scan(before)
    assert swapped
    assert sorted(gpu.uuid for gpu in node.gpus) == sorted(machine.uuids)
    assert not any(gpu.lost for gpu in node.gpus)
    assert sorted(gpu.uuid for gpu in before.gpus) == sorted(machine.uuids)
