"""The picture: everything is in it once, in its place, in the colour of its health."""

from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from deviceplugin.cli.draw import HEALTH, svg
from deviceplugin.cli.draw.plan import CARD_HEIGHT, CARD_WIDTH, plan
from deviceplugin.model.health import Health, Sickness
from deviceplugin.model.inventory import Closeness
from deviceplugin.model.node import Node
from deviceplugin.rules.prefer.words import HealthWord
from tests.strategies.fabrics import MACHINES, closeness_of, scan


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("machine", MACHINES)
def test_each_gpu_is_drawn_once_in_its_numa_column_and_domain_box(machine: str) -> None:
    node, close = scan(machine), closeness_of(machine)
    words = texts(svg(node, close, Health()))
    assert sorted(word for word in words if word.startswith("GPU ")) == sorted(f"GPU {g.index}" for g in node.gpus)
    laid = plan(node, close)
    columns = {column.numa: column for column in laid.columns}
    for at, spot in enumerate(laid.spots):
        column = columns[close.numa[at]]
        assert column.x <= spot.x <= column.x + column.width - CARD_WIDTH
        box = next(box for box in laid.boxes if at in box.members)
        assert box.x <= spot.x <= box.x + box.width - CARD_WIDTH
        assert box.y <= spot.y <= box.y + box.height - CARD_HEIGHT
        assert spot.x + CARD_WIDTH <= laid.width
        assert spot.y + CARD_HEIGHT <= laid.height
        others = {member for member in box.members if close.domain[member] != close.domain[at]}
        assert not (box.linked and others)
    for one, other in combinations(laid.spots, 2):
        assert abs(one.x - other.x) >= CARD_WIDTH or abs(one.y - other.y) >= CARD_HEIGHT
    for first, second in combinations(laid.boxes, 2):
        beside = first.x + first.width <= second.x or second.x + second.width <= first.x
        assert beside or first.y + first.height <= second.y or second.y + second.height <= first.y


@pytest.mark.parametrize(
    ("machine", "switches", "titles"),
    [
        ("hgx-h100-8", 1, ["NVLink domain 0: NV18 through NVSwitch"]),
        ("two-boards-16", 2, [f"NVLink domain {n}: NV12 through NVSwitch" for n in (0, 1)]),
        ("dgx1-v100-8", 0, ["NVLink domain 0: NV1 to NV2"]),
        ("hgx-a100-4", 0, ["NVLink domain 0: NV4"]),
        ("h100-nvl-8-pairs", 0, [f"NVLink domain {n}: NV12" for n in (0, 2, 1, 3)]),
        ("l40s-8", 0, []),
    ],
)
def test_domains_are_titled_and_switches_drawn(machine: str, switches: int, titles: list[str]) -> None:
    words = texts(svg(scan(machine), closeness_of(machine), Health()))
    assert words.count("NVSwitch") == switches
    assert [word for word in words if word.startswith("NVLink domain")] == titles


@pytest.mark.parametrize(
    ("machine", "links"), [("dgx1-v100-8", 16), ("hgx-a100-4", 6), ("hgx-a100-4-nps4-full.topo", 6)]
)
def test_each_direct_link_is_one_line(machine: str, links: int) -> None:
    close = closeness_of(machine)
    root = ET.fromstring(svg(scan(machine), close, Health()))
    shapes = [e for e in root.iter() if e.tag.endswith(("line", "path"))]
    legend = len({width for row in close.nvlink for width in row if width})
    assert len(shapes) == links + legend


def test_health_is_a_colour_with_its_reason() -> None:
    node, close = scan("hgx-h100-8"), closeness_of("hgx-h100-8")

    def because(reason: str) -> tuple[Sickness, ...]:
        return (Sickness(uuid="", reason=reason, kind="state", since=0.0),)

    health = Health(sick={close.uuids[3]: because("xid-79")}, last={close.uuids[6]: because("remap-pending")})
    picture = svg(node, close, health)
    words = texts(picture)
    assert {"xid-79", "remap-pending", "healthy", "unhealthy", "ranked last"} <= set(words)
    for word in (HealthWord.HEALTHY, HealthWord.SICK, HealthWord.LAST):
        assert HEALTH[word] in picture
    assert "not checked" in texts(svg(node, close, Health(checked=False)))


def test_gpus_without_links_beside_linked_ones_are_told_apart() -> None:
    words = texts(svg(scan("hgx-h100-8-partial-mig"), closeness_of("hgx-h100-8-partial-mig"), Health()))
    assert words.count("no NVLink") == 1
    assert {"MIG, 7 instances", "MIG, 2 instances"} <= set(words)


def test_a_node_without_gpus_says_so() -> None:
    assert texts(svg(Node(), Closeness(), Health())) == ["no GPUs (starting)"]
