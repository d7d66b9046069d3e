"""Answers that make no sense: the plugin stays up, says what it saw, and offers what is certain."""

from __future__ import annotations

import pytest

from deviceplugin.model.node import DriverState, RemoteKind
from tests.drivers import card, opened, problems_of


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
