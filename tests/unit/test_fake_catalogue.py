"""The machines that come along: the figures of the real ones, and what a name can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pynvml
import pytest

import fake_nvml
from fake_nvml import card, fabric, machine
from fake_nvml.state import booted

if TYPE_CHECKING:
    from pathlib import Path

# name -> GPUs, model, MiB, compute capability, widths from GPU 0, MIG devices
MACHINES: dict[str, tuple[int, str, int | None, tuple[int, int], list[int], int]] = {
    "a100-pcie-4-bridges": (4, "NVIDIA A100 80GB PCIe", 81920, (8, 0), [0, 12, 0, 0], 0),
    "dgx-a100-8": (8, "NVIDIA A100-SXM4-40GB", 40960, (8, 0), [0] + [12] * 7, 0),
    "dgx-a100-8-mig-mixed": (8, "NVIDIA A100-SXM4-40GB", 40960, (8, 0), [0] * 8, 32),
    "dgx1-v100-8": (8, "Tesla V100-SXM2-16GB", 16384, (7, 0), [0, 1, 1, 2, 2, 0, 0, 0], 0),
    "dgx2-v100-16": (16, "Tesla V100-SXM3-32GB", 32768, (7, 0), [0] + [6] * 15, 0),
    "gb10-1": (1, "NVIDIA GB10", None, (12, 1), [0], 0),
    "gb200-4": (4, "NVIDIA GB200", 189471, (10, 0), [0, 18, 18, 18], 0),
    "h100-nvl-8-pairs": (8, "NVIDIA H100 NVL", 95830, (9, 0), [0, 12] + [0] * 6, 0),
    "hgx-a100-4": (4, "NVIDIA A100-SXM4-40GB", 40960, (8, 0), [0, 4, 4, 4], 0),
    "hgx-b200-8": (8, "NVIDIA B200", 183359, (10, 0), [0] + [18] * 7, 0),
    "hgx-h100-8": (8, "NVIDIA H100 80GB HBM3", 81559, (9, 0), [0] + [18] * 7, 0),
    "hgx-h100-8-mig-1g": (8, "NVIDIA H100 80GB HBM3", 81559, (9, 0), [0] * 8, 56),
    "hgx-h100-8-partial-mig": (8, "NVIDIA H100 80GB HBM3", 81559, (9, 0), [0] * 8, 9),
    "hgx-h200-8": (8, "NVIDIA H200", 143771, (9, 0), [0] + [18] * 7, 0),
    "l40s-8": (8, "NVIDIA L40S", 46068, (8, 9), [0] * 8, 0),
    "none": (0, "", None, (0, 0), [], 0),
    "rtx4090-2": (2, "NVIDIA GeForce RTX 4090", 24564, (8, 9), [0, 0], 0),
    "t4x1": (1, "Tesla T4", 15360, (7, 5), [0], 0),
    "two-boards-16": (16, "NVIDIA A100-SXM4-80GB", 81920, (8, 0), [0] + [12] * 7 + [0] * 8, 0),
    "wsl-1": (1, "NVIDIA GeForce RTX 4080", 16376, (8, 9), [0], 0),
}


def test_the_catalogue_is_this() -> None:
    assert fake_nvml.names() == sorted(MACHINES)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_a_machine_has_the_figures_of_the_real_one(name: str) -> None:
    count, model, memory, capability, widths, devices = MACHINES[name]
    built = machine.catalogued(name)
    assert len(built.gpus) == count
    state = booted(built, 0)
    assert [fabric.width(state, 0, other) for other in range(count)] == widths
    assert sum(len(one.devices) for one in state.gpus) == devices
    for gpu in built.gpus:
        assert (gpu.card.name, gpu.card.memory_mib, gpu.card.capability) == (model, memory, capability)
        assert sum(wire is not None for wire in gpu.links) <= gpu.card.nvlinks
    assert len({gpu.uuid for gpu in built.gpus}) == len({gpu.bus_id for gpu in built.gpus}) == count
    assert [gpu.bus_id for gpu in built.gpus] == sorted(gpu.bus_id for gpu in built.gpus)  # index order is PCI order


@pytest.mark.parametrize("short", card.names())
def test_profiles_fit_their_card(short: str) -> None:
    """The gigabytes in a profile's name are the card's eighths, rounded as the driver does it."""
    one = card.card(short)
    assert one.mig_devices in (0, 7)
    for profile in one.profiles:
        gigabytes = float(profile.name.partition("g.")[2].partition("gb")[0])
        total = -(-(one.memory_mib or 0) // 1024)
        eighths = -(-8 * profile.memory_mib // (one.memory_mib or 1))
        assert eighths == profile.size
        assert abs(gigabytes - eighths / 8 * total) <= 0.5
        assert profile.slices == int(profile.name[0])
        assert all(start + profile.size <= 8 for start in profile.starts)


def test_numa_nodes_need_not_be_in_order() -> None:
    assert [gpu.numa for gpu in machine.catalogued("dgx-a100-8").gpus] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert machine.catalogued("t4x1").gpus[0].numa is None


def test_a_domain_above_ffff_is_not_cut() -> None:
    built = machine.build("far", {"card": "t4", "bus": ["00010002:03:00.0"]})
    assert built.gpus[0].sysfs_name == "10002:03:00.0"


def test_two_gpus_of_one_board() -> None:
    places = ["0/0/0/0/0", "0/0/0/0/0", "0/0/0/0/1", "0/0/0/1", "0/0/1/0", "0/1/0/0", "1/0/0/0"]
    built = machine.build(
        "board", {"card": "k80", "bus": [f"00000000:{i:02X}:00.0" for i in range(7)], "place": places}
    )
    assert built.levels[0] == (0, 0, 10, 20, 30, 40, 50)


def test_an_unknown_machine_lists_the_known_ones() -> None:
    with pytest.raises(fake_nvml.UnknownMachine, match=r"unknown machine 'h100'; known: a100-pcie-4-bridges, .*wsl-1"):
        fake_nvml.open("h100")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("t4x1?colour=red", "unknown option 'colour'; known: model, remote, driver"),
        ("t4x1?model=l40s", "options of .topo files"),
        ("nowhere.topo", "nowhere.topo: No such file"),
        ("", "unknown machine ''"),
    ],
)
def test_specs_that_make_no_sense_say_why(spec: str, message: str) -> None:
    with pytest.raises(fake_nvml.UnknownMachine, match=message):
        fake_nvml.open(spec)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.topo").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(fake_nvml.UnknownMachine, match=r"x\.topo: not a text file"):
        fake_nvml.open(str(tmp_path / "x.topo"))


def test_unknown_cards_list_the_known_ones() -> None:
    with pytest.raises(card.UnknownCard, match="known: a100-pcie-80"):
        card.card("h1000")
    with pytest.raises(card.UnknownCard, match=r"t4 \(Tesla T4\)"):
        card.short_name("Tesla T400")
    assert card.short_name("nvidia h100 80gb hbm3") == card.short_name("h100-sxm") == "h100-sxm"


def test_no_driver_no_library() -> None:
    with fake_nvml.open("none") as fake, pytest.raises(pynvml.NVMLError_LibraryNotFound):
        fake.nvml.nvmlInit()
