"""What can happen to the hardware: each function is one operation of the journal on the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fake_nvml import mig as migs
from fake_nvml.card import EVENTS
from fake_nvml.machine import FABRIC_STATES, ZERO_CLUSTER
from fake_nvml.problem import Refused
from fake_nvml.state import (
    AGGREGATE,
    ANY,
    CORRECTED,
    UNCORRECTED,
    VOLATILE,
    Event,
    GpuState,
    Process,
    State,
    start_fabric,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

XID, RECOVERY_EVENT = EVENTS["xid"], EVENTS["recovery-action"]
RECOVERY_CHANGED = 154
FALLEN_OFF = 79
GPU_RESET, NODE_REBOOT, DRAIN_AND_RESET = 1, 2, 4

# the recovery action that a driver announces along with an Xid; others leave it alone
RECOVERY_OF_XID: Final = {
    48: GPU_RESET,
    62: GPU_RESET,
    64: GPU_RESET,
    74: GPU_RESET,
    79: NODE_REBOOT,
    95: GPU_RESET,
    119: GPU_RESET,
    120: GPU_RESET,
    140: GPU_RESET,
    143: GPU_RESET,
}
# what an Xid says about remapping rows, or retiring pages on cards before Ampere
MEMORY_XIDS: Final = {63: "pending", 64: "failure"}


def gpu_of(state: State, number: int) -> GpuState:
    """The GPU of that number.

    Raises:
        Refused: the machine has no such GPU.
    """
    if not 0 <= number < len(state.gpus):
        raise Refused(f"no GPU {number}; {state.machine.name} has {len(state.gpus)} (0 is the first)")
    return state.gpus[number]


def xid(state: State, op: Mapping[str, Any]) -> None:
    """An Xid; one for the whole GPU has effects on its state unless told not to."""
    one, code = gpu_of(state, op["gpu"]), op["xid"]
    gi, ci = op.get("gi"), op.get("ci")
    if gi is not None and gi not in one.instances:
        raise Refused(f"GPU {one.number} has no GPU instance {gi}; it has: {sorted(one.instances) or 'none'}")
    whole = gi is None and ci is None
    if whole and op.get("effects", True):
        one.recovery = max(one.recovery, RECOVERY_OF_XID.get(code, 0))
        if code in MEMORY_XIDS:
            book = one.rows if one.gpu.card.row_remap else one.pages
            book[MEMORY_XIDS[code]] = 1
    state.outbox.append(Event(one.number, XID, code, ANY if gi is None else gi, ANY if ci is None else ci))


def event(state: State, op: Mapping[str, Any]) -> None:
    """Any event."""
    one = gpu_of(state, op["gpu"])
    state.outbox.append(Event(one.number, op["kind"], op.get("data", 0), op.get("gi", ANY), op.get("ci", ANY)))


def lose(state: State, op: Mapping[str, Any]) -> None:
    """A GPU falls off the bus."""
    one = gpu_of(state, op["gpu"])
    if not op.get("silent"):
        state.outbox.append(Event(one.number, XID, FALLEN_OFF))
    one.lost = True


def back(state: State, op: Mapping[str, Any]) -> None:
    """A lost GPU answers again."""
    gpu_of(state, op["gpu"]).lost = False


def unplug(state: State, op: Mapping[str, Any]) -> None:
    """A GPU is taken out."""
    one = gpu_of(state, op["gpu"])
    if not one.attached:
        raise Refused(f"GPU {one.number} is not plugged in")
    one.attached = False


def plug(state: State, op: Mapping[str, Any]) -> None:
    """A GPU is put in again."""
    one = gpu_of(state, op["gpu"])
    if one.attached:
        raise Refused(f"GPU {one.number} is plugged in already")
    one.attached, one.lost = True, False
    restart(one, op["t"])


def reset(state: State, op: Mapping[str, Any]) -> None:
    """A GPU is reset."""
    one = gpu_of(state, op["gpu"])
    if not one.attached:
        raise Refused(f"GPU {one.number} is not plugged in")
    one.lost = False
    restart(one, op["t"])


def restart(one: GpuState, now: float) -> None:
    """What a reset or a fresh driver does to a GPU: volatile things go, pending ones take effect."""
    one.incarnation += 1
    one.recovery = one.throttle = one.link_errors = one.replays = one.compute_mode = 0
    one.down.clear()
    one.processes.clear()
    if one.rows.get("pending"):
        one.rows["uncorrectable"] = one.rows.get("uncorrectable", 0) + 1
        one.rows["pending"] = 0
    if one.pages.get("pending"):
        one.pages["double"] = one.pages.get("double", 0) + 1
        one.pages["pending"] = 0
    one.ecc = {key: many for key, many in one.ecc.items() if key[1] == AGGREGATE}
    one.mig_mode = one.mig_pending
    migs.clear(one)
    start_fabric(one)
    one.meter = type(one.meter)(load=one.meter.load, memory=one.meter.memory, since=now, born=now)


def mig(state: State, op: Mapping[str, Any]) -> None:
    """A GPU is cut into instances, or its mode is changed."""
    one = gpu_of(state, op["gpu"])
    if not one.gpu.card.mig_capable:
        raise Refused(f"GPU {one.number} ({one.gpu.card.name}) cannot do MIG")
    layout = op["layout"]
    if layout is None:
        migs.clear(one)
    else:
        migs.lay_out(one, layout)
    if op.get("pending"):
        one.mig_pending = layout is not None
    else:
        one.mig_mode = one.mig_pending = layout is not None


def ecc(state: State, op: Mapping[str, Any]) -> None:
    """ECC errors are counted."""
    one, count = gpu_of(state, op["gpu"]), op.get("count", 1)
    if not one.gpu.card.ecc:
        raise Refused(f"GPU {one.number} ({one.gpu.card.name}) has no ECC")
    kind = UNCORRECTED if op["kind"] == "uncorrected" else CORRECTED
    for counter in (VOLATILE, AGGREGATE):
        one.ecc[kind, counter] = one.ecc.get((kind, counter), 0) + count
    state.outbox.append(Event(one.number, EVENTS["dbe" if kind == UNCORRECTED else "sbe"], 0))


def remap(state: State, op: Mapping[str, Any]) -> None:
    """The state of row remapping changes."""
    one, what = gpu_of(state, op["gpu"]), op["state"]
    if not one.gpu.card.row_remap:
        raise Refused(f"GPU {one.number} ({one.gpu.card.name}) does not remap rows; try `retire`")
    one.rows["pending"], one.rows["failure"] = int(what == "pending"), int(what == "failure")
    for kind in ("correctable", "uncorrectable"):
        one.rows[kind] = op.get(kind, one.rows.get(kind, 0))


def retire(state: State, op: Mapping[str, Any]) -> None:
    """The state of page retirement changes."""
    one = gpu_of(state, op["gpu"])
    if not one.gpu.card.page_retirement:
        raise Refused(f"GPU {one.number} ({one.gpu.card.name}) does not retire pages; try `remap`")
    one.pages["pending"] = int(op["state"] == "pending")
    for kind in ("single", "double"):
        one.pages[kind] = op.get(kind, one.pages.get(kind, 0))


def recovery(state: State, op: Mapping[str, Any]) -> None:
    """The recovery action changes."""
    one = gpu_of(state, op["gpu"])
    one.recovery = op["action"]
    state.outbox.append(Event(one.number, XID, RECOVERY_CHANGED))
    state.outbox.append(Event(one.number, RECOVERY_EVENT, 0))


def fabric(state: State, op: Mapping[str, Any]) -> None:
    """The fabric manager has something new to say."""
    one = gpu_of(state, op["gpu"])
    if not one.gpu.card.fabric:
        raise Refused(f"GPU {one.number} ({one.gpu.card.name}) is on no fabric")
    if op.get("state") is not None:
        one.fabric_state = FABRIC_STATES[op["state"]]
    one.fabric_status = op.get("status", 0)
    one.fabric_clique = op.get("clique", one.fabric_clique)
    one.fabric_cluster = op.get("cluster", one.fabric_cluster) or ZERO_CLUSTER
    one.fabric_faults = frozenset(op.get("health", ()))


def link(state: State, op: Mapping[str, Any]) -> None:
    """A link goes down or comes up."""
    one = gpu_of(state, op["gpu"])
    wired = [i for i, wire in enumerate(one.gpu.links) if wire is not None]
    chosen = wired if op["link"] == "all" else [op["link"]]
    if not wired or not set(chosen) <= set(wired):
        raise Refused(f"GPU {one.number} has no NVLink {op['link']}; it has: {wired or 'none'}")
    if op["up"]:
        one.down.difference_update(chosen)
    else:
        one.down.update(chosen)
        one.link_errors += len(chosen)


def load(state: State, op: Mapping[str, Any]) -> None:
    """GPUs become busier or idler."""
    chosen = state.gpus if op["gpu"] is None else [gpu_of(state, op["gpu"])]
    for one in chosen:
        one.meter.set(op["t"], op["load"], op.get("memory", op["load"]))
        one.throttle = op.get("throttle", one.throttle)


def process(state: State, op: Mapping[str, Any]) -> None:
    """A process starts or ends."""
    one, pid = gpu_of(state, op["gpu"]), op["pid"]
    if op.get("memory_mib") is None:
        one.processes.pop(pid, None)
    else:
        one.processes[pid] = Process(pid, op["memory_mib"], op.get("gi", ANY), op.get("ci", ANY))
