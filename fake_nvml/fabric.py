"""Everything said about links, derived from one description: the wires of `machine` and what `state` did to them.

No two answers can disagree, because each is computed here from `active`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_nvml.machine import FABRIC_STATES, ZERO_CLUSTER

if TYPE_CHECKING:
    from fake_nvml.machine import Link
    from fake_nvml.state import GpuState, State

P2P_OK, P2P_CHIPSET, P2P_GPU, P2P_NOT_SUPPORTED = 0, 1, 2, 5
READ, WRITE, NVLINK, ATOMICS, PROPERTY = range(5)
COMPLETED = FABRIC_STATES["completed"]

# bit position and meaning of NVML_GPU_FABRIC_HEALTH_MASK_*: 1 true, 2 false
HEALTH_BITS = {"degraded": 0, "route-recovery": 2, "route-unhealthy": 4, "access-timeout": 6}
_CONFIGURATION, _CONFIGURATION_FINE = 8, 1
HEALTHY, UNHEALTHY, LIMITED = 1, 2, 3


def active(state: State, number: int, link: int) -> Link | None:
    """The wire of an active link, None where there is no wire or it carries nothing."""
    one = state.gpus[number]
    wire = one.gpu.links[link]
    if wire is None or not _carries(one, link):
        return None
    if wire.peer is not None and not _carries(state.gpus[wire.peer], wire.peer_link):
        return None
    return wire


def _carries(one: GpuState, link: int) -> bool:
    return one.usable and not one.mig_mode and link not in one.down


def active_links(state: State, number: int) -> dict[int, Link]:
    """The active links of a GPU by their number."""
    links = range(len(state.gpus[number].gpu.links))
    return {link: wire for link in links if (wire := active(state, number, link)) is not None}


def direct_width(state: State, a: int, b: int) -> int:
    """Active links that join two GPUs without a switch."""
    return sum(wire.peer == b for wire in active_links(state, a).values())


def switch_links(state: State, number: int) -> dict[int, int]:
    """Active links into each switch domain."""
    found: dict[int, int] = {}
    for wire in active_links(state, number).values():
        if wire.domain is not None:
            found[wire.domain] = found.get(wire.domain, 0) + 1
    return found


def counted_links(state: State, number: int) -> int:
    """What field 147 tells: active links known to end at a switch."""
    return sum(wire.domain is not None and wire.counted for wire in active_links(state, number).values())


def width(state: State, a: int, b: int) -> int:
    """NVLinks between two GPUs as `nvidia-smi topo -m` counts them; 0 for none."""
    if a == b:
        return 0
    direct = direct_width(state, a, b)
    if direct or not _same_partition(state.gpus[a], state.gpus[b]):
        return direct
    ours, theirs = switch_links(state, a), switch_links(state, b)
    return max((min(many, theirs.get(domain, 0)) for domain, many in ours.items()), default=0)


def _same_partition(a: GpuState, b: GpuState) -> bool:
    for one in (a, b):
        waits = one.fabric_state != COMPLETED or one.fabric_status != 0
        if one.gpu.card.fabric and one.fabric_state != 0 and waits:
            return False
    if ZERO_CLUSTER in (a.fabric_cluster, b.fabric_cluster):
        return a.fabric_clique == b.fabric_clique
    return (a.fabric_cluster, a.fabric_clique) == (b.fabric_cluster, b.fabric_clique)


def p2p(state: State, a: int, b: int, index: int) -> int:
    """NVML_P2P_STATUS_* between two GPUs for one NVML_P2P_CAPS_INDEX_*."""
    one, other = state.gpus[a], state.gpus[b]
    linked = width(state, a, b) > 0
    if one.mig_mode or other.mig_mode:
        return P2P_NOT_SUPPORTED
    if index == NVLINK:
        return P2P_OK if linked else P2P_NOT_SUPPORTED
    if linked:
        return P2P_OK
    if index == ATOMICS:
        return P2P_NOT_SUPPORTED
    if not (one.gpu.card.peer_over_pci and other.gpu.card.peer_over_pci):
        return P2P_CHIPSET
    return P2P_OK


def health_mask(one: GpuState) -> int:
    """The fabric health mask: each item told as false unless a fault set it."""
    mask = _CONFIGURATION_FINE << _CONFIGURATION
    for name, shift in HEALTH_BITS.items():
        mask |= (1 if name in one.fabric_faults else 2) << shift
    return mask


def health_summary(one: GpuState) -> int:
    """NVML_GPU_FABRIC_HEALTH_SUMMARY_* that goes with the mask."""
    if one.fabric_faults & {"route-unhealthy", "access-timeout"}:
        return UNHEALTHY
    return LIMITED if one.fabric_faults else HEALTHY
