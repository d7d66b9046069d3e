"""A query that fails costs its fact, not the card; facts of the host's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from deviceplugin.model.node import DriverState, Fabric, FabricState
from deviceplugin.nvml import codes, host
from tests.drivers import card, opened, problems_of


def test_a_healthy_node_is_read_without_a_problem() -> None:
    with opened("hgx-h100-8") as machine:
        node = machine.scan()
    assert node.state is DriverState.READY
    assert node.problems == ()
    assert [gpu.uuid for gpu in node.gpus] == machine.uuids
    assert [gpu.index for gpu in node.gpus] == list(range(8))
    first = node.gpus[0]
    assert first.name == "NVIDIA H100 80GB HBM3"
    assert first.pci == "00000000:1B:00.0"
    assert (first.minor, first.architecture, first.compute_capability) == (0, 9, (9, 0))
    assert first.memory is not None
    assert 79 << 30 < first.memory < 80 << 30
    assert (first.mig_enabled, first.mig_pending, first.lost) == (False, False, False)
    assert [gpu.numa for gpu in node.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert node.cuda_version == (13, 0)
    assert node.machine == "HGX H100 server"


@pytest.mark.parametrize(
    ("query", "fact"),
    [
        ("nvmlDeviceGetName", "name"),
        ("nvmlDeviceGetMinorNumber", "minor"),
        ("nvmlDeviceGetMemoryInfo", "memory"),
        ("nvmlDeviceGetCudaComputeCapability", "compute_capability"),
        ("nvmlDeviceGetArchitecture", "architecture"),
        ("nvmlDeviceGetBrand", "brand"),
        ("nvmlDeviceGetMigMode", "mig_enabled"),
        ("nvmlDeviceGetPciInfo", "pci"),
        ("nvmlDeviceGetGpuFabricInfoV", "fabric"),
        ("nvmlDeviceGetFieldValues", "switch_links"),
        ("nvmlDeviceGetNvLinkState", "links"),
    ],
)
@pytest.mark.parametrize("code", [4, 10, 999], ids=["no-permission", "timeout", "unknown"])
def test_a_failed_query_costs_its_fact_and_says_why(query: str, fact: str, code: int) -> None:
    with opened("hgx-h100-8") as machine:
        whole = machine.scan()
        machine.fake.fault(query, gpu=2, code=code)
        node = machine.scan()
    assert len(node.gpus) == 8
    hurt = card(node, machine.uuids[2])
    assert getattr(hurt, fact) in (None, "") or not any(link.active for link in hurt.links)
    assert [(p.subject, p.code) for p in problems_of(node, query)] == [(hurt.uuid, code)]
    assert [g for g in node.gpus if g.index != 2] == [g for g in whole.gpus if g.index != 2]


def test_a_fact_that_fails_for_a_passing_reason_is_kept_from_the_scan_before() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        for query in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPciInfo", "nvmlDeviceGetNvLinkState"):
            machine.fake.fault(query, gpu=1, code=10)
        machine.fake.fault("nvmlDeviceGetMigMode", gpu=1, code=999)
        after = machine.scan(before)
    assert after.gpus == before.gpus
    assert {p.code for p in after.problems} == {10, 999}


def test_every_single_query_may_fail_on_every_card_and_the_node_is_still_there() -> None:
    with opened("hgx-h100-8-partial-mig") as machine:
        machine.scan()
        names = [name for name in machine.fake.calls if name.startswith("nvmlDevice")]
        assert len(names) > 15
        for name in names:
            for code in (3, 999):
                machine.fake.clear()
                machine.fake.fault(name, code=code)
                node = machine.scan()
                assert node.state is DriverState.READY, name
                needed = name in {"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"}
                assert len(node.gpus) == (0 if needed else 8), name


def test_without_minor_number_and_sysfs_the_card_is_served() -> None:
    with opened("wsl-1") as machine:
        node = machine.scan()
    assert node.gpus[0].minor is None
    assert node.gpus[0].numa is None
    assert [p.code for p in problems_of(node, "nvmlDeviceGetMinorNumber")] == [3]


def test_unified_memory_has_no_figure() -> None:
    with opened("gb10-1") as machine:
        node = machine.scan()
    assert node.gpus[0].memory is None


def test_fabric_states_come_through_and_a_zero_cluster_is_no_information() -> None:
    with opened("gb200-4") as machine:
        node = machine.scan()
        fabric = node.gpus[0].fabric
        assert fabric is not None
        assert fabric.completed
        assert len(fabric.cluster) == 36
        machine.fake.fabric(0, "completed", cluster="0" * 32, status=23)
        machine.fake.fabric(1, "in-progress")
        node = machine.scan(node)
    assert node.gpus[0].fabric is not None
    assert node.gpus[0].fabric.cluster == ""
    assert not node.gpus[0].fabric.completed
    assert node.gpus[1].fabric is not None
    assert node.gpus[1].fabric.state is FabricState.IN_PROGRESS


def test_fabric_is_not_asked_of_cards_that_cannot_have_one() -> None:
    with opened("dgx-a100-8") as machine:
        node = machine.scan()
        assert machine.calls("nvmlDeviceGetGpuFabricInfoV") == 0
    assert all(gpu.fabric is None for gpu in node.gpus)


def test_drivers_without_the_versioned_fabric_call_are_asked_the_old_one() -> None:
    with opened("gb200-4") as machine:
        whole = machine.scan()
        machine.fake.fault("nvmlDeviceGetGpuFabricInfoV", code=13)
        node = machine.scan()
        assert machine.calls("nvmlDeviceGetGpuFabricInfo") == 4
        old = node.gpus[0].fabric
        if old is not None:  # the old structure has no health mask
            new = whole.gpus[0].fabric
            assert new is not None
            assert old == Fabric(new.state, new.status, new.cluster, new.clique)
    assert node.state is DriverState.READY


@pytest.mark.parametrize(
    ("pci", "name"),
    [
        ("00000000:83:00.0", "0000:83:00.0"),
        ("00010000:0A:1F.1", "10000:0a:1f.1"),
        ("0008:01:00.0", "0008:01:00.0"),
        ("FFFFFFFF:FF:FF.0", "ffffffff:ff:ff.0"),
        ("83:00.0", None),
        ("", None),
        ("../../etc", None),
    ],
)
def test_the_domain_is_written_as_sysfs_does_and_never_cut(pci: str, name: str | None) -> None:
    assert host.sysfs_name(pci) == name


@pytest.mark.parametrize(
    ("text", "node"),
    [("3\n", 3), ("0", 0), ("8", 8), ("-1", None), ("", None), ("x", None), ("²", None), ("1.5", None)],
)
def test_numa_is_a_number_or_unknown(tmp_path: Path, text: str, node: int | None) -> None:
    folder = tmp_path / "sys/bus/pci/devices/0001:00:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(text)
    assert host.numa_node(str(tmp_path), "00000001:00:00.0") == node
    assert host.numa_node(str(tmp_path), "00000002:00:00.0") is None


def test_switches_and_sound_functions_are_no_cards(tmp_path: Path) -> None:
    devices = tmp_path / "sys/bus/pci/devices"
    kinds = {
        "0000:01:00.0": ("0x10de", "0x030200"),
        "0000:01:00.1": ("0x10de", "0x040300"),
        "0000:02:00.0": ("0x10de", "0x068000"),
        "0000:03:00.0": ("0x8086", "0x030000"),
        "0000:04:00.0": ("0x10de", "0x030000"),
    }
    for name, (vendor, kind) in kinds.items():
        (devices / name).mkdir(parents=True)
        (devices / name / "vendor").write_text(vendor + "\n")
        (devices / name / "class").write_text(kind + "\n")
    (devices / "0000:05:00.0").mkdir()
    (devices / "0000:05:00.0" / "vendor").write_text("0x10de\n")
    assert host.cards(str(tmp_path)) == ("0000:01:00.0", "0000:04:00.0", "0000:05:00.0")
    assert host.cards(str(tmp_path / "nowhere")) == ()


def test_codes_have_names_and_unknown_ones_their_number() -> None:
    assert codes.name(15) == "GPU_IS_LOST (15)"
    assert codes.name(4242) == "code 4242"


def test_what_cannot_be_looked_at_counts_as_missing() -> None:
    assert not host.exists("/", "x" * 300)
