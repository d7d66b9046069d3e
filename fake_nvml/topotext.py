"""Reading the text of `nvidia-smi topo -m`, in all the forms in which it is passed around."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fake_nvml.problem import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_HEADING = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|\S+")
_WORD = re.compile(r"\S+")
_GPU = re.compile(r"GPU(\d+)")
_NVLINK = re.compile(r"NV(\d+)")
_AFFINITIES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")

# distances in the words of the legend -> NVML_TOPOLOGY_*; SOC is what SYS was called once
LEVELS = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50, "SOC": 50}


@dataclass(frozen=True, slots=True)
class Matrix:
    """What the text says about GPUs: NICs are left out, CPU affinity is not used."""

    nvlinks: tuple[tuple[int, ...], ...]  # width of each pair, 0 for none
    levels: tuple[tuple[int | None, ...], ...]  # PCIe distance; None where the text shows NVLink
    numa: tuple[int | None, ...]
    oldest: bool  # says SOC for SYS

    @property
    def count(self) -> int:
        """How many GPUs there are."""
        return len(self.numa)


@dataclass(frozen=True, slots=True)
class _Cell:
    text: str
    line: int
    column: int

    def wrong(self, what: str) -> Malformed:
        return Malformed(self.line, self.column, what)


@dataclass(frozen=True, slots=True)
class _Row:
    label: _Cell
    cells: list[_Cell]
    numa: int | None


def parse(text: str) -> Matrix:
    """The matrix in a text. Lines and columns in errors count from 1, colour codes left out.

    Raises:
        Malformed: no header, a row that is missing, doubled, too short, or at odds with the others.
    """
    lines = [_ANSI.sub("", line) for line in text.splitlines()]
    number, heads = _header(lines)
    columns = [head for head in heads if head.text not in _AFFINITIES]
    affinities = [head.text for head in heads if head.text in _AFFINITIES]
    count = sum(bool(_GPU.fullmatch(head.text)) for head in columns)
    rows: dict[str, _Row] = {}
    for at in range(number + 1, len(lines)):
        label = next(_words(lines[at], at + 1), None)
        if label is None or not any(label.text == head.text for head in columns):
            continue
        if label.text in rows:
            raise label.wrong(f"a second row for {label.text}")
        rows[label.text] = _row(lines[at], at + 1, len(columns), affinities)
    for name in (f"GPU{i}" for i in range(count)):
        if name not in rows:
            raise Malformed(len(lines), 1, f"the text ends without a row for {name}")
    return _matrix([rows[f"GPU{i}"] for i in range(count)])


def _header(lines: list[str]) -> tuple[int, list[_Cell]]:
    for at, line in enumerate(lines):
        heads = [_Cell(m.group(), at + 1, m.start() + 1) for m in _HEADING.finditer(line)]
        gpus = [head for head in heads if _GPU.fullmatch(head.text)]
        if not gpus or any(head.text == "X" for head in heads):
            continue
        for wanted, head in enumerate(gpus):
            if head.text != f"GPU{wanted}":
                raise head.wrong(f"expected GPU{wanted}, found {head.text}")
        if heads[: len(gpus)] != gpus:
            raise heads[0].wrong(f"expected GPU columns first, found {heads[0].text}")
        return at, heads
    raise Malformed(1, 1, "no header line that names GPU0; is this the output of `nvidia-smi topo -m`?")


def _words(line: str, number: int) -> Iterator[_Cell]:
    for found in _WORD.finditer(line):
        yield _Cell(found.group(), number, found.start() + 1)


def _row(line: str, number: int, columns: int, affinities: list[str]) -> _Row:
    label, *words = _words(line, number)
    if len(words) < columns:
        raise Malformed(number, len(line.rstrip()) + 1, f"{label.text} has {len(words)} cells, expected {columns}")
    cells = words[:columns]
    end = cells[-1].column - 1 + len(cells[-1].text)
    return _Row(label, cells, _numa(line[end:], affinities))


def _numa(rest: str, affinities: list[str]) -> int | None:
    """The NUMA node in what follows the matrix: a number, or the first number of a list."""
    if "NUMA Affinity" not in affinities:
        return None
    place = affinities.index("NUMA Affinity")
    parts = rest.strip(" ").split("\t")[1:] if rest.lstrip(" ").startswith("\t") else rest.split()
    first = parts[place].strip().split(",")[0] if place < len(parts) else ""
    return int(first) if first.isdigit() else None


def _matrix(rows: list[_Row]) -> Matrix:
    count = len(rows)
    nvlinks = [[0] * count for _ in rows]
    levels: list[list[int | None]] = [[0] * count for _ in rows]
    for i, row in enumerate(rows):
        for j, cell in enumerate(row.cells[:count]):
            nvlinks[i][j], levels[i][j] = _meaning(cell, itself=i == j)
            if j < i and (nvlinks[i][j], levels[i][j]) != (nvlinks[j][i], levels[j][i]):
                other = rows[j].cells[i]
                raise cell.wrong(f"GPU{i} to GPU{j} is {cell.text}, but GPU{j} to GPU{i} is {other.text}")
    return Matrix(
        tuple(map(tuple, nvlinks)),
        tuple(map(tuple, levels)),
        tuple(row.numa for row in rows),
        any(cell.text == "SOC" for row in rows for cell in row.cells),
    )


def _meaning(cell: _Cell, *, itself: bool) -> tuple[int, int | None]:
    """NVLink width and PCIe level of a cell."""
    if itself != (cell.text == "X"):
        raise cell.wrong(f"expected {'X on the diagonal' if itself else 'a connection'}, found {cell.text}")
    if itself:
        return 0, 0
    if (link := _NVLINK.fullmatch(cell.text)) and int(link.group(1)):
        return int(link.group(1)), None
    if cell.text in LEVELS:
        return 0, LEVELS[cell.text]
    raise cell.wrong(f"{cell.text} is no connection; known: X, NV#, {', '.join(LEVELS)}")
