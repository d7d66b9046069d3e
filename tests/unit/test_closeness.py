"""Links, switches, fabrics and PCIe distances from facts as real drivers give them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import pytest

from deviceplugin.model.inventory import Closeness
from deviceplugin.model.node import Fabric, FabricState, Gpu, Link, Node, Pair, RemoteKind
from deviceplugin.rules.prefer.closeness import measure
from tests.strategies.fabrics import MACHINES, closeness_of, scan

HIDDEN = "FFFFFFFF:FF:FF.0"
DONE = Fabric(FabricState.COMPLETED, 0, "c1", 0)
Links = Callable[[int], Sequence[Link]]


def bus(gpu: int) -> str:
    return f"00000000:{16 + gpu:02X}:00.0"


def to(*remotes: str | None, kind: RemoteKind = RemoteKind.UNREAD, active: bool | None = True) -> tuple[Link, ...]:
    return tuple(Link(number, active, kind, remote) for number, remote in enumerate(remotes))


def switched(gpu: int) -> tuple[Link, ...]:
    """Two links to each of two switches."""
    return to("00000000:C3:00.0", "00000000:C3:00.0", "00000000:C4:00.0", "00000000:C4:00.0", kind=RemoteKind.SWITCH)


def hidden(gpu: int) -> tuple[Link, ...]:
    return to(HIDDEN, HIDDEN, HIDDEN)


def board(
    links: Links,
    works: Callable[[int, int], bool | None] = lambda a, b: None,
    count: int = 4,
    fabric: Mapping[int, Fabric | None] | None = None,
    connected: int | None = None,
) -> Node:
    gpus = tuple(
        Gpu(
            index=i,
            uuid=f"GPU-{i}",
            pci=bus(i),
            name="H100",
            links=tuple(links(i)),
            switch_links=connected,
            fabric=(fabric or {}).get(i),
        )
        for i in range(count)
    )
    pairs = tuple(Pair(f"GPU-{a}", f"GPU-{b}", 40, works(a, b)) for a, b in combinations(range(count), 2))
    return Node(gpus=gpus, pairs=pairs)


def all_linked(close: Closeness, width: int) -> bool:
    count = len(close.uuids)
    return set(close.domain) == {0} and all(close.nvlink[a][b] == width for a, b in combinations(range(count), 2))


def test_direct_links_are_counted_by_peer() -> None:
    close = measure(board(lambda i: to(bus(i ^ 1), bus(i ^ 1), bus((i + 2) % 4))))
    assert close.nvlink == ((0, 2, 1, 0), (2, 0, 0, 1), (1, 0, 0, 2), (0, 1, 2, 0))
    assert close.domain == (0, 0, 0, 0)
    assert close.warnings == ()


def test_peers_are_found_however_the_bus_id_is_written() -> None:
    close = measure(board(lambda i: to(f"0000:{17 - i:02x}:00.0"), count=2))
    assert close.nvlink == ((0, 1), (1, 0))


@pytest.mark.parametrize("works", [True, None])
def test_a_visible_switch_links_all_that_share_it(works: bool | None) -> None:  # noqa: FBT001
    assert all_linked(measure(board(switched, lambda a, b: works)), 4)


def test_a_switch_pair_is_as_wide_as_the_gpu_with_fewer_active_links() -> None:
    def links(gpu: int) -> tuple[Link, ...]:
        return tuple(Link(n.number, not (gpu == 1 and n.number == 0), n.remote, n.remote_pci) for n in switched(gpu))

    close = measure(board(links))
    assert close.nvlink == ((0, 3, 4, 4), (3, 0, 3, 3), (4, 3, 0, 4), (4, 3, 4, 0))


def test_a_gpu_whose_links_are_all_down_is_a_domain_by_itself() -> None:
    close = measure(board(lambda i: to(HIDDEN, HIDDEN, active=i != 2), lambda a, b: True))
    assert close.domain == (0, 0, 1, 0)
    assert close.nvlink[2] == (0, 0, 0, 0)


def test_hidden_remotes_need_peer_to_peer_or_a_word_of_the_driver() -> None:
    assert all_linked(measure(board(hidden, lambda a, b: True)), 3)
    assert all_linked(measure(board(hidden, connected=3)), 3)
    assert all_linked(measure(board(lambda i: to(HIDDEN, HIDDEN, kind=RemoteKind.SWITCH))), 2)
    unsure = measure(board(hidden))
    assert unsure.domain == (0, 1, 2, 3)
    assert len(unsure.warnings) == 4
    assert "GPU 0: the far end of 3 active NVLinks cannot be told" in unsure.warnings[0]


@pytest.mark.parametrize("kind", list(RemoteKind))
def test_own_bus_ids_as_remotes_count_like_hidden_ones(kind: RemoteKind) -> None:
    close = measure(board(lambda i: to(bus(i), bus(i), kind=kind), lambda a, b: a // 2 == b // 2))
    expected = (0, 1, 2, 3) if kind is RemoteKind.NPU else (0, 0, 1, 1)
    assert close.domain == expected


def test_remotes_that_could_not_be_read_count_like_hidden_ones() -> None:
    assert all_linked(measure(board(lambda i: to(None, None), lambda a, b: True)), 2)


def test_links_to_a_gpu_of_another_machine_link_nothing_here() -> None:
    close = measure(board(lambda i: to("00000000:EE:00.0", kind=RemoteKind.GPU), lambda a, b: True))
    assert close.domain == (0, 1, 2, 3)


def test_one_gpu_of_a_board_may_lack_what_its_neighbours_have() -> None:
    close = measure(board(lambda i: to(*(n.remote_pci for n in switched(i))) if i == 3 else switched(i)))
    assert all_linked(close, 4), "its links lead to a switch that others name"
    blind = measure(board(lambda i: hidden(i) if i == 3 else switched(i), lambda a, b: True))
    assert blind.domain == (0, 0, 0, 0)
    assert blind.nvlink[3] == (3, 3, 3, 0)
    unsure = measure(board(lambda i: hidden(i) if i == 3 else switched(i)))
    assert unsure.domain == (0, 0, 0, 1)
    assert [w.partition(":")[0] for w in unsure.warnings] == ["GPU 3"]


def test_an_old_driver_without_any_call_about_links_has_none() -> None:
    close = measure(board(lambda i: ()))
    assert close.domain == (0, 1, 2, 3)
    assert close.warnings == ()


def test_links_of_unknown_state_count_as_down_and_are_reported() -> None:
    close = measure(board(lambda i: to(HIDDEN, HIDDEN, active=None), lambda a, b: True, count=2))
    assert close.domain == (0, 1)
    assert close.warnings[0].startswith("GPU 0: the state of 2 of 2 NVLinks could not be read")


def test_switches_that_are_not_shared_are_different_domains() -> None:
    def links(gpu: int) -> tuple[Link, ...]:
        return to(*[f"00000000:{0xC0 + gpu // 2:02X}:00.0"] * 6, kind=RemoteKind.SWITCH)

    assert measure(board(links)).domain == (0, 0, 1, 1)


def test_peer_to_peer_that_does_not_work_parts_domains() -> None:
    close = measure(board(hidden, lambda a, b: a % 2 == b % 2, connected=3))
    assert close.domain == (0, 1, 0, 1)


def test_fabric_keys_part_domains_only_where_both_are_known() -> None:
    other, zero = Fabric(FabricState.COMPLETED, 0, "c1", 1), Fabric(FabricState.COMPLETED, 0, "", 0)
    assert measure(board(switched, fabric={0: DONE, 1: DONE, 2: other, 3: other})).domain == (0, 0, 1, 1)
    assert measure(board(switched, fabric=dict.fromkeys(range(4), zero))).domain == (0, 0, 0, 0)
    assert measure(board(switched, fabric={0: DONE, 1: DONE, 2: zero, 3: zero})).domain == (0, 0, 0, 0)
    assert measure(board(switched, fabric={0: DONE, 1: DONE})).domain == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("fabric", "words"),
    [
        (Fabric(FabricState.IN_PROGRESS), "in progress"),
        (Fabric(FabricState.NOT_STARTED), "not started"),
        (Fabric(FabricState.COMPLETED, 23, "c1"), "completed with status 23"),
    ],
)
def test_a_gpu_that_has_not_joined_its_neighbours_fabric_has_no_links(fabric: Fabric, words: str) -> None:
    close = measure(board(switched, fabric={0: DONE, 1: fabric, 2: DONE, 3: DONE}))
    assert close.domain == (0, 1, 0, 0)
    assert len(close.warnings) == 1
    assert f"GPU 1: its NVLink fabric is {words}" in close.warnings[0]


def test_a_fabric_that_nobody_has_joined_says_nothing() -> None:
    starting = Fabric(FabricState.IN_PROGRESS)
    assert all_linked(measure(board(switched, fabric=dict.fromkeys(range(4), starting))), 4)


def test_unequal_answers_count_the_smaller_and_are_reported_once() -> None:
    close = measure(board(lambda i: to(*[bus(1 - i)] * (4 if i == 0 else 3)), count=2))
    assert close.nvlink == ((0, 3), (3, 0))
    assert close.warnings == ("GPU 0 shows 4 NVLinks to GPU 1, which shows 3 back; 3 are counted",)


def test_a_gpu_in_mig_mode_has_no_links() -> None:
    node = board(switched, count=3)
    cut = Gpu(index=1, uuid="GPU-1", pci=bus(1), name="H100", mig_enabled=True, links=switched(1))
    close = measure(Node(gpus=(node.gpus[0], cut, node.gpus[2]), pairs=node.pairs))
    assert close.domain == (0, 1, 0)


def test_common_ancestors_become_closeness_and_the_unknown_is_farthest() -> None:
    ancestors = [0, 10, 20, 30, 40, 50, None, 77]
    gpus = tuple(Gpu(index=i, uuid=f"GPU-{i}", pci=bus(i), name="A100", numa=i) for i in range(9))
    pairs = tuple(Pair(f"GPU-{i + 1}", "GPU-0", ancestor) for i, ancestor in enumerate(ancestors))
    close = measure(Node(gpus=gpus, pairs=(*pairs, Pair("GPU-0", "GPU-gone", 10))))
    assert close.pcie[0] == (0, 6, 5, 4, 3, 2, 1, 0, 0)
    assert tuple(row[0] for row in close.pcie) == close.pcie[0]
    assert close.numa == tuple(range(9))


def test_domains_are_numbered_by_lowest_index_whatever_the_order() -> None:
    gpus = tuple(Gpu(index=5 - i, uuid=f"GPU-{i}", pci=bus(i), name="A100") for i in range(3))
    assert measure(Node(gpus=gpus)).domain == (2, 1, 0)


def test_an_empty_node_has_no_distances() -> None:
    assert measure(Node()) == Closeness()


@pytest.mark.parametrize("machine", MACHINES)
def test_machines_are_measured_without_a_word_and_symmetrically(machine: str) -> None:
    close = closeness_of(machine)
    assert close.warnings == ()
    assert close.uuids == tuple(gpu.uuid for gpu in scan(machine).gpus)
    for matrix in (close.nvlink, close.pcie):
        assert matrix == tuple(zip(*matrix, strict=True))


@pytest.mark.parametrize(
    ("machine", "domains", "width"),
    [
        ("hgx-h100-8", (0,) * 8, 18),
        ("hgx-b200-8", (0,) * 8, 18),
        ("gb200-4", (0,) * 4, 18),
        ("dgx-a100-8", (0,) * 8, 12),
        ("dgx2-v100-16", (0,) * 16, 6),
        ("two-boards-16", (0,) * 8 + (1,) * 8, 12),
        ("hgx-h100-8-partial-mig", (0, 1, 2, 2, 2, 2, 2, 2), 18),
        ("h100-nvl-8-pairs", (0, 0, 1, 1, 2, 2, 3, 3), 12),
        ("a100-pcie-4-bridges", (0, 0, 1, 1), 12),
        ("l40s-8", tuple(range(8)), 0),
        ("a100-4-nv12-nv10-down-links.topo", (0, 0, 1, 1), 12),
        ("a6000-3-pair-plus-one.topo", (0, 0, 1), 4),
        ("vm-h100-4of8-phb.topo", (0,) * 4, 18),
        ("power9-4-nv3-numa8.topo", (0, 0, 1, 1), 3),
    ],
)
def test_domains_of_machines(machine: str, domains: tuple[int, ...], width: int) -> None:
    close = closeness_of(machine)
    assert close.domain == domains
    assert max(map(max, close.nvlink)) == width
