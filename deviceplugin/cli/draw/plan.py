"""Where things stand in the picture: NUMA nodes are columns, NVLink domains boxes across them, with GPUs in cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from msgspec import Struct

from deviceplugin.model.inventory import Closeness
from deviceplugin.model.node import Node

CARD_WIDTH, CARD_HEIGHT, GAP, MARGIN = 122, 62, 34, 30
TITLE, HEADER, CAPTION, BAR, PAD = 62, 34, 28, 26, 18
ROW = 4
"""Cards in a row, as many as a slide takes; above, a domain has two rows, with its switch between them."""
RISE = 38
"""Space between rows of cards that are linked directly, and above the first for links that arch."""


class Spot(Struct, frozen=True):
    """The upper left corner of a card."""

    x: float
    y: float

    @property
    def middle(self) -> tuple[float, float]:
        """Its centre."""
        return self.x + CARD_WIDTH / 2, self.y + CARD_HEIGHT / 2


class Box(Struct, frozen=True):
    """An NVLink domain, or the cards of one NUMA node that have no NVLink."""

    members: tuple[int, ...]
    linked: bool
    switched: bool
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0
    bar: float = 0
    """Where the switch is drawn."""


class Column(Struct, frozen=True):
    """A NUMA node; None is unknown."""

    numa: int | None
    x: float
    width: float


class Plan(Struct, frozen=True):
    """The whole picture. Positions are those of `Closeness`."""

    spots: tuple[Spot, ...]
    boxes: tuple[Box, ...]
    columns: tuple[Column, ...]
    width: float
    height: float


def plan(node: Node, close: Closeness) -> Plan:
    """Lays out the GPUs of a scan."""
    numas = sorted(set(close.numa), key=lambda numa: (numa is None, numa or 0))
    boxes = _boxes(node, close, numas)
    cells = {(box, numa): [i for i in box.members if close.numa[i] == numa] for box in boxes for numa in numas}
    columns, x = [], float(MARGIN)
    for numa in numas:
        widest = max(_per_row(box, len(cells[box, numa])) for box in boxes)
        width = widest * (CARD_WIDTH + GAP) - GAP + 4 * PAD
        columns.append(Column(numa, x, width))
        x += width + PAD
    spots: dict[int, Spot] = {}
    placed, y = [], float(TITLE + HEADER + PAD)
    for row in _rows(boxes, numas, close):
        height = 0.0
        for box in row:
            mine = {column: cells[box, column.numa] for column in columns if cells[box, column.numa]}
            stands = _place(box, mine, y, spots)
            placed.append(stands)
            height = max(height, stands.height)
        y += height + PAD
    ordered = tuple(spots[i] for i in range(len(close.uuids)))
    return Plan(ordered, tuple(placed), tuple(columns), x - PAD + MARGIN, y + PAD)


def _boxes(node: Node, close: Closeness, numas: Sequence[int | None]) -> list[Box]:
    domains = [tuple(i for i, own in enumerate(close.domain) if own == d) for d in sorted(set(close.domain))]
    boxes = [Box(members, linked=True, switched=_switched(node, members)) for members in domains if len(members) > 1]
    alone = [members[0] for members in domains if len(members) == 1]
    unlinked = [tuple(i for i in alone if close.numa[i] == numa) for numa in numas]
    return boxes + [Box(members, linked=False, switched=False) for members in unlinked if members]


def _switched(node: Node, members: Iterable[int]) -> bool:
    """Whether no link of a domain ends at one of its GPUs."""
    cards = [node.gpus[i] for i in members]
    buses = {card.pci.upper() for card in cards}
    return not any(
        link.active and link.remote_pci is not None and link.remote_pci.upper() in buses - {card.pci.upper()}
        for card in cards
        for link in card.links
    )


def _per_row(box: Box, count: int) -> int:
    if not box.linked:
        return min(count, ROW)
    if box.switched and count <= ROW:
        return count
    return count if count == len(box.members) == 2 else ceil(count / 2)  # noqa: PLR2004 - a pair stands side by side


def _rows(boxes: Sequence[Box], numas: Sequence[int | None], close: Closeness) -> list[list[Box]]:
    """Boxes side by side as far as their columns allow, the lowest GPU first."""
    rows: list[tuple[list[Box], set[int]]] = []
    for box in sorted(boxes, key=lambda box: (not box.linked, box.members)):
        touched = [numas.index(close.numa[i]) for i in box.members]
        span = set(range(min(touched), max(touched) + 1))
        row = next((row for row in rows if not row[1] & span), None)
        if row is None:
            rows.append(([box], span))
        else:
            row[0].append(box)
            row[1].update(span)
    return [row for row, _ in rows]


def _place(box: Box, cells: dict[Column, list[int]], top: float, spots: dict[int, Spot]) -> Box:
    columns = list(cells)
    left, right = columns[0].x + PAD / 2, columns[-1].x + columns[-1].width - PAD / 2
    arches = RISE if box.linked and not box.switched and len(box.members) > 2 else 0  # noqa: PLR2004 - a pair has none
    first = top + CAPTION + arches
    between = BAR + 2 * RISE if box.switched else 2 * RISE if box.linked else GAP
    bottom = first
    for column, members in cells.items():
        per_row = _per_row(box, len(members))
        start = column.x + (column.width - per_row * (CARD_WIDTH + GAP) + GAP) / 2
        for at, member in enumerate(members):
            row, place = divmod(at, per_row)
            spots[member] = Spot(start + place * (CARD_WIDTH + GAP), first + row * (CARD_HEIGHT + between))
            bottom = max(bottom, spots[member].y + CARD_HEIGHT)
    bar = first + CARD_HEIGHT + RISE
    if box.switched:
        bottom = max(bottom, bar + BAR)
    height = bottom + arches + PAD - top
    return Box(box.members, box.linked, box.switched, left, top, right - left, height, bar)
