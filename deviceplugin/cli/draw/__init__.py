"""A picture of a node's topology as SVG: domains as boxes, links as lines, NUMA nodes as columns, health as colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from itertools import combinations

from deviceplugin.cli.draw.plan import BAR, CARD_HEIGHT, CARD_WIDTH, GAP, MARGIN, TITLE, Box, Plan, Spot, plan
from deviceplugin.model.health import Health
from deviceplugin.model.inventory import Closeness
from deviceplugin.model.node import Gpu, Node
from deviceplugin.rules.prefer.words import PCIE_WORDS, HealthWord, health_word

INK, QUIET, PAPER = "#1b2733", "#6b7a89", "#ffffff"
COLUMN, BOX, BOX_EDGE = "#f1f4f7", "#e9f5e1", "#76b900"
LINK, NARROW, WIRE = "#4f8a00", "#a5cf63", "#9aa7b4"
HEALTH = {
    HealthWord.HEALTHY: "#2fa84f",
    HealthWord.LAST: "#f0a30a",
    HealthWord.SICK: "#d93a3a",
    HealthWord.UNCHECKED: "#9aa7b4",
}
LETTER = 13
"""Room for a letter of the title."""
NEAR = 3
"""PCIe closeness from which neighbours get a line: below one host bridge."""


def svg(node: Node, close: Closeness, health: Health) -> str:
    """Draws a scan.

    Args:
        node: The scan.
        close: Its distances.
        health: Verdicts on its GPUs.

    Returns:
        An SVG document that needs nothing else: no style sheet, no font file, no script.
    """
    if not close.uuids:
        return "\n".join(_document(520, 120, [_text(30, 66, f"no GPUs ({node.state})", size=20)]))
    laid = plan(node, close)
    width = max(laid.width, 2 * MARGIN + LETTER * len(_title(node)))
    return "\n".join(_document(width, laid.height + MARGIN, _shapes(node, close, health, laid)))


def _document(width: float, height: float, shapes: list[str]) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="Inter, Helvetica, Arial, sans-serif">'
    )
    yield f'<rect width="{width:g}" height="{height:g}" fill="{PAPER}"/>'
    yield from shapes
    yield "</svg>"


def _shapes(node: Node, close: Closeness, health: Health, laid: Plan) -> list[str]:
    shapes = [_text(MARGIN, 42, _title(node), size=22, bold=True)]
    bottom = laid.height - 4
    for column in laid.columns:
        shapes.append(_rect(column.x, TITLE, column.width, bottom - TITLE, COLUMN, round_by=14))
        numa = "NUMA node unknown" if column.numa is None else f"NUMA node {column.numa}"
        shapes.append(
            _text(column.x + column.width / 2, TITLE + 23, numa, size=14, color=QUIET, middle=True, bold=True)
        )
    for box in laid.boxes:
        shapes += _box(close, laid, box)
    shapes += _wires(close, laid)
    for gpu, spot in zip(node.gpus, laid.spots, strict=True):
        shapes += _card(gpu, spot, *health_word(health, gpu.uuid))
    shapes += _legend(close, health, laid)
    return shapes


def _title(node: Node) -> str:
    names = Counter(gpu.name for gpu in node.gpus)
    return " + ".join(f"{number} x {name}" for name, number in names.items())


def _box(close: Closeness, laid: Plan, box: Box) -> Iterator[str]:
    if not box.linked:
        if any(close.nvlink[a][b] for a in range(len(close.uuids)) for b in range(a)):
            yield _rect(box.x, box.y, box.width, box.height, "none", edge=WIRE, dashed=True, round_by=10)
            yield _text(box.x + 12, box.y + 19, "no NVLink", size=12, color=QUIET)
        return
    widths = sorted({close.nvlink[a][b] for a, b in combinations(box.members, 2)} - {0})
    words = f"NV{widths[0]}" if len(widths) == 1 else f"NV{widths[0]} to NV{widths[-1]}"
    title = f"NVLink domain {close.domain[box.members[0]]}: {words}{' through NVSwitch' if box.switched else ''}"
    yield _rect(box.x, box.y, box.width, box.height, BOX, edge=BOX_EDGE, round_by=10)
    yield _text(box.x + 12, box.y + 19, title, size=13, color=LINK, bold=True)
    if box.switched:
        yield from _switch(close, laid, box)
    else:
        yield from _links(close, laid, box)


def _switch(close: Closeness, laid: Plan, box: Box) -> Iterator[str]:
    widest = max(map(max, close.nvlink))
    for member in box.members:
        x, y = laid.spots[member].middle
        edge = y + CARD_HEIGHT / 2 if y < box.bar else y - CARD_HEIGHT / 2
        thick = 2 + 4 * max(close.nvlink[member]) / widest
        yield _line((x, edge), (x, box.bar + BAR / 2), LINK, thick)
    left = min(laid.spots[i].x for i in box.members)
    right = max(laid.spots[i].x for i in box.members) + CARD_WIDTH
    yield _rect(left, box.bar, right - left, BAR, LINK, round_by=BAR / 2)
    yield _text((left + right) / 2, box.bar + 18, "NVSwitch", size=13, color=PAPER, middle=True, bold=True)


def _links(close: Closeness, laid: Plan, box: Box) -> Iterator[str]:
    """Direct links; those that would run behind another card arch over it, or under it."""
    widest = max(map(max, close.nvlink))
    spots = [laid.spots[i] for i in box.members]
    top, bottom = min(spot.y for spot in spots), max(spot.y for spot in spots)
    for a, b in sorted(combinations(box.members, 2), key=lambda pair: close.nvlink[pair[0]][pair[1]]):
        width = close.nvlink[a][b]
        if not width:
            continue
        color, thick = (LINK, 4.5) if width == widest else (NARROW, 2.5)
        one, other = sorted((laid.spots[a], laid.spots[b]), key=lambda spot: spot.x)
        between = sum(spot.y == one.y == other.y and one.x < spot.x < other.x for spot in spots)
        if not between:
            yield _line(one.middle, other.middle, color, thick)
        elif top == bottom:
            yield _arch(one, other, (1 if between > 1 else -1, between), color, thick)
        else:
            yield _arch(one, other, (-1 if one.y == top else 1, between), color, thick)


def _arch(one: Spot, other: Spot, way: tuple[int, int], color: str, thick: float) -> str:
    """A link over (-1) or under (1) some cards, the more of them the higher and the farther out on its ends."""
    side, between = way
    aside = 26 - 18 * between
    (x1, y1), (x2, y2) = one.middle, other.middle
    x1, x2, y1, y2 = x1 + aside, x2 - aside, y1 + side * CARD_HEIGHT / 2, y2 + side * CARD_HEIGHT / 2
    lift = y1 + side * (20 + 12 * between)
    return (
        f'<path d="M {x1:g} {y1:g} C {x1:g} {lift:g} {x2:g} {lift:g} {x2:g} {y2:g}" fill="none" stroke="{color}" '
        f'stroke-width="{thick:g}"/>'
    )


def _wires(close: Closeness, laid: Plan) -> Iterator[str]:
    """PCIe between neighbours of a row that are near and not linked by a line already."""
    for a, b in combinations(range(len(laid.spots)), 2):
        one, other = laid.spots[a], laid.spots[b]
        direct = any(box.linked and not box.switched and {a, b} <= set(box.members) for box in laid.boxes)
        if one.y != other.y or abs(other.x - one.x) != CARD_WIDTH + GAP or direct or close.pcie[a][b] < NEAR:
            continue
        x = min(one.x, other.x) + CARD_WIDTH
        yield _line((x, one.y + CARD_HEIGHT / 2), (x + GAP, one.y + CARD_HEIGHT / 2), WIRE, close.pcie[a][b] - 1.5)
        yield _text(
            x + GAP / 2, one.y + CARD_HEIGHT / 2 - 6, PCIE_WORDS[close.pcie[a][b]], size=10, color=QUIET, middle=True
        )


def _card(gpu: Gpu, spot: Spot, word: HealthWord, reason: str) -> Iterator[str]:
    color = HEALTH[word]
    yield _rect(spot.x, spot.y, CARD_WIDTH, CARD_HEIGHT, PAPER, edge=color, round_by=8)
    yield _rect(spot.x, spot.y, 8, CARD_HEIGHT, color, round_by=4)
    yield _text(spot.x + 20, spot.y + 27, f"GPU {gpu.index}", size=17, bold=True)
    state = reason or ("lost" if gpu.lost else "")
    below = state or (f"MIG, {len(gpu.instances)} instances" if gpu.mig_enabled else gpu.pci.partition(":")[2].lower())
    yield _text(spot.x + 20, spot.y + 47, below, size=11, color=color if state else QUIET)


def _legend(close: Closeness, health: Health, laid: Plan) -> Iterator[str]:
    x, y = float(MARGIN), laid.height + 12
    widths = sorted({width for row in close.nvlink for width in row if width}, reverse=True)
    if any(box.linked and not box.switched for box in laid.boxes):
        for width in widths:
            color, thick = (LINK, 4.5) if width == widths[0] else (NARROW, 2.5)
            yield _line((x, y - 4), (x + 26, y - 4), color, thick)
            yield _text(x + 32, y, f"NV{width}", size=12, color=QUIET)
            x += 84
    words = dict.fromkeys(health_word(health, uuid)[0] for uuid in close.uuids)
    for word in words:
        yield f'<circle cx="{x + 6:g}" cy="{y - 4:g}" r="6" fill="{HEALTH[word]}"/>'
        yield _text(x + 18, y, word, size=12, color=QUIET)
        x += 104


def _rect(  # noqa: PLR0913 - a rectangle has four sides, and looks
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    *,
    edge: str = "",
    dashed: bool = False,
    round_by: float = 0,
) -> str:
    stroke = f' stroke="{edge}" stroke-width="1.6"' if edge else ""
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_by:g}"'
    return f'<rect {place} fill="{fill}"{stroke}{dash}/>'


def _line(start: tuple[float, float], end: tuple[float, float], color: str, thick: float) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}" stroke-width="{thick:g}"/>'


def _text(  # noqa: PLR0913 - a text has a place and looks
    x: float, y: float, words: str, *, size: int, color: str = INK, middle: bool = False, bold: bool = False
) -> str:
    anchor = ' text-anchor="middle"' if middle else ""
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}"{anchor}{weight}>{escape(words)}</text>'
