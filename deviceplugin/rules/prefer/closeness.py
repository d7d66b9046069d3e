"""How close the GPUs of one scan are: NVLink widths, PCIe distances and NVLink domains, from facts alone.

A pair is linked directly (the far end of a link is the other GPU) or through NVSwitch, where the far end is never a
GPU. Switches are told by what the driver says of each link, GPU by GPU; where it says nothing, a link whose far end is
no GPU of this machine counts once peer-to-peer over NVLink is reported to work for the pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations

from msgspec import Struct

from deviceplugin.model.inventory import Closeness
from deviceplugin.model.node import Fabric, FabricState, Gpu, Link, Node, Pair, RemoteKind

PCIE = {0: 6, 10: 5, 20: 4, 30: 3, 40: 2, 50: 1}
"""nvmlDeviceGetTopologyCommonAncestor to closeness: 6 same board, 5 PIX, 4 PXB, 3 PHB, 2 NODE, 1 SYS."""

HIDDEN = (0xFFFFFFFF, 0xFF, 0xFF, 0)
"""The far end as drivers print it when they show no switch: FFFFFFFF:FF:FF.0."""

Bus = tuple[int, int, int, int]
Place = tuple[int, int]


class _Ends(Struct, frozen=True):
    """Where the active links of one GPU lead."""

    direct: Mapping[int, int]
    """Position of a peer to the number of links that end at it."""
    switched: int
    """Links that end, or may end, at a switch."""
    certain: bool
    """The driver said that they do; otherwise only working peer-to-peer over NVLink tells."""
    switches: frozenset[Bus]
    """Bus ids of the switches it shows; empty where they are hidden."""
    unread: int
    """Links whose state could not be read."""


def measure(node: Node) -> Closeness:
    """Measures every pair of GPUs of a scan.

    Args:
        node: A whole scan; what it could not read is None there and is never taken for a link.

    Returns:
        NVLink width (direct links, or the smaller number of active switch links where both share an NVSwitch domain),
        PCIe closeness and NVLink domains, with a sentence for each fact that was missing or did not agree.
    """
    gpus = node.gpus
    place = {gpu.uuid: i for i, gpu in enumerate(gpus)}
    pairs = {_pair(place[p.a], place[p.b]): p for p in node.pairs if p.a in place and p.b in place}
    ends = _all_ends(gpus)
    warnings = [w for gpu, end in zip(gpus, ends, strict=True) for w in _unread(gpu, end)]
    warnings += _unequal(gpus, ends)
    sharing, undecided = _sharing(gpus, ends, pairs)
    warnings += undecided
    sharing, unjoined = _joined(gpus, sharing)
    warnings += unjoined
    nvlink = _matrix(len(gpus), {p: _width(ends, p, p in sharing) for p in combinations(range(len(gpus)), 2)})
    pcie = _matrix(len(gpus), {p: PCIE.get(-1 if d.ancestor is None else d.ancestor, 0) for p, d in pairs.items()})
    return Closeness(
        uuids=tuple(gpu.uuid for gpu in gpus),
        index=tuple(gpu.index for gpu in gpus),
        numa=tuple(gpu.numa for gpu in gpus),
        nvlink=nvlink,
        pcie=pcie,
        domain=_domains(tuple(gpu.index for gpu in gpus), nvlink),
        warnings=tuple(warnings),
    )


def _pair(a: int, b: int) -> Place:
    return (a, b) if a < b else (b, a)


def _matrix(size: int, values: Mapping[Place, int]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(values.get(_pair(a, b), 0) if a != b else 0 for b in range(size)) for a in range(size))


def _bus(pci: str | None) -> Bus | None:
    """A bus id as numbers, however many digits its domain has; None where there is none or it is hidden."""
    try:
        domain, bus, rest = (pci or "").split(":")
        device, function = rest.split(".")
        numbers = (int(domain, 16), int(bus, 16), int(device, 16), int(function, 16))
    except ValueError:
        return None
    return None if numbers == HIDDEN else numbers


def _all_ends(gpus: tuple[Gpu, ...]) -> tuple[_Ends, ...]:
    buses = {bus: i for i, gpu in enumerate(gpus) if (bus := _bus(gpu.pci)) is not None}
    known = frozenset(
        bus
        for gpu in gpus
        for link in gpu.links
        if link.remote is RemoteKind.SWITCH and (bus := _bus(link.remote_pci)) is not None and bus not in buses
    )
    return tuple(_ends(i, gpu, buses, known) for i, gpu in enumerate(gpus))


def _ends(own: int, gpu: Gpu, buses: Mapping[Bus, int], known: frozenset[Bus]) -> _Ends:
    if gpu.mig_enabled:
        return _Ends({}, 0, certain=False, switches=frozenset(), unread=0)
    direct: Counter[int] = Counter()
    far: list[tuple[Link, Bus | None]] = []
    for link in gpu.links:
        bus = _bus(link.remote_pci)
        peer = buses.get(bus, own) if bus is not None else own
        if not link.active:
            continue
        if peer != own:
            direct[peer] += 1
        elif link.remote is not RemoteKind.NPU and not _absent_gpu(link, bus, buses):
            far.append((link, None if bus in buses else bus))
    certain = bool(gpu.switch_links) or any(link.remote is RemoteKind.SWITCH or bus in known for link, bus in far)
    switches = frozenset(bus for _, bus in far if bus is not None)
    return _Ends(direct, len(far), certain, switches, sum(link.active is None for link in gpu.links))


def _absent_gpu(link: Link, bus: Bus | None, buses: Mapping[Bus, int]) -> bool:
    """A direct link to a GPU that this machine (a VM, say) does not have."""
    return link.remote is RemoteKind.GPU and bus is not None and bus not in buses


def _unread(gpu: Gpu, end: _Ends) -> Iterable[str]:
    if end.unread:
        yield (
            f"GPU {gpu.index}: the state of {end.unread} of {len(gpu.links)} NVLinks could not be read; they count as "
            "down, and NUMA and PCIe distances decide instead"
        )


def _unequal(gpus: tuple[Gpu, ...], ends: tuple[_Ends, ...]) -> Iterable[str]:
    for a, b in combinations(range(len(gpus)), 2):
        there, back = ends[a].direct.get(b, 0), ends[b].direct.get(a, 0)
        if there != back:
            yield (
                f"GPU {gpus[a].index} shows {there} NVLinks to GPU {gpus[b].index}, which shows {back} back; "
                f"{min(there, back)} are counted"
            )


def _sharing(
    gpus: tuple[Gpu, ...], ends: tuple[_Ends, ...], pairs: Mapping[Place, Pair]
) -> tuple[frozenset[Place], list[str]]:
    """Pairs in one NVSwitch domain as far as links and peer-to-peer tell, and those where nothing tells."""
    sharing, undecided = set(), Counter[int]()
    for a, b in combinations(range(len(gpus)), 2):
        one, other = ends[a], ends[b]
        if not (one.switched and other.switched) or _apart(one, other) or _other_fabric(gpus[a].fabric, gpus[b].fabric):
            continue
        works = pairs[a, b].p2p_nvlink if (a, b) in pairs else None
        if works or (works is None and one.certain and other.certain):
            sharing.add((a, b))
        elif works is None:
            undecided.update(i for i in (a, b) if not ends[i].certain)
    return frozenset(sharing), [
        f"GPU {gpus[i].index}: the far end of {ends[i].switched} active NVLinks cannot be told, nor whether "
        "peer-to-peer over NVLink works; they count as none, and NUMA and PCIe distances decide instead"
        for i in sorted(undecided)
    ]


def _apart(one: _Ends, other: _Ends) -> bool:
    return bool(one.switches) and bool(other.switches) and not one.switches & other.switches


def _other_fabric(one: Fabric | None, other: Fabric | None) -> bool:
    if one is None or other is None or not (one.completed and other.completed and one.cluster and other.cluster):
        return False
    return (one.cluster, one.clique) != (other.cluster, other.clique)


def _joined(gpus: tuple[Gpu, ...], sharing: frozenset[Place]) -> tuple[frozenset[Place], list[str]]:
    """Drops GPUs that have not joined the fabric which a neighbour has joined."""
    outside: set[int] = set()
    for a, b in sharing:
        for gpu, neighbour in ((a, b), (b, a)):
            own, theirs = gpus[gpu].fabric, gpus[neighbour].fabric
            if own is not None and not own.completed and theirs is not None and theirs.completed:
                outside.add(gpu)
    return frozenset(p for p in sharing if outside.isdisjoint(p)), [
        f"GPU {gpus[i].index}: its NVLink fabric is {_words(gpus[i].fabric)} while that of its neighbours is "
        "completed; its switch links are not counted"
        for i in sorted(outside)
    ]


def _words(fabric: Fabric | None) -> str:
    state = FabricState.NOT_SUPPORTED if fabric is None else fabric.state
    if fabric is not None and state is FabricState.COMPLETED:
        return f"completed with status {fabric.status}"
    return state.name.lower().replace("_", " ")


def _width(ends: tuple[_Ends, ...], pair: Place, switched: bool) -> int:  # noqa: FBT001 (a fact of the pair)
    a, b = pair
    direct = min(ends[a].direct.get(b, 0), ends[b].direct.get(a, 0))
    return direct or (min(ends[a].switched, ends[b].switched) if switched else 0)


def _domains(index: tuple[int, ...], nvlink: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    domain: dict[int, int] = {}
    number = 0
    for start in sorted(range(len(index)), key=lambda i: (index[i], i)):
        if start in domain:
            continue
        reach = [start]
        while reach:
            here = reach.pop()
            if here not in domain:
                domain[here] = number
                reach += [i for i, width in enumerate(nvlink[here]) if width]
        number += 1
    return tuple(domain[i] for i in range(len(index)))
