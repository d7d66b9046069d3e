"""A pretend machine's state in words, for whoever controls it by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_nvml.faults import Fault
    from fake_nvml.state import GpuState, State


def lines(state: State) -> list[str]:
    """A line for the machine, each GPU and each fault."""
    driver = state.driver if state.library and state.loaded else "absent" if not state.library else "unloaded"
    found = [f"{state.machine.name}: {state.machine.title}; driver {driver}"]
    found += [f"GPU {one.number} {one.gpu.uuid} {one.gpu.card.name}: {', '.join(_words(one))}" for one in state.gpus]
    return found + [f"fault on {fault.call}: {', '.join(_effects(fault))}" for fault in state.faults.values()]


def _words(one: GpuState) -> Iterator[str]:
    yield from _presence(one)
    yield f"load {one.meter.load:g}"
    if one.mig_mode:
        yield "MIG " + (" ".join(device.profile for device in one.devices.values()) or "empty")
    if one.mig_mode != one.mig_pending:
        yield f"MIG {'on' if one.mig_pending else 'off'} pending"
    for what, value in (("compute mode", one.compute_mode), ("recovery action", one.recovery)):
        if value:
            yield f"{what} {value}"
    for kind, many in {**one.rows, **{f"pages {key}": value for key, value in one.pages.items()}}.items():
        if many:
            yield f"{kind} {many}"
    if one.down:
        yield f"links down {sorted(one.down)}"
    if one.fabric_state not in (0, one.gpu.fabric.state):
        yield f"fabric state {one.fabric_state}"


def _presence(one: GpuState) -> Iterator[str]:
    if not one.attached:
        yield "unplugged"
    elif one.lost:
        yield "lost"


def _effects(fault: Fault) -> Iterator[str]:
    if fault.gpu is not None:
        yield f"GPU {fault.gpu}"
    if fault.hang:
        yield "hangs"
    if fault.delay:
        yield f"takes {fault.delay:g} s"
    if fault.code:
        yield f"answers code {fault.code}"
    if fault.answers:
        yield f"answers {fault.value!r}"
    if fault.after:
        yield f"after {fault.after} calls"
    if fault.times is not None:
        yield f"for {fault.times} calls"
