"""MIG: cutting, finding, naming, and the device nodes that go with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pynvml
import pytest

import fake_nvml
from fake_nvml.host import capability

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[fake_nvml.Fake]:
    with fake_nvml.open("hgx-h100-8", tmp_path) as opened:
        yield opened


def _devices(fake: fake_nvml.Fake, index: int = 0) -> dict[int, tuple[str, str]]:
    """Slot -> profile and uuid."""
    nvml = fake.nvml
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    found = {}
    for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot)
        except pynvml.NVMLError_NotFound:
            continue
        found[slot] = (nvml.nvmlDeviceGetName(device).rpartition("MIG ")[2], nvml.nvmlDeviceGetUUID(device))
    return found


def _profiles(fake: fake_nvml.Fake, index: int = 0) -> list[str]:
    return [profile for profile, _ in _devices(fake, index).values()]


@pytest.mark.parametrize(
    "layout",
    [
        ["1g.10gb"] * 7,
        ["3g.40gb", "3g.40gb"],
        ["4g.40gb", "2g.20gb", "1g.10gb"],
        ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb+me"],
        ["2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"],
        ["1g.20gb"] * 4,
        ["7g.80gb"],
        [],
    ],
)
def test_layouts_that_fit(fake: fake_nvml.Fake, layout: list[str]) -> None:
    fake.mig(0, layout)
    fake.nvml.nvmlInit()
    assert sorted(_profiles(fake)) == sorted(layout)
    gpu = fake.nvml.nvmlDeviceGetHandleByIndex(0)
    assert fake.nvml.nvmlDeviceGetMigMode(gpu) == [1, 1]


@pytest.mark.parametrize(
    "layout",
    [
        ["1g.10gb"] * 8,
        ["4g.40gb", "4g.40gb"],
        ["7g.80gb", "1g.10gb"],
        ["3g.40gb", "3g.40gb", "1g.10gb"],
        ["1g.10gb+me", "1g.10gb+me"],
        ["2g.20gb"] * 4,
    ],
)
def test_layouts_that_do_not_fit_change_nothing(fake: fake_nvml.Fake, layout: list[str]) -> None:
    fake.mig(0, ["3g.40gb"])
    fake.nvml.nvmlInit()
    before = _devices(fake)
    with pytest.raises(fake_nvml.Refused, match="no room"):
        fake.mig(0, layout)
    assert _devices(fake) == before


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (["9g.90gb"], "it has: 1g.10gb, 1g.10gb.me"),
        (["3g.40gb/2c/2c"], "compute instances of 4 slices in a GPU instance of 3"),
        (["3g.40gb/x"], "written as 1c"),
        (["3g.40gb/0c"], "written as 1c"),
    ],
)
def test_layouts_that_make_no_sense_say_why(fake: fake_nvml.Fake, layout: list[str], message: str) -> None:
    with pytest.raises(fake_nvml.Refused, match=message):
        fake.mig(0, layout)


def test_a_card_without_mig_refuses_it() -> None:
    with fake_nvml.open("l40s-8") as fake:
        with pytest.raises(fake_nvml.Refused, match="cannot do MIG"):
            fake.mig(0, [])
        fake.nvml.nvmlInit()
        gpu = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        assert fake.nvml.nvmlDeviceGetMaxMigDeviceCount(gpu) == 0
        for call, rest in (
            (fake.nvml.nvmlDeviceGetMigMode, ()),
            (fake.nvml.nvmlDeviceSetMigMode, (1,)),
            (fake.nvml.nvmlDeviceGetMigDeviceHandleByIndex, (0,)),
            (fake.nvml.nvmlDeviceGetGpuInstanceProfileInfo, (0,)),
        ):
            with pytest.raises(pynvml.NVMLError_NotSupported):
                call(gpu, *rest)


def test_switching_the_mode_is_refused_while_the_driver_is_held_open_but_cutting_is_not(fake: fake_nvml.Fake) -> None:
    fake.nvml.nvmlInit()
    with pytest.raises(fake_nvml.InUse):
        fake.mig(0, [])
    gpu = fake.nvml.nvmlDeviceGetHandleByIndex(0)
    assert fake.nvml.nvmlDeviceSetMigMode(gpu, 1) == pynvml.NVML_ERROR_IN_USE
    fake.mig(0, [], force=True)
    fake.mig(0, ["3g.40gb"])
    assert _profiles(fake) == ["3g.40gb"]
    with pytest.raises(fake_nvml.InUse):
        fake.mig(0, None)
    fake.mig(0, None, force=True)
    assert fake.nvml.nvmlDeviceGetMigMode(gpu) == [0, 0]
    assert _profiles(fake) == []


def test_instances_that_stay_keep_uuid_slot_and_ids_and_leave_holes(fake: fake_nvml.Fake) -> None:
    fake.mig(0, ["2g.20gb", "1g.10gb", "1g.10gb"])
    fake.nvml.nvmlInit()
    before = _devices(fake)
    fake.mig(0, ["1g.10gb"])
    after = _devices(fake)
    assert len(after) == 1
    assert after.items() <= before.items()
    assert 0 not in after  # the slot of the 2g is empty now
    fake.mig(0, ["1g.10gb", "2g.20gb"])
    again = _devices(fake)
    assert after.items() <= again.items()
    assert again[0][0] == "2g.20gb"
    assert again[0][1] != before[0][1]  # another instance, another uuid


def test_a_mig_device_says_what_and_where_it_is(fake: fake_nvml.Fake) -> None:
    nvml = fake.nvml
    fake.mig(4, ["3g.40gb/1c/2c"])
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(4)
    small, large = (nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot) for slot in (0, 1))
    assert nvml.nvmlDeviceGetName(small) == "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb"
    assert nvml.nvmlDeviceGetName(large) == "NVIDIA H100 80GB HBM3 MIG 2c.3g.40gb"
    assert nvml.nvmlDeviceGetGpuInstanceId(small) == nvml.nvmlDeviceGetGpuInstanceId(large) == 1
    assert (nvml.nvmlDeviceGetComputeInstanceId(small), nvml.nvmlDeviceGetComputeInstanceId(large)) == (0, 1)
    attributes = nvml.nvmlDeviceGetAttributes_v2(small)
    assert (attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount) == (3, 1)
    assert (attributes.memorySizeMB, attributes.multiprocessorCount) == (40448, 20)
    assert nvml.nvmlDeviceGetAttributes(large).multiprocessorCount == 40
    parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(small)
    assert nvml.nvmlDeviceGetIndex(parent) == 4
    assert nvml.nvmlDeviceIsMigDeviceHandle(small).value == 1
    assert nvml.nvmlDeviceIsMigDeviceHandle(gpu).value == 0
    uuid = nvml.nvmlDeviceGetUUID(large)
    assert uuid.startswith("MIG-")
    assert nvml.nvmlDeviceGetComputeInstanceId(nvml.nvmlDeviceGetHandleByUUID(uuid)) == 1
    assert nvml.nvmlDeviceGetMemoryInfo(small).total == 40448 << 20


def test_an_instance_given_with_a_small_compute_instance_in_one_word(fake: fake_nvml.Fake) -> None:
    fake.mig(0, ["1c.3g.40gb"])
    fake.nvml.nvmlInit()
    assert _profiles(fake) == ["1c.3g.40gb"]


def test_calls_that_are_for_whole_gpus_or_for_mig_devices_only(fake: fake_nvml.Fake) -> None:
    nvml = fake.nvml
    fake.mig(0, ["3g.40gb"])
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
    for call, argument in (
        (nvml.nvmlDeviceGetPowerUsage, device),
        (nvml.nvmlDeviceGetMinorNumber, device),
        (nvml.nvmlDeviceGetUtilizationRates, device),
        (nvml.nvmlDeviceGetUtilizationRates, gpu),  # not told in MIG mode
        (nvml.nvmlDeviceGetAttributes_v2, gpu),
    ):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call(argument)
    for only_mig in (
        nvml.nvmlDeviceGetGpuInstanceId,
        nvml.nvmlDeviceGetComputeInstanceId,
        nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle,
    ):
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            only_mig(gpu)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetP2PStatus(nvml.nvmlDeviceGetHandleByIndex(1), device, 2)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 7)


def test_a_destroyed_instance_makes_its_handle_invalid(fake: fake_nvml.Fake) -> None:
    fake.mig(0, ["3g.40gb"])
    fake.nvml.nvmlInit()
    device = fake.nvml.nvmlDeviceGetMigDeviceHandleByIndex(fake.nvml.nvmlDeviceGetHandleByIndex(0), 0)
    fake.mig(0, [])
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvml.nvmlDeviceGetName(device)


def test_a_pending_mode_takes_effect_with_a_reset(fake: fake_nvml.Fake) -> None:
    fake.mig(0, [], pending=True)
    fake.nvml.nvmlInit()
    assert fake.nvml.nvmlDeviceGetMigMode(fake.nvml.nvmlDeviceGetHandleByIndex(0)) == [0, 1]
    fake.nvml.nvmlShutdown()
    fake.reset(0)
    fake.nvml.nvmlInit()
    assert fake.nvml.nvmlDeviceGetMigMode(fake.nvml.nvmlDeviceGetHandleByIndex(0)) == [1, 1]


def test_a_reset_keeps_the_mode_and_loses_the_instances(fake: fake_nvml.Fake) -> None:
    fake.mig(0, ["3g.40gb"])
    fake.reset(0)
    fake.nvml.nvmlInit()
    assert fake.nvml.nvmlDeviceGetMigMode(fake.nvml.nvmlDeviceGetHandleByIndex(0)) == [1, 1]
    assert _profiles(fake) == []


@pytest.mark.parametrize(("machine", "mode"), [("dgx-a100-8-mig-mixed", 1), ("hgx-h100-8-mig-1g", 0)])
def test_a_fresh_driver_keeps_the_mode_on_ampere_only(machine: str, mode: int) -> None:
    with fake_nvml.open(machine) as fake:
        fake.driver("mismatch")
        with fake_nvml.attach(fake.root) as fresh:
            fresh.nvml.nvmlInit()
            assert fresh.nvml.nvmlDeviceGetMigMode(fresh.nvml.nvmlDeviceGetHandleByIndex(0)) == [mode, mode]
            assert _profiles(fresh) == []


def test_uuids_name_the_place_before_driver_470() -> None:
    with fake_nvml.open("dgx-a100-8-mig-mixed?driver=450.80.02") as fake:
        fake.nvml.nvmlInit()
        uuid = _devices(fake, 4)[0][1]
        assert uuid == f"MIG-{fake.uuids()[4]}/1/0"
        assert fake.nvml.nvmlDeviceGetGpuInstanceId(fake.nvml.nvmlDeviceGetHandleByUUID(uuid)) == 1


def test_profiles_can_be_asked_for_by_constant_and_by_id(fake: fake_nvml.Fake) -> None:
    nvml = fake.nvml
    fake.mig(0, ["3g.40gb"])
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1)
    assert (info.name, info.id, info.sliceCount, info.instanceCount) == ("MIG 1g.10gb+me", 20, 1, 1)
    assert nvml.nvmlDeviceGetGpuInstanceProfileInfoV(gpu, 2).name == "MIG 3g.40gb"
    assert nvml.nvmlDeviceGetGpuInstanceProfileInfoById(gpu, 9).memorySizeMB == 40448
    assert not hasattr(nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 2, 1), "name")
    assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 9) == 1
    assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 5) == 1
    assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 0) == 0
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 2, 9)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 99)


def test_a_gpu_instance_can_be_asked_for_its_profile(fake: fake_nvml.Fake) -> None:
    nvml = fake.nvml
    fake.mig(0, ["3g.40gb"])
    nvml.nvmlInit()
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    info = nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceGetGpuInstanceById(gpu, 1))
    assert (info.id, info.profileId, info.placement.start, info.placement.size) == (1, 9, 4, 4)
    assert nvml.nvmlDeviceGetIndex(info.device) == 0
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetGpuInstanceById(gpu, 2)
    fake.mig(0, [])
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlGpuInstanceGetInfo(info.device)
    other = nvml.nvmlDeviceGetHandleByIndex(1)
    for call, rest in (
        (nvml.nvmlDeviceGetGpuInstanceById, (1,)),
        (nvml.nvmlDeviceGetGpuInstanceRemainingCapacity, (9,)),
    ):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call(other, *rest)


def test_capability_nodes_exist_for_what_exists(fake: fake_nvml.Fake, tmp_path: Path) -> None:
    def nodes() -> set[str]:
        return {path.name for path in (tmp_path / "dev/nvidia-caps").iterdir()}

    assert nodes() == {"nvidia-cap1", "nvidia-cap2"}
    fake.mig(1, ["3g.40gb", "1g.10gb"])
    minors = dict(
        line.rsplit(" ", 1) for line in (tmp_path / "proc/driver/nvidia-caps/mig-minors").read_text().splitlines()
    )
    wanted = [minors[f"gpu1/{place}/access"] for place in ("gi1", "gi1/ci0", "gi7", "gi7/ci0")]
    assert nodes() == {"nvidia-cap1", "nvidia-cap2", *(f"nvidia-cap{minor}" for minor in wanted)}
    assert minors["gpu1/gi0/access"] == str(capability(1, 0)) == "138"  # as on a real DGX
    fake.mig(1, [])
    assert nodes() == {"nvidia-cap1", "nvidia-cap2"}


def test_the_journal_holds_layouts_as_they_were_ordered(fake: fake_nvml.Fake, tmp_path: Path) -> None:
    fake.mig(0, ["3g.40gb"])
    last = json.loads((tmp_path / "control/journal").read_text().splitlines()[-1])
    assert last["layout"] == ["3g.40gb"]


def test_mig_by_the_call_itself_when_nobody_else_holds_the_driver(fake: fake_nvml.Fake) -> None:
    fake.nvml.nvmlInit()
    gpu = fake.nvml.nvmlDeviceGetHandleByIndex(0)
    assert fake.nvml.nvmlDeviceSetMigMode(gpu, 0) == 0  # it is off already
