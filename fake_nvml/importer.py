"""A machine from the text of `nvidia-smi topo -m`: what the text cannot say is guessed or given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fake_nvml import card as cards
from fake_nvml import topotext
from fake_nvml.machine import Machine, UnknownMachine, build

if TYPE_CHECKING:
    from fake_nvml.topotext import Matrix

_BRIDGE_MOST = 12  # no bridge or direct wiring joins two GPUs by more links
_DIRECT_GROUP = 4  # more GPUs than this, all joined alike, have a switch between them
_SWITCHES = {"v100-sxm2": 6, "v100-sxm3": 6, "a100-sxm-40": 6, "a100-sxm-80": 6, "b200-sxm": 2, "gb200": 2}
_REMOTES = ("visible", "hidden", "own")


def machine(text: str, *, name: str, model: str | None = None, remote: str = "visible") -> Machine:
    """The machine a topology text describes.

    Args:
        text: output of `nvidia-smi topo -m`.
        name: what the machine is called; its GPUs' uuids hang on it.
        model: a card's short or full name for all GPUs; guessed from the widths if not given.
        remote: what links show for their far end: `visible` (its bus id), `hidden` (FFFFFFFF:FF:FF.0), `own`
            (the GPU's own bus id).

    Raises:
        Malformed: the text is no topology matrix.
        UnknownCard: there is no such model.
        UnknownMachine: the model has fewer NVLinks than the text shows.
    """
    matrix = topotext.parse(text)
    if remote not in _REMOTES:
        raise UnknownMachine(f"remote={remote}: known are {', '.join(_REMOTES)}")
    short = cards.short_name(model) if model else guess(matrix)
    switches, bridges = _wiring(matrix, short, remote)
    fabric = [entry["gpus"] for entry in switches] if cards.card(short).fabric else []
    description: dict[str, Any] = {
        "title": f"imported: {matrix.count} GPUs",
        "card": short,
        "bus": [f"00000000:{0x10 + 3 * i:02X}:00.0" for i in range(matrix.count)],
        "numa": [-1 if node is None else node for node in matrix.numa],
        "levels": matrix.levels,
        "switch": switches,
        "bridge": bridges,
        "fabric": [{"gpus": gpus} for gpus in fabric],
    }
    return build(name, description)


def guess(matrix: Matrix) -> str:
    """The likeliest model by how wide the links are."""
    widest = max(max(row) for row in matrix.nvlinks)
    several = any(len(group) > _DIRECT_GROUP for group in _groups(matrix))
    if widest > _BRIDGE_MOST:
        return "h100-sxm"
    if widest > 6:  # noqa: PLR2004  a V100 has six
        return "a100-sxm-40" if several else "a100-pcie-80"
    if widest == 6:  # noqa: PLR2004
        return "v100-sxm3"
    if widest == 4:  # noqa: PLR2004
        return "a100-sxm-40" if any(len(group) > 2 for group in _groups(matrix)) else "rtx-a6000"  # noqa: PLR2004
    if widest:
        return "v100-sxm2"
    return "k80" if matrix.oldest else "l40s"


def _groups(matrix: Matrix) -> list[list[int]]:
    """GPUs that NVLinks connect, directly or by way of others; those without links are left out."""
    left, found = set(range(matrix.count)), []
    while left:
        group, edge = set(), [min(left)]
        while edge:
            one = edge.pop()
            group.add(one)
            edge += [j for j in range(matrix.count) if matrix.nvlinks[one][j] and j not in group]
        left -= group
        if len(group) > 1:
            found.append(sorted(group))
    return found


def _wiring(matrix: Matrix, short: str, remote: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    switches: list[dict[str, Any]] = []
    bridges: list[dict[str, Any]] = []
    links = cards.card(short).nvlinks
    for group in _groups(matrix):
        if _switched(matrix, group, links):
            switches.append(_switch(matrix, group, short, remote, len(switches)))
            continue
        for a in group:
            if sum(matrix.nvlinks[a]) > links:
                raise UnknownMachine(
                    f"GPU{a} has {sum(matrix.nvlinks[a])} NVLinks in this text, {cards.card(short).name} has "
                    f"{links}; name another model"
                )
            bridges += [
                {"gpus": [a, b], "links": matrix.nvlinks[a][b], "shown": remote}
                for b in group
                if a < b and matrix.nvlinks[a][b]
            ]
    return switches, bridges


def _switched(matrix: Matrix, group: list[int], links: int) -> bool:
    """Whether the group hangs on switches: too wide or too many for wires, and each pair as wide as its lesser."""
    widest = {a: max(matrix.nvlinks[a]) for a in group}
    alike = all(matrix.nvlinks[a][b] == min(widest[a], widest[b]) for a in group for b in group if a != b)
    if not alike or max(widest.values()) > links:
        return False
    wired = max(sum(matrix.nvlinks[a]) for a in group)
    return max(widest.values()) > _BRIDGE_MOST or len(group) > _DIRECT_GROUP or wired > links


def _switch(matrix: Matrix, group: list[int], short: str, remote: str, number: int) -> dict[str, Any]:
    widest = {a: max(matrix.nvlinks[a]) for a in group}
    most, many = max(widest.values()), _SWITCHES.get(short, 4)
    split = [most // many + (i < most % many) for i in range(many)]
    found: dict[str, Any] = {
        "gpus": group,
        "bus": [f"{number:08X}:{0xE0 + i:02X}:00.0" for i in range(many)],
        "split": split,
        "links": {str(a): widest[a] for a in group},
        "shown": remote,
    }
    return found if remote == "visible" else {**found, "type": "unknown"}
