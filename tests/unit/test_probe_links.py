"""Links and pairs: asked once, asked only where the answer matters, and never mistaken for none."""

from __future__ import annotations

import pytest

from deviceplugin.model.node import RemoteKind
from tests.drivers import card, opened, problems_of


def test_a_second_scan_reads_link_states_only() -> None:
    with opened("hgx-h100-8") as machine:
        first = machine.scan()
        assert machine.calls("nvmlDeviceGetTopologyCommonAncestor") == 28
        assert machine.calls("nvmlDeviceGetNvLinkState") == 8 * 18
        machine.forget_calls()
        second = machine.scan(first)
        asked = dict(machine.fake.calls)
    assert second == first
    assert asked.pop("nvmlDeviceGetNvLinkState") == 8 * 18
    per_card = {name for name, times in asked.items() if times == 8}
    assert per_card == {
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetPciInfo",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetGpuFabricInfoV",
    }
    assert sum(asked.values()) == 8 * len(per_card) + 3


def test_direct_links_need_no_question_about_peer_to_peer() -> None:
    with opened("dgx1-v100-8") as machine:
        node = machine.scan()
        assert machine.calls("nvmlDeviceGetP2PStatus") == 0
    peers = {gpu.pci for gpu in node.gpus}
    assert all(link.remote_pci in peers for gpu in node.gpus for link in gpu.links if link.active)


def test_cards_without_links_are_asked_once_each() -> None:
    with opened("t4x1") as machine:
        node = machine.scan()
        assert machine.calls("nvmlDeviceGetNvLinkState") == 1
    assert node.gpus[0].links == ()
    assert node.problems == ()


def test_a_hidden_remote_is_a_reason_to_ask_for_peer_to_peer() -> None:
    with opened("hgx-b200-8") as machine:
        node = machine.scan()
    assert {link.remote_pci for gpu in node.gpus for link in gpu.links} == {"FFFFFFFF:FF:FF.0"}
    assert {pair.p2p_nvlink for pair in node.pairs} == {True}


def test_two_boards_are_told_apart_by_peer_to_peer() -> None:
    with opened("two-boards-16") as machine:
        node = machine.scan()
    boards = [{pair.a, pair.b} for pair in node.pairs if pair.p2p_nvlink]
    assert len(boards) == 2 * 28


def test_a_refusal_in_one_direction_counts_for_the_pair() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlDeviceGetP2PStatus", gpu=7, value=5)
        node = machine.scan()
    alone = machine.uuids[7]
    for pair in node.pairs:
        assert pair.p2p_nvlink is (alone not in {pair.a, pair.b})


def test_links_that_cannot_be_read_are_unknown_not_none() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlDeviceGetNvLinkState", gpu=0, code=999)
        node = machine.scan()
    links = card(node, machine.uuids[0]).links
    assert len(links) == 18
    assert {link.active for link in links} == {None}
    assert problems_of(node, "nvmlDeviceGetNvLinkState")


def test_a_driver_without_remote_types_leaves_them_unread() -> None:
    with opened("dgx-a100-8") as machine:
        machine.fake.fault("nvmlDeviceGetNvLinkRemoteDeviceType", code=13)
        node = machine.scan()
    assert {link.remote for gpu in node.gpus for link in gpu.links} == {RemoteKind.UNREAD}
    assert {pair.p2p_nvlink for pair in node.pairs} == {True}
    assert len(problems_of(node, "nvmlDeviceGetNvLinkRemoteDeviceType")) == 8


def test_a_link_that_goes_down_has_its_pairs_asked_again() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.link(2, 5, up=False)
        machine.forget_calls()
        after = machine.scan(before)
        asked = machine.calls("nvmlDeviceGetP2PStatus")
        ancestors = machine.calls("nvmlDeviceGetTopologyCommonAncestor")
    assert [link.number for link in card(after, machine.uuids[2]).links if not link.active] == [5]
    assert 7 <= asked <= 14
    assert ancestors == 0


def test_a_link_that_comes_back_is_asked_where_it_leads() -> None:
    with opened("hgx-h100-8") as machine:
        whole = machine.scan()
        machine.fake.link(2, 5, up=False)
        down = machine.scan(whole)
        machine.fake.link(2, 5, up=True)
        back = machine.scan(down)
    assert back.gpus == whole.gpus


def test_what_a_pair_refused_for_good_is_not_asked_again_and_stays_in_sight() -> None:
    with opened("l40s-8") as machine:
        machine.fake.fault("nvmlDeviceGetTopologyCommonAncestor", code=3)
        before = machine.scan()
        machine.forget_calls()
        after = machine.scan(before)
        assert machine.calls("nvmlDeviceGetTopologyCommonAncestor") == 0
    assert after == before
    assert len(problems_of(after, "nvmlDeviceGetTopologyCommonAncestor")) == 28


def test_what_a_pair_failed_to_say_once_is_asked_again() -> None:
    with opened("hgx-h100-8") as machine:
        for query in ("nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetP2PStatus"):
            machine.fake.fault(query, code=10)
        before = machine.scan()
        machine.fake.clear()
        after = machine.scan(before)
    assert {(pair.ancestor, pair.p2p_nvlink) for pair in before.pairs} == {(None, None)}
    assert None not in {pair.ancestor for pair in after.pairs}
    assert {pair.p2p_nvlink for pair in after.pairs} == {True}
    assert after.problems == ()


def test_another_driver_version_is_read_from_the_beginning() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.fault("nvmlSystemGetDriverVersion", value="999.1")
        machine.forget_calls()
        machine.scan(before)
        assert machine.calls("nvmlDeviceGetTopologyCommonAncestor") == 28
        assert machine.calls("nvmlDeviceGetName") == 8


def test_a_slow_driver_is_read_a_few_pairs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("hgx-h100-8") as machine:
        whole = machine.scan()
        monkeypatch.setattr("deviceplugin.nvml.pairs.PATIENCE", 0.05)
        machine.fake.fault("nvmlDeviceGetTopologyCommonAncestor", delay=0.01)
        node = machine.scan()
        scans = 1
        assert "left to the next scan" in problems_of(node, "pairs")[0].detail
        assert 0 < sum(pair.ancestor is not None for pair in node.pairs) < 28
        while problems_of(node, "pairs"):
            node = machine.scan(node)
            scans += 1
            assert scans < 40
        assert machine.calls("nvmlDeviceGetTopologyCommonAncestor") == 28 + 28
    assert scans > 2
    assert node.pairs == whole.pairs
    assert node.problems == ()
