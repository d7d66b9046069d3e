"""MIG instances: slots, profiles, capability nodes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from deviceplugin.nvml.mig import computed_profile, named_profile
from tests.drivers import card, opened, problems_of


def test_instances_are_found_with_their_profiles_and_nodes() -> None:
    with opened("hgx-h100-8-mig-1g") as machine:
        node = machine.scan()
    assert [len(gpu.instances) for gpu in node.gpus] == [7] * 8
    one = node.gpus[3].instances[0]
    assert (one.profile, one.complete, one.gpu) == ("1g.10gb", True, machine.uuids[3])
    assert one.gi_capability is not None
    assert one.ci_capability is not None
    assert one.gi_capability.startswith("/dev/nvidia-caps/nvidia-cap")
    assert one.gi_capability != one.ci_capability
    assert one.memory_mib is not None
    assert (one.gi_slices, one.ci_slices) == (1, 1)
    nodes = [n for gpu in node.gpus for i in gpu.instances for n in (i.gi_capability, i.ci_capability)]
    assert len(set(nodes)) == 2 * 56
    assert node.problems == ()
    assert all(gpu.links == () for gpu in node.gpus)


def test_an_empty_slot_does_not_end_the_list() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, ["1g.10gb"] * 7, force=True)
        before = machine.scan()
        machine.fake.fault("nvmlDeviceGetMigDeviceHandleByIndex", gpu=0, code=6, times=3)
        node = machine.scan(before)
    assert [i.slot for i in before.gpus[0].instances] == list(range(7))
    assert [i.slot for i in node.gpus[0].instances] == [3, 4, 5, 6]
    assert node.problems == ()


@pytest.mark.parametrize("code", [4, 17, 999])
def test_a_card_with_instances_is_no_whole_one_though_its_mode_cannot_be_read(code: int) -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, ["7g.80gb"], force=True)
        machine.fake.fault("nvmlDeviceGetMigMode", code=code)
        node = machine.scan()
    cut, whole = card(node, machine.uuids[0]), card(node, machine.uuids[1])
    assert (cut.mig_enabled, [i.profile for i in cut.instances]) == (True, ["7g.80gb"])
    assert (whole.mig_enabled, whole.instances) == (None, ())
    assert {(p.query, p.code) for p in node.problems} == {("nvmlDeviceGetMigMode", code)}


def test_mig_on_and_empty_is_no_problem() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, [], force=True)
        node = machine.scan()
    assert node.gpus[0].mig_enabled is True
    assert node.gpus[0].instances == ()
    assert node.problems == ()


def test_current_and_pending_mode_may_differ() -> None:
    with opened("dgx-a100-8") as machine:
        machine.fake.mig(0, [], pending=True, force=True)
        node = machine.scan()
    assert (node.gpus[0].mig_enabled, node.gpus[0].mig_pending) == (False, True)


def test_a_compute_instance_smaller_than_its_gpu_instance_is_incomplete() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, ["1c.3g.40gb", "3g.40gb"], force=True)
        node = machine.scan()
    assert {(i.profile, i.complete) for i in node.gpus[0].instances} == {("1c.3g.40gb", False), ("3g.40gb", True)}


@pytest.mark.parametrize("layout", [["1c.3g.40gb", "2c.3g.40gb"], ["3g.40gb", "2g.20gb", "1g.10gb+me"], ["7g.80gb"]])
def test_without_a_name_the_driver_s_profile_is_found(layout: list[str]) -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, layout, force=True)
        machine.fake.fault("nvmlDeviceGetName", gpu=0, code=3)
        node = machine.scan()
    assert sorted(i.profile or "" for i in node.gpus[0].instances) == sorted(layout)


def test_without_any_name_the_profile_is_computed() -> None:
    layout = ["1c.3g.40gb", "2g.20gb", "1g.10gb"]
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, layout, force=True)
        machine.fake.fault("nvmlDeviceGetName", gpu=0, code=3)
        machine.fake.fault("nvmlDeviceGetGpuInstanceById", code=13)
        node = machine.scan()
    assert sorted(i.profile or "" for i in node.gpus[0].instances) == sorted(layout)
    assert [i.complete for i in node.gpus[0].instances if i.profile == "1c.3g.40gb"] == [False]


def test_what_cannot_be_told_at_all_has_no_profile() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, ["3g.40gb"], force=True)
        for query in ("nvmlDeviceGetName", "nvmlDeviceGetGpuInstanceById", "nvmlDeviceGetAttributes_v2"):
            machine.fake.fault(query, gpu=0, code=999)
        node = machine.scan()
    assert [(i.profile, i.complete, i.memory_mib) for i in node.gpus[0].instances] == [(None, True, None)]


GIB = 1 << 30


@pytest.mark.parametrize(
    ("total_mib", "slices", "compute", "memory_mib", "profile"),
    [
        (40_960, 1, 1, 4_864, "1g.5gb"),
        (40_960, 3, 3, 19_968, "3g.20gb"),
        (40_960, 3, 1, 19_968, "1c.3g.20gb"),
        (81_559, 1, 1, 9_728, "1g.10gb"),
        (81_559, 1, 1, 19_968, "1g.20gb"),
        (143_771, 1, 1, 16_384, "1g.18gb"),
        (143_771, 3, 3, 71_424, "3g.71gb"),
        (24_576, 1, 1, 5_952, "1g.6gb"),
        (183_359, 1, 1, 22_528, "1g.23gb"),
        (183_359, 7, 7, 182_272, "7g.180gb"),
    ],
)
def test_computed_profiles_are_the_field_s_names(
    total_mib: int, slices: int, compute: int, memory_mib: int, profile: str
) -> None:
    attributes = SimpleNamespace(
        gpuInstanceSliceCount=slices, computeInstanceSliceCount=compute, memorySizeMB=memory_mib
    )
    assert computed_profile(total_mib << 20, attributes) == profile
    assert computed_profile(None, attributes) is None
    assert computed_profile(total_mib << 20, None) is None


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "1g.5gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb", "1c.3g.40gb"),
        ("MIG 1g.10gb+me", "1g.10gb+me"),
        ("NVIDIA B200 MIG 1g.23gb+me.all", "1g.23gb+me.all"),
        ("NVIDIA RTX PRO 6000 MIG 2g.48gb-me", "2g.48gb-me"),
        ("NVIDIA RTX PRO 6000 MIG 4g.96gb+gfx", "4g.96gb+gfx"),
        ("1g.10gb", "1g.10gb"),
        ("NVIDIA A100-SXM4-40GB", None),
        ("NVIDIA A100-SXM4-40GB MIG ", None),
        ("", None),
        (None, None),
    ],
)
def test_profiles_are_read_from_names(name: str | None, profile: str | None) -> None:
    assert named_profile(name) == profile


def test_placement_of_old_drivers_is_in_the_uuid() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, ["3g.40gb"], force=True)
        machine.fake.fault("nvmlDeviceGetGpuInstanceId", code=13)
        machine.fake.fault("nvmlDeviceGetComputeInstanceId", code=13)
        nameless = machine.scan()
        machine.fake.close()
    assert nameless.gpus[0].instances == ()
    (problem,) = problems_of(nameless, "mig-placement")
    assert "slot 0" in problem.detail
    with opened("dgx-a100-8-mig-mixed?driver=460.32.03") as machine:
        node = machine.scan()
        machine.fake.fault("nvmlDeviceGetGpuInstanceId", code=13)
        machine.fake.fault("nvmlDeviceGetComputeInstanceId", code=13)
        old = machine.scan()
    placed = [(i.uuid, i.gi, i.ci) for gpu in node.gpus for i in gpu.instances]
    assert placed
    assert all(uuid.startswith("MIG-GPU-") for uuid, _gi, _ci in placed)
    assert [(i.uuid, i.gi, i.ci) for gpu in old.gpus for i in gpu.instances] == placed


def test_an_instance_without_its_node_has_none() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, ["3g.40gb"], force=True)
        whole = machine.scan().gpus[0].instances[0]
        assert whole.gi_capability is not None
        (machine.fake.root / whole.gi_capability.lstrip("/")).unlink()
        part = machine.scan().gpus[0].instances[0]
        (machine.fake.root / "proc/driver/nvidia-caps/mig-minors").unlink()
        none = machine.scan().gpus[0].instances[0]
    assert (part.gi_capability, part.ci_capability) == (None, whole.ci_capability)
    assert (none.gi_capability, none.ci_capability) == (None, None)


def test_instances_with_one_and_the_same_uuid_are_left_out() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(0, ["3g.40gb", "3g.40gb"], force=True)
        first = machine.scan().gpus[0].instances[0]
        # The card answers with its own UUID first, then its two instances with one and the same.
        machine.fake.fault("nvmlDeviceGetUUID", gpu=0, value=machine.uuids[0], times=1)
        machine.fake.fault("nvmlDeviceGetUUID", gpu=0, value=first.uuid, after=1)
        node = machine.scan()
    assert node.gpus[0].instances == ()
    assert [p.subject for p in problems_of(node, "nvmlDeviceGetUUID")] == [first.uuid]


@pytest.mark.parametrize("value", [-1, 1000])
def test_a_number_of_slots_that_makes_no_sense_is_walked(value: int) -> None:
    with opened("hgx-h100-8-mig-1g") as machine:
        machine.fake.fault("nvmlDeviceGetMaxMigDeviceCount", gpu=0, value=value)
        node = machine.scan()
    assert len(node.gpus[0].instances) == 7
    assert len(problems_of(node, "nvmlDeviceGetMaxMigDeviceCount")) == 1


def test_a_new_layout_is_seen_whole() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.mig(2, ["3g.40gb", "3g.40gb"], force=True)
        before = machine.scan()
        machine.fake.mig(2, ["7g.80gb"], force=True)
        after = machine.scan(before)
        machine.fake.mig(2, None, force=True)
        off = machine.scan(after)
    assert [i.profile for i in card(after, machine.uuids[2]).instances] == ["7g.80gb"]
    assert card(off, machine.uuids[2]).instances == ()
    assert len(card(off, machine.uuids[2]).links) == 18
    assert [pair.p2p_nvlink for pair in off.pairs] == [True] * 28
