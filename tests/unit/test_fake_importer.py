"""Texts of `nvidia-smi topo -m` as people pass them around become machines; others are refused with the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pynvml
import pytest

import fake_nvml
from fake_nvml import fabric, importer, topotext
from fake_nvml.card import UnknownCard
from fake_nvml.machine import build
from fake_nvml.state import booted

TEXTS = Path(__file__).parent.parent / "machines"
_: Any = None

# name -> NUMA nodes, GPUs in groups joined by switches, rows of widths that stand for the machine
MACHINES: dict[str, tuple[list[Any], bool, list[int]]] = {
    "a100-4-nv12-nv10-down-links": ([_] * 4, False, [0, 12, 0, 0]),
    "a100-pcie-4-cloud-4numa": ([0, 1, 2, 3], False, [0, 12, 0, 0]),
    "a6000-3-pair-plus-one": ([0, 0, 0], False, [0, 4, 0]),
    "dgx-a100-8-nps4-a": ([3, 3, 1, 1, 7, 7, 5, 5], True, [0] + [12] * 7),
    "dgx1-v100-a": ([_] * 8, False, [0, 1, 1, 2, 2, 0, 0, 0]),
    "dgx2-v100-16-rebuilt": ([_] * 16, True, [0] + [6] * 15),
    "gb200-4-nics-a": ([0, 0, 1, 1], True, [0, 18, 18, 18]),
    "h100-nvl-8-pairs": ([0] * 4 + [1] * 4, False, [0, 12] + [0] * 6),
    "hetero-a100-nv12-pair-pix-pair": ([_] * 4, False, [0, 12, 0, 0]),
    "hgx-a100-4-a": ([0, 0, 1, 1], False, [0, 4, 4, 4]),
    "hgx-a100-4-nps4-full": ([3, 2, 1, 0], False, [0, 4, 4, 4]),
    "hgx-a100-4-nps4-noheadtab": ([3, 2, 1, 0], False, [0, 4, 4, 4]),
    "hgx-h200-8-full": ([0] * 4 + [1] * 4, True, [0] + [18] * 7),
    "k80-6-soc-oldest": ([_] * 6, False, [0] * 6),
    "pcie-4-node-sys-2nic": ([0, 0, 1, 1], False, [0] * 4),
    "pcie-6-ansi": ([0, 0, 0, 0, 1, 1], False, [0] * 6),
    "pcie-7-odd-tabs": ([0] * 7, False, [0] * 7),
    "pcie-8-pxb-pix-sys": ([0] * 4 + [1] * 4, False, [0] * 8),
    "power9-4-nv3-numa8": ([0, 0, 8, 8], False, [0, 3, 0, 0]),
    "v100-4-cloud-a": ([_] * 4, False, [0, 1, 1, 2]),
    "v100-5-phb": ([0] * 5, False, [0] * 5),
    "v100-8-cube-renumbered-a": ([_] * 8, False, [0, 1, 1, 2, 0, 0, 2, 0]),
    "vm-1-h100-pcie": ([0], False, [0]),
    "vm-h100-4of8-phb": ([0] * 4, True, [0, 18, 18, 18]),
    "vm-h100-8-indented-noheadtab": ([0] * 4 + [1] * 4, True, [0] + [18] * 7),
    "workstation-2-phb-1socket": ([0, 0], False, [0, 0]),
}

PAIR = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-7\t0\nGPU1\tNV4\t X \t0-7\t0\n"


def test_every_text_is_listed_here() -> None:
    assert sorted(path.stem for path in TEXTS.glob("*.topo")) == sorted(MACHINES)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_a_text_becomes_a_machine_that_shows_the_same_matrix(name: str) -> None:
    numa, switched, widths = MACHINES[name]
    text = (TEXTS / f"{name}.topo").read_text()
    matrix = topotext.parse(text)
    built = importer.machine(text, name=name)
    state = booted(built, 0)
    every = range(len(built.gpus))
    assert [gpu.numa for gpu in built.gpus] == numa
    assert any(wire and wire.domain is not None for gpu in built.gpus for wire in gpu.links) is switched
    assert [fabric.width(state, 0, other) for other in every] == widths
    for a in every:
        for b in every:
            assert fabric.width(state, a, b) == matrix.nvlinks[a][b]
            assert (built.levels[a][b] is None) == (matrix.nvlinks[a][b] > 0)


def test_pcie_levels_are_those_of_the_text_and_soc_is_sys() -> None:
    pxb = topotext.parse((TEXTS / "pcie-8-pxb-pix-sys.topo").read_text())
    assert pxb.levels[2] == (20, 20, 0, 10, 50, 50, 50, 50)
    assert topotext.parse((TEXTS / "k80-6-soc-oldest.topo").read_text()).levels[2] == (50, 50, 0, 10, 30, 30)


@pytest.mark.parametrize(
    ("cells", "node"),
    [
        ("\t0-7\t3", 3),
        ("\t0-7\t0,3-9,11-17", 0),
        ("\t0-7\t0-1", None),
        ("\t0-7\t0-1,4", None),
        ("\t0-7\tN/A", None),
        ("\t0-7\t", None),
        ("\t0-7", None),
        ("", None),
        ("   0-7   5", 5),
        ("   0-7   N/A", None),
        ("   0-7", None),
    ],
)
def test_numa_affinity(cells: str, node: int | None) -> None:
    text = f"\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X {cells}\n"
    assert topotext.parse(text).numa == (node,)


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("", 1, 1, "no header"),
        ("hello\nworld\n", 1, 1, "no header"),
        (PAIR.replace("GPU1\tNV4\t X \t0-7\t0\n", ""), 2, 1, "without a row for GPU1"),
        (PAIR.replace("NV4\t0-7", "NV5\t0-7"), 3, 6, "GPU1 to GPU0 is NV4, but GPU0 to GPU1 is NV5"),
        (PAIR.replace("NV4\t0-7", "FOO\t0-7"), 2, 10, "FOO is no connection; known: X, NV#, PIX"),
        (PAIR.replace("NV4\t0-7", "NV0\t0-7"), 2, 10, "NV0 is no connection"),
        (PAIR.replace("NV4\t0-7", "X\t0-7"), 2, 10, "expected a connection, found X"),
        (PAIR.replace("GPU0\t X ", "GPU0\tNV4"), 2, 6, "expected X on the diagonal, found NV4"),
        (PAIR.replace("GPU1\tNV4\t X \t0-7\t0", "GPU1\tNV4"), 3, 9, "GPU1 has 1 cells, expected 2"),
        (PAIR + "GPU1\tNV4\t X \t0-7\t0\n", 4, 1, "a second row for GPU1"),
        (PAIR.replace("\tGPU0\tGPU1\tCPU", "\tGPU0\tGPU2\tCPU"), 1, 7, "expected GPU1, found GPU2"),
        (PAIR.replace("\tGPU0\tGPU1\tCPU", "\tNIC0\tGPU0\tCPU"), 1, 2, "expected GPU columns first, found NIC0"),
    ],
)
def test_malformed_texts_say_where(text: str, line: int, column: int, what: str) -> None:
    with pytest.raises(fake_nvml.Malformed, match=f"line {line}, column {column}: ") as caught:
        topotext.parse(text)
    assert what in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_what_stands_around_the_matrix_does_not_matter() -> None:
    plain = topotext.parse(PAIR)
    for text in (
        "$ nvidia-smi topo -m\n" + PAIR,
        PAIR + "\nLegend:\n\n  X    = Self\n  NV#  = bonded\n",
        "".join(f"    {line}\n" for line in PAIR.splitlines()),
        PAIR.replace("\n", "\r\n"),
        f"\x1b[4m{PAIR.partition(chr(10))[0]}\x1b[0m\n{PAIR.partition(chr(10))[2]}",
        PAIR.replace("\t", "     "),
    ):
        assert topotext.parse(text) == plain


def test_the_model_is_a_parameter() -> None:
    built = importer.machine(PAIR, name="pair", model="NVIDIA RTX A6000")
    assert {gpu.card.name for gpu in built.gpus} == {"NVIDIA RTX A6000"}
    with pytest.raises(UnknownCard):
        importer.machine(PAIR, name="pair", model="NVIDIA RTX A7000")
    with pytest.raises(fake_nvml.UnknownMachine, match="GPU0 has 4 NVLinks in this text, NVIDIA L40S has 0"):
        importer.machine(PAIR, name="pair", model="l40s")


@pytest.mark.parametrize(("remote", "shown"), [("visible", "{1}"), ("own", "{0}"), ("hidden", "FFFFFFFF:FF:FF.0")])
def test_what_links_show_for_their_far_end_is_a_parameter(remote: str, shown: str) -> None:
    built = importer.machine(PAIR, name="pair", remote=remote)
    link = built.gpus[0].links[0]
    assert link is not None
    assert link.remote == shown.format(*(gpu.bus_id for gpu in built.gpus))


def test_unknown_remotes_are_refused() -> None:
    with pytest.raises(fake_nvml.UnknownMachine, match="known are visible, hidden, own"):
        importer.machine(PAIR, name="pair", remote="secret")


def test_switches_hidden_on_an_imported_machine() -> None:
    text = (TEXTS / "vm-h100-4of8-phb.topo").read_text()
    built = importer.machine(text, name="vm", model="b200-sxm", remote="hidden")
    assert {(wire.remote, wire.remote_type) for wire in built.gpus[0].links if wire} == {("FFFFFFFF:FF:FF.0", 255)}
    assert built.switches == ()


def test_unequal_widths_behind_a_switch_are_the_lesser_of_both() -> None:
    rows = [[0, 12, 10], [12, 0, 10], [10, 10, 0]]
    cells = [["X" if not width else f"NV{width}" for width in row] for row in rows]
    text = "\tGPU0\tGPU1\tGPU2\n" + "".join(f"GPU{i}\t" + "\t".join(row) + "\n" for i, row in enumerate(cells))
    state = booted(importer.machine(text, name="uneven", model="a100-sxm-80"), 0)
    assert [[fabric.width(state, a, b) for b in range(3)] for a in range(3)] == rows
    assert [fabric.counted_links(state, a) for a in range(3)] == [12, 12, 10]


def test_a_file_can_be_opened_with_options(tmp_path: Path) -> None:
    path = tmp_path / "box.topo"
    path.write_text(PAIR)
    with fake_nvml.open(f"{path}?model=NVIDIA RTX A6000&driver=550.54.15&remote=own") as fake:
        fake.nvml.nvmlInit()
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        assert fake.nvml.nvmlDeviceGetName(handle) == "NVIDIA RTX A6000"
        assert fake.nvml.nvmlSystemGetDriverVersion() == "550.54.15"
        own = fake.nvml.nvmlDeviceGetPciInfo(handle).busId
        assert fake.nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, 0).busId == own
        assert fake.spec == "box"


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.topo"
    path.write_text("nonsense\n")
    with pytest.raises(fake_nvml.Malformed, match=rf"^{path}: line 1, column 1: no header"):
        fake_nvml.open(str(path))


def test_the_distance_of_linked_gpus_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "box.topo"
    path.write_text(PAIR)
    with fake_nvml.open(str(path)) as fake:
        fake.nvml.nvmlInit()
        one, other = (fake.nvml.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
        with pytest.raises(pynvml.NVMLError_NotSupported):
            fake.nvml.nvmlDeviceGetTopologyCommonAncestor(one, other)
        assert fake.nvml.nvmlDeviceGetP2PStatus(one, other, 2) == pynvml.NVML_P2P_STATUS_OK


def test_a_driver_may_not_tell_the_kind_of_the_far_end() -> None:
    entry = {"gpus": [0, 1], "links": 4, "type": "untold"}
    built = build("untold", {"card": "rtx-a6000", "bus": ["00000000:01:00.0", "00000000:02:00.0"], "bridge": [entry]})
    assert {wire.remote_type for wire in built.gpus[0].links if wire} == {None}
