"""What can happen to a pretend machine. Each operation is a line of the journal and a function on the state.

Operations validate before they change anything, use no clock but the time in the line, and so give the same
state in every process that replays them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fake_nvml import mig
from fake_nvml.card import ARCHITECTURES, EVENTS
from fake_nvml.faults import Fault
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
    from collections.abc import Callable, Mapping

XID, RECOVERY_EVENT = EVENTS["xid"], EVENTS["recovery-action"]
AMPERE = ARCHITECTURES["ampere"]
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
OLD_DRIVER, NEW_DRIVER = "450.80.02", "595.45.04"


def gpu_of(state: State, number: int) -> GpuState:
    """The GPU of that number.

    Raises:
        Refused: the machine has no such GPU.
    """
    if not 0 <= number < len(state.gpus):
        raise Refused(f"no GPU {number}; {state.machine.name} has {len(state.gpus)} (0 is the first)")
    return state.gpus[number]


def _xid(state: State, op: Mapping[str, Any]) -> None:
    one, code = gpu_of(state, op["gpu"]), op["xid"]
    gi, ci = op.get("gi"), op.get("ci")
    if gi is not None and gi not in one.instances:
        raise Refused(f"GPU {one.number} has no GPU instance {gi}; it has: {sorted(one.instances) or 'none'}")
    whole = gi is None and ci is None
    if whole and op.get("effects", True):
        one.recovery = max(one.recovery, RECOVERY_OF_XID.get(code, 0))
        one.rows["pending"] = int(code == 63) or one.rows.get("pending", 0)  # noqa: PLR2004
        one.rows["failure"] = int(code == 64) or one.rows.get("failure", 0)  # noqa: PLR2004
    state.outbox.append(Event(one.number, XID, code, ANY if gi is None else gi, ANY if ci is None else ci))


def _event(state: State, op: Mapping[str, Any]) -> None:
    one = gpu_of(state, op["gpu"])
    state.outbox.append(Event(one.number, op["kind"], op.get("data", 0), op.get("gi", ANY), op.get("ci", ANY)))


def _lose(state: State, op: Mapping[str, Any]) -> None:
    one = gpu_of(state, op["gpu"])
    if not op.get("silent"):
        state.outbox.append(Event(one.number, XID, FALLEN_OFF))
    one.lost = True


def _back(state: State, op: Mapping[str, Any]) -> None:
    gpu_of(state, op["gpu"]).lost = False


def _unplug(state: State, op: Mapping[str, Any]) -> None:
    one = gpu_of(state, op["gpu"])
    if not one.attached:
        raise Refused(f"GPU {one.number} is not plugged in")
    one.attached = False


def _plug(state: State, op: Mapping[str, Any]) -> None:
    one = gpu_of(state, op["gpu"])
    if one.attached:
        raise Refused(f"GPU {one.number} is plugged in already")
    one.attached, one.lost = True, False
    _restart(one, op["t"])


def _reset(state: State, op: Mapping[str, Any]) -> None:
    one = gpu_of(state, op["gpu"])
    if not one.attached:
        raise Refused(f"GPU {one.number} is not plugged in")
    one.lost = False
    _restart(one, op["t"])


def _restart(one: GpuState, now: float) -> None:
    """What a reset or a fresh driver does to a GPU: volatile things go, pending ones take effect."""
    one.incarnation += 1
    one.recovery = one.throttle = one.link_errors = one.replays = 0
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
    mig.clear(one)
    start_fabric(one)
    one.meter = type(one.meter)(load=one.meter.load, memory=one.meter.memory, since=now, born=now)


def _mig(state: State, op: Mapping[str, Any]) -> None:
    one = gpu_of(state, op["gpu"])
    if not one.gpu.card.mig_capable:
        raise Refused(f"GPU {one.number} ({one.gpu.card.name}) cannot do MIG")
    layout = op["layout"]
    if layout is None:
        mig.clear(one)
    else:
        mig.lay_out(one, layout)
    if op.get("pending"):
        one.mig_pending = layout is not None
    else:
        one.mig_mode = one.mig_pending = layout is not None


def switches_mode(state: State, op: Mapping[str, Any]) -> bool:
    """Whether a `mig` operation would switch the mode, which needs the driver for itself."""
    return op["op"] == "mig" and gpu_of(state, op["gpu"]).mig_mode != (op["layout"] is not None)


def _ecc(state: State, op: Mapping[str, Any]) -> None:
    one, count = gpu_of(state, op["gpu"]), op.get("count", 1)
    if not one.gpu.card.ecc:
        raise Refused(f"GPU {one.number} ({one.gpu.card.name}) has no ECC")
    kind = UNCORRECTED if op["kind"] == "uncorrected" else CORRECTED
    for counter in (VOLATILE, AGGREGATE):
        one.ecc[kind, counter] = one.ecc.get((kind, counter), 0) + count
    state.outbox.append(Event(one.number, EVENTS["dbe" if kind == UNCORRECTED else "sbe"], 0))


def _remap(state: State, op: Mapping[str, Any]) -> None:
    one, what = gpu_of(state, op["gpu"]), op["state"]
    if not one.gpu.card.row_remap:
        raise Refused(f"GPU {one.number} ({one.gpu.card.name}) does not remap rows; try `retire`")
    one.rows["pending"], one.rows["failure"] = int(what == "pending"), int(what == "failure")
    for kind in ("correctable", "uncorrectable"):
        one.rows[kind] = op.get(kind, one.rows.get(kind, 0))


def _retire(state: State, op: Mapping[str, Any]) -> None:
    one = gpu_of(state, op["gpu"])
    if not one.gpu.card.page_retirement:
        raise Refused(f"GPU {one.number} ({one.gpu.card.name}) does not retire pages; try `remap`")
    one.pages["pending"] = int(op["state"] == "pending")
    for kind in ("single", "double"):
        one.pages[kind] = op.get(kind, one.pages.get(kind, 0))


def _recovery(state: State, op: Mapping[str, Any]) -> None:
    one = gpu_of(state, op["gpu"])
    one.recovery = op["action"]
    state.outbox.append(Event(one.number, XID, RECOVERY_CHANGED))
    state.outbox.append(Event(one.number, RECOVERY_EVENT, 0))


def _fabric(state: State, op: Mapping[str, Any]) -> None:
    one = gpu_of(state, op["gpu"])
    if not one.gpu.card.fabric:
        raise Refused(f"GPU {one.number} ({one.gpu.card.name}) is on no fabric")
    if op.get("state") is not None:
        one.fabric_state = FABRIC_STATES[op["state"]]
    one.fabric_status = op.get("status", 0)
    one.fabric_clique = op.get("clique", one.fabric_clique)
    one.fabric_cluster = op.get("cluster", one.fabric_cluster) or ZERO_CLUSTER
    one.fabric_faults = frozenset(op.get("health", ()))


def _link(state: State, op: Mapping[str, Any]) -> None:
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


def _load(state: State, op: Mapping[str, Any]) -> None:
    chosen = state.gpus if op["gpu"] is None else [gpu_of(state, op["gpu"])]
    for one in chosen:
        one.meter.set(op["t"], op["load"], op.get("memory", op["load"]))
        one.throttle = op.get("throttle", one.throttle)


def _process(state: State, op: Mapping[str, Any]) -> None:
    one, pid = gpu_of(state, op["gpu"]), op["pid"]
    if op.get("memory_mib") is None:
        one.processes.pop(pid, None)
    else:
        one.processes[pid] = Process(pid, op["memory_mib"], op.get("gi", ANY), op.get("ci", ANY))


def _swap(state: State, op: Mapping[str, Any]) -> None:
    a, b = (state.order.index(gpu_of(state, op[side]).number) for side in ("gpu", "other"))
    state.order[a], state.order[b] = state.order[b], state.order[a]


def _fault(state: State, op: Mapping[str, Any]) -> None:
    if op.get("gpu") is not None:
        gpu_of(state, op["gpu"])
    state.fault_serial += 1
    wanted = {key: op[key] for key in Fault.__dataclass_fields__ if key in op and key != "id"}
    state.faults[state.fault_serial] = Fault(id=state.fault_serial, answers="value" in op, **wanted)


def _release(state: State, op: Mapping[str, Any]) -> None:
    wanted = op.get("call", "*")
    for number in [n for n, fault in state.faults.items() if wanted in ("*", fault.call) and fault.hang]:
        del state.faults[number]


def _driver(state: State, op: Mapping[str, Any]) -> None:
    state.library, state.loaded = op["library"], op["loaded"]
    version = op.get("version", state.driver)
    if version != state.driver or op.get("reload"):
        state.driver = version
        state.loads += 1
        for one in state.gpus:
            _restart(one, op["t"])
            if one.gpu.card.architecture > AMPERE:  # later ones forget the mode as well as the instances
                one.mig_mode = one.mig_pending = False


def _clear(state: State, _op: Mapping[str, Any]) -> None:
    state.faults.clear()


OPERATIONS: Final[dict[str, Callable[[State, Mapping[str, Any]], None]]] = {
    "xid": _xid,
    "event": _event,
    "lose": _lose,
    "back": _back,
    "unplug": _unplug,
    "plug": _plug,
    "reset": _reset,
    "mig": _mig,
    "ecc": _ecc,
    "remap": _remap,
    "retire": _retire,
    "recovery": _recovery,
    "fabric": _fabric,
    "link": _link,
    "load": _load,
    "process": _process,
    "swap": _swap,
    "fault": _fault,
    "release": _release,
    "driver": _driver,
    "clear": _clear,
}
# a real driver refuses these while any process holds it open
EXCLUSIVE: Final = frozenset({"reset", "driver"})

# these change what the fake host root shows
SHOWN_IN_FILES: Final = frozenset({"mig", "plug", "unplug", "reset", "driver"})


def apply(state: State, op: Mapping[str, Any]) -> None:
    """Let one operation happen.

    Raises:
        Refused: the machine cannot do that; the state is as before.
    """
    OPERATIONS[op["op"]](state, op)


def exclusive(state: State, op: Mapping[str, Any]) -> bool:
    """Whether a real driver would refuse the operation while a process holds it open."""
    return op["op"] in EXCLUSIVE or switches_mode(state, op)
