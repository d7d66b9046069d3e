"""What can happen to a pretend machine. Each operation is a line of the journal and a function on the state.

Operations validate before they change anything, use no clock but the time in the line, and so give the same
state in every process that replays them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fake_nvml import hardware
from fake_nvml.card import ARCHITECTURES
from fake_nvml.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fake_nvml.state import State

AMPERE = ARCHITECTURES["ampere"]
OLD_DRIVER, NEW_DRIVER = "450.80.02", "595.45.04"


def switches_mode(state: State, op: Mapping[str, Any]) -> bool:
    """Whether a `mig` operation would switch the mode, which needs the driver for itself."""
    return op["op"] == "mig" and hardware.gpu_of(state, op["gpu"]).mig_mode != (op["layout"] is not None)


def _swap(state: State, op: Mapping[str, Any]) -> None:
    a, b = (state.order.index(hardware.gpu_of(state, op[side]).number) for side in ("gpu", "other"))
    state.order[a], state.order[b] = state.order[b], state.order[a]


def _fault(state: State, op: Mapping[str, Any]) -> None:
    if op.get("gpu") is not None:
        hardware.gpu_of(state, op["gpu"])
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
            hardware.restart(one, op["t"])
            if one.gpu.card.architecture > AMPERE:  # later ones forget the mode as well as the instances
                one.mig_mode = one.mig_pending = False


def _compute_mode(state: State, op: Mapping[str, Any]) -> None:
    hardware.gpu_of(state, op["gpu"]).compute_mode = op["mode"]


def _clear(state: State, _op: Mapping[str, Any]) -> None:
    state.faults.clear()


OPERATIONS: Final[dict[str, Callable[[State, Mapping[str, Any]], None]]] = {
    "xid": hardware.xid,
    "event": hardware.event,
    "lose": hardware.lose,
    "back": hardware.back,
    "unplug": hardware.unplug,
    "plug": hardware.plug,
    "reset": hardware.reset,
    "mig": hardware.mig,
    "ecc": hardware.ecc,
    "remap": hardware.remap,
    "retire": hardware.retire,
    "recovery": hardware.recovery,
    "fabric": hardware.fabric,
    "link": hardware.link,
    "load": hardware.load,
    "process": hardware.process,
    "swap": _swap,
    "fault": _fault,
    "release": _release,
    "driver": _driver,
    "compute-mode": _compute_mode,
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
