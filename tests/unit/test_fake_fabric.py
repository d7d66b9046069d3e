"""Links: what stands behind them on each machine, and that no two answers ever disagree."""

from __future__ import annotations

from ctypes import byref, pointer
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fake_nvml

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN = "FFFFFFFF:FF:FF.0"


@pytest.fixture
def fake(request: pytest.FixtureRequest) -> Iterator[fake_nvml.Fake]:
    with fake_nvml.open(getattr(request, "param", "hgx-h100-8")) as opened:
        opened.nvml.nvmlInit()
        yield opened


def _handles(fake: fake_nvml.Fake) -> list[Any]:
    return [fake.nvml.nvmlDeviceGetHandleByIndex(i) for i in range(fake.nvml.nvmlDeviceGetCount())]


def _remotes(fake: fake_nvml.Fake, index: int) -> list[tuple[str, int]]:
    nvml, handle = fake.nvml, fake.nvml.nvmlDeviceGetHandleByIndex(index)
    return [
        (
            nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId,
            nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link),
        )
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS)
        if link < _links(fake, handle) and nvml.nvmlDeviceGetNvLinkState(handle, link)
    ]


def _links(fake: fake_nvml.Fake, handle: Any) -> int:
    value = fake.nvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT])[0]
    return int(value.value.uiVal) if value.nvmlReturn == 0 else 0


def _p2p(fake: fake_nvml.Fake, a: Any, b: Any) -> int:
    return fake.nvml.nvmlDeviceGetP2PStatus(a, b, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)


def _fabric(fake: fake_nvml.Fake, handle: Any, version: int = 3) -> Any:
    info = pynvml.c_nvmlGpuFabricInfo_v3_t() if version == 3 else pynvml.c_nvmlGpuFabricInfo_v2_t()
    assert fake.nvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(info)) == 0
    return info


def test_behind_nvswitch_links_end_at_switches(fake: fake_nvml.Fake) -> None:
    remotes = _remotes(fake, 0)
    assert [sum(bus == f"00000000:{switch}:00.0" for bus, _ in remotes) for switch in ("07", "08", "09", "0A")] == [
        5,
        5,
        4,
        4,
    ]
    assert {kind for _, kind in remotes} == {pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH}
    handles = _handles(fake)
    assert all(_p2p(fake, a, b) == pynvml.NVML_P2P_STATUS_OK for a, b in combinations(handles, 2))
    assert fake.nvml.nvmlDeviceGetFieldValues(handles[0], [147])[0].value.uiVal == 18
    assert fake.nvml.nvmlDeviceGetNvLinkVersion(handles[0], 0) == pynvml.NVML_NVLINK_VERSION_4_0
    assert fake.nvml.nvmlDeviceGetNvLinkCapability(handles[0], 0, pynvml.NVML_NVLINK_CAP_P2P_SUPPORTED) == 1


@pytest.mark.parametrize("fake", ["hgx-b200-8"], indirect=True)
def test_remotes_can_be_hidden(fake: fake_nvml.Fake) -> None:
    assert set(_remotes(fake, 3)) == {(HIDDEN, pynvml.NVML_NVLINK_DEVICE_TYPE_UNKNOWN)}
    assert _p2p(fake, *_handles(fake)[:2]) == pynvml.NVML_P2P_STATUS_OK


@pytest.mark.parametrize("fake", ["dgx1-v100-8"], indirect=True)
def test_direct_links_end_at_the_peer(fake: fake_nvml.Fake) -> None:
    nvml, handles = fake.nvml, _handles(fake)
    buses = [nvml.nvmlDeviceGetPciInfo(handle).busId for handle in handles]
    remotes = [bus for bus, kind in _remotes(fake, 0) if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_GPU]
    assert [remotes.count(bus) for bus in buses] == [0, 1, 1, 2, 2, 0, 0, 0]
    assert _p2p(fake, handles[0], handles[4]) == pynvml.NVML_P2P_STATUS_OK
    assert _p2p(fake, handles[0], handles[5]) != pynvml.NVML_P2P_STATUS_OK
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(handles[0], handles[1]) == pynvml.NVML_TOPOLOGY_SINGLE
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(handles[0], handles[2]) == pynvml.NVML_TOPOLOGY_HOSTBRIDGE
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(handles[0], handles[4]) == pynvml.NVML_TOPOLOGY_SYSTEM
    assert len(nvml.nvmlDeviceGetTopologyNearestGpus(handles[0], pynvml.NVML_TOPOLOGY_HOSTBRIDGE)) == 2
    assert nvml.nvmlDeviceOnSameBoard(handles[0], handles[0])
    assert not nvml.nvmlDeviceOnSameBoard(handles[0], handles[1])
    assert nvml.nvmlDeviceGetBoardId(handles[0]) != nvml.nvmlDeviceGetBoardId(handles[1])


@pytest.mark.parametrize("fake", ["two-boards-16"], indirect=True)
def test_two_boards_share_nothing(fake: fake_nvml.Fake) -> None:
    handles = _handles(fake)
    assert {bus for bus, _ in _remotes(fake, 0)}.isdisjoint(bus for bus, _ in _remotes(fake, 8))
    assert _p2p(fake, handles[0], handles[7]) == pynvml.NVML_P2P_STATUS_OK
    assert _p2p(fake, handles[0], handles[8]) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED


@pytest.mark.parametrize("fake", ["l40s-8"], indirect=True)
def test_cards_without_nvlink_support_no_call_about_it(fake: fake_nvml.Fake) -> None:
    handle, other = _handles(fake)[:2]
    for call in (
        fake.nvml.nvmlDeviceGetNvLinkState,
        fake.nvml.nvmlDeviceGetNvLinkRemotePciInfo,
        fake.nvml.nvmlDeviceGetNvLinkRemoteDeviceType,
    ):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call(handle, 0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        _fabric(fake, handle)
    assert fake.nvml.nvmlDeviceGetP2PStatus(handle, other, 1) == pynvml.NVML_P2P_STATUS_OK
    assert fake.nvml.nvmlDeviceGetP2PStatus(handle, other, 3) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED


@pytest.mark.parametrize("fake", ["rtx4090-2"], indirect=True)
def test_consumer_cards_have_no_peer_to_peer(fake: fake_nvml.Fake) -> None:
    one, other = _handles(fake)
    assert fake.nvml.nvmlDeviceGetP2PStatus(one, other, 1) == pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED


def test_a_link_that_is_down_is_inactive_and_told_by_nobody(fake: fake_nvml.Fake) -> None:
    nvml, handle = fake.nvml, _handles(fake)[3]
    fake.link(3, 5, up=False)
    assert nvml.nvmlDeviceGetNvLinkState(handle, 5) == 0
    assert nvml.nvmlDeviceGetNvLinkErrorCounter(handle, 5, pynvml.NVML_NVLINK_ERROR_DL_RECOVERY) == 1
    assert nvml.nvmlDeviceGetFieldValues(handle, [147])[0].value.uiVal == 17
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, 5)
    fake.link(3, 5, up=True)
    assert nvml.nvmlDeviceGetNvLinkState(handle, 5) == 1
    fake.link(3, "all", up=False)
    assert _p2p(fake, handle, _handles(fake)[0]) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED
    with pytest.raises(fake_nvml.Refused, match="no NVLink 18"):
        fake.link(3, 18, up=False)


def test_arguments_out_of_range_are_invalid(fake: fake_nvml.Fake) -> None:
    nvml, (one, other) = fake.nvml, _handles(fake)[:2]
    for call, arguments in (
        (nvml.nvmlDeviceGetNvLinkState, (one, 18)),
        (nvml.nvmlDeviceGetNvLinkState, (one, -1)),
        (nvml.nvmlDeviceGetNvLinkErrorCounter, (one, 0, 9)),
        (nvml.nvmlDeviceGetP2PStatus, (one, other, 7)),
        (nvml.nvmlDeviceGetP2PStatus, (one, one, 2)),
        (nvml.nvmlDeviceGetP2PStatus, (one, None, 2)),
    ):
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            call(*arguments)


@pytest.mark.parametrize("fake", ["hgx-a100-4"], indirect=True)
def test_a_gpu_in_mig_mode_has_no_links_and_neither_has_its_peer_to_it(fake: fake_nvml.Fake) -> None:
    fake.mig(0, [], force=True)
    handles = _handles(fake)
    assert _remotes(fake, 0) == []
    assert len(_remotes(fake, 1)) == 8
    for index in range(5):
        assert fake.nvml.nvmlDeviceGetP2PStatus(handles[0], handles[1], index) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED


@pytest.mark.parametrize("fake", ["hgx-a100-4"], indirect=True)
def test_links_to_a_lost_gpu_are_down(fake: fake_nvml.Fake) -> None:
    fake.lose(0)
    assert len(_remotes(fake, 1)) == 8


@pytest.mark.parametrize(
    ("fake", "cluster", "clique"),
    [
        ("hgx-h100-8", "00" * 16, 0),
        ("gb200-4", "c0ffee5a7a6b4d0c8e21f00dbeef0042", 32766),
    ],
    indirect=["fake"],
)
def test_fabric_as_the_machine_has_it(fake: fake_nvml.Fake, cluster: str, clique: int) -> None:
    info = _fabric(fake, _handles(fake)[0])
    assert (info.state, info.status, info.cliqueId) == (pynvml.NVML_GPU_FABRIC_STATE_COMPLETED, 0, clique)
    assert bytes(info.clusterUuid).hex() == cluster
    assert info.healthSummary == pynvml.NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY
    assert _fabric(fake, _handles(fake)[0], 2).state == info.state


def test_fabric_structures_are_checked(fake: fake_nvml.Fake) -> None:
    nvml, handle = fake.nvml, _handles(fake)[0]
    old = pynvml.c_nvmlGpuFabricInfo_t()
    assert nvml.nvmlDeviceGetGpuFabricInfo(handle, byref(old)) == 0
    assert old.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED
    right = pynvml.c_nvmlGpuFabricInfo_v2_t()
    assert nvml.nvmlDeviceGetGpuFabricInfoV(handle, pointer(right)) == 0
    wrong = pynvml.c_nvmlGpuFabricInfo_v2_t()
    wrong.version = pynvml.nvmlGpuFabricInfo_v3
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(wrong))
    for given_wrongly in (right, byref(old), None):
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            nvml.nvmlDeviceGetGpuFabricInfoV(handle, given_wrongly)


def test_a_fabric_that_is_not_completed_tells_nothing_and_joins_nobody(fake: fake_nvml.Fake) -> None:
    handles = _handles(fake)
    fake.fabric(3, "in-progress", clique=7, cluster="ab" * 16)
    info = _fabric(fake, handles[3])
    assert (info.state, info.cliqueId, bytes(info.clusterUuid)) == (2, 0, bytes(16))
    assert _p2p(fake, handles[3], handles[0]) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED
    assert _p2p(fake, handles[1], handles[0]) == pynvml.NVML_P2P_STATUS_OK
    fake.fabric(3, "completed", status=pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)
    assert _fabric(fake, handles[3]).status == pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
    assert _p2p(fake, handles[3], handles[0]) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED


@pytest.mark.parametrize("fake", ["hgx-b200-8"], indirect=True)
def test_different_cliques_are_different_partitions(fake: fake_nvml.Fake) -> None:
    fake.fabric(0, clique=1)
    fake.fabric(1, clique=1)
    handles = _handles(fake)
    assert _p2p(fake, handles[0], handles[1]) == pynvml.NVML_P2P_STATUS_OK
    assert _p2p(fake, handles[0], handles[2]) == pynvml.NVML_P2P_STATUS_NOT_SUPPORTED


@pytest.mark.parametrize(
    ("health", "summary", "bit"),
    [
        (["degraded"], pynvml.NVML_GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY, 0),
        (["route-unhealthy"], pynvml.NVML_GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY, 4),
    ],
)
def test_fabric_health(fake: fake_nvml.Fake, health: list[str], summary: int, bit: int) -> None:
    fake.fabric(0, health=health)
    info = _fabric(fake, _handles(fake)[0])
    assert info.healthSummary == summary
    assert info.healthMask >> bit & 3 == 1  # true
    assert _fabric(fake, _handles(fake)[1]).healthMask >> bit & 3 == 2  # false


def test_fabric_is_refused_where_there_is_none() -> None:
    with fake_nvml.open("dgx-a100-8") as fake, pytest.raises(fake_nvml.Refused, match="on no fabric"):
        fake.fabric(0, "completed")


_MACHINES = ["dgx1-v100-8", "hgx-a100-4", "hgx-h100-8", "hgx-b200-8", "two-boards-16", "h100-nvl-8-pairs", "gb200-4"]
_befalls = st.one_of(
    st.tuples(st.just("link"), st.integers(0, 3), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("mig"), st.integers(0, 3), st.booleans(), st.none()),
    st.tuples(
        st.just("fabric"), st.integers(0, 3), st.sampled_from(["completed", "in-progress", "not-started"]), st.none()
    ),
    st.tuples(st.just("clique"), st.integers(0, 3), st.integers(0, 2), st.none()),
)


def _befall(fake: fake_nvml.Fake, what: tuple[Any, ...]) -> None:
    kind, gpu, how, up = what
    try:
        if kind == "link":
            fake.link(gpu, how, up=up)
        elif kind == "mig":
            fake.mig(gpu, [] if how else None, force=True)
        elif kind == "fabric":
            fake.fabric(gpu, how)
        else:
            fake.fabric(gpu, clique=how)
    except fake_nvml.Refused:
        pass


@settings(max_examples=40, deadline=None)
@given(machine=st.sampled_from(_MACHINES), befallen=st.lists(_befalls, max_size=8))
def test_no_two_answers_disagree(machine: str, befallen: list[tuple[Any, ...]]) -> None:
    with fake_nvml.open(machine) as fake:
        fake.nvml.nvmlInit()
        for what in befallen:
            _befall(fake, what)
        nvml, handles = fake.nvml, _handles(fake)
        buses = [nvml.nvmlDeviceGetPciInfo(handle).busId for handle in handles]
        remotes = [_remotes(fake, i) for i in range(len(handles))]
        for i, j in combinations(range(len(handles)), 2):
            a, b = handles[i], handles[j]
            assert _p2p(fake, a, b) == _p2p(fake, b, a)
            assert nvml.nvmlDeviceGetTopologyCommonAncestor(a, b) == nvml.nvmlDeviceGetTopologyCommonAncestor(b, a)
            direct = [sum(bus == buses[other] for bus, _ in remotes[one]) for one, other in ((i, j), (j, i))]
            assert direct[0] == direct[1]
            if direct[0]:
                assert _p2p(fake, a, b) == pynvml.NVML_P2P_STATUS_OK
            if not remotes[i] or not remotes[j]:
                assert _p2p(fake, a, b) != pynvml.NVML_P2P_STATUS_OK
        for i, handle in enumerate(handles):
            counted = nvml.nvmlDeviceGetFieldValues(handle, [147])[0].value.uiVal
            assert counted == sum(bus not in buses for bus, _ in remotes[i])
            states = [nvml.nvmlDeviceGetNvLinkState(handle, link) for link in range(_links(fake, handle))]
            assert sum(states) == len(remotes[i])
