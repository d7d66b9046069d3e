"""What changes while a pretend machine runs. Every process rebuilds it from the journal, so it holds no clock."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fake_nvml.card import Profile
    from fake_nvml.faults import Fault
    from fake_nvml.machine import Gpu, Machine

_NAMESPACE = uuid.UUID("6b1d1f5e-4b0d-5a35-9d2f-6e766d6c0002")
ANY = 0xFFFFFFFF  # "the whole GPU" in an event
CORRECTED, UNCORRECTED = 0, 1
VOLATILE, AGGREGATE = 0, 1


@dataclass(slots=True, eq=False, repr=False)
class GpuInstance:
    """A slice of a GPU, holding compute instances."""

    id: int
    profile: Profile
    start: int


@dataclass(slots=True, eq=False, repr=False)
class MigDevice:
    """A compute instance in its GPU instance: what MIG hands out as a device."""

    gi: GpuInstance
    ci: int
    slices: int
    serial: int  # how many were made on this GPU before; makes the uuid

    @property
    def profile(self) -> str:
        """The profile's name, `1c.3g.40gb` where the compute instance is smaller than its GPU instance."""
        whole = self.slices == self.gi.profile.slices
        return self.gi.profile.name if whole else f"{self.slices}c.{self.gi.profile.name}"


@dataclass(slots=True, eq=False, repr=False)
class Process:
    """A process that uses a GPU, as the driver lists it."""

    pid: int
    memory_mib: int
    gi: int = ANY
    ci: int = ANY


@dataclass(slots=True, eq=False, repr=False)
class Meter:
    """The load since a moment, and what went before: enough to give every counter at any time."""

    load: float = 0.0
    memory: float = 0.0
    since: float = 0.0
    born: float = 0.0
    busy: float = 0.0

    def set(self, now: float, load: float, memory: float) -> None:
        """Change the load from now on."""
        self.busy = self.busy_seconds(now)
        self.since, self.load, self.memory = now, load, memory

    def busy_seconds(self, now: float) -> float:
        """Seconds at full load since the driver was loaded."""
        return self.busy + self.load * max(0.0, now - self.since)

    def seconds(self, now: float) -> float:
        """Seconds since the driver was loaded or the GPU was reset."""
        return max(0.0, now - self.born)


@dataclass(slots=True, eq=False, repr=False)
class GpuState:
    """One GPU's mutable side."""

    gpu: Gpu
    attached: bool = True
    lost: bool = False
    incarnation: int = 0
    mig_mode: bool = False
    mig_pending: bool = False
    instances: dict[int, GpuInstance] = field(default_factory=dict)
    devices: dict[int, MigDevice] = field(default_factory=dict)
    made: int = 0
    down: set[int] = field(default_factory=set)
    fabric_state: int = 0
    fabric_status: int = 0
    fabric_clique: int = 0
    fabric_cluster: str = ""
    fabric_faults: frozenset[str] = frozenset()
    ecc: dict[tuple[int, int], int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    pages: dict[str, int] = field(default_factory=dict)
    link_errors: int = 0
    replays: int = 0
    recovery: int = 0
    throttle: int = 0
    compute_mode: int = 0
    meter: Meter = field(default_factory=Meter)
    processes: dict[int, Process] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The GPU's place in PCI order."""
        return self.gpu.number

    @property
    def usable(self) -> bool:
        """Whether the GPU answers on the bus."""
        return self.attached and not self.lost

    def mig_uuid(self, device: MigDevice, *, opaque: bool) -> str:
        """The MIG device's uuid in the form of the driver in use (opaque since 470)."""
        if not opaque:
            return f"MIG-{self.gpu.uuid}/{device.gi.id}/{device.ci}"
        return f"MIG-{uuid.uuid5(_NAMESPACE, f'{self.gpu.uuid}/{device.serial}')}"


@dataclass(slots=True, eq=False, repr=False)
class Event:
    """Something the driver tells those who wait for it."""

    gpu: int
    kind: int
    data: int
    gi: int = ANY
    ci: int = ANY


@dataclass(slots=True, eq=False, repr=False)
class State:
    """The whole machine's mutable side."""

    machine: Machine
    gpus: list[GpuState]
    order: list[int]
    driver: str
    library: bool
    loaded: bool
    loads: int = 0  # how often the kernel driver was loaded; a process keeps the library of its own
    faults: dict[int, Fault] = field(default_factory=dict)
    fault_serial: int = 0
    outbox: list[Event] = field(default_factory=list)


def booted(machine: Machine, now: float) -> State:
    """The state of a machine that has just come up."""
    from fake_nvml import mig

    gpus = []
    for gpu in machine.gpus:
        one = GpuState(gpu, meter=Meter(since=now, born=now))
        start_fabric(one)
        if gpu.mig is not None:
            one.mig_mode = one.mig_pending = True
            mig.lay_out(one, gpu.mig)
        gpus.append(one)
    return State(machine, gpus, list(range(len(gpus))), machine.driver, machine.library, machine.library)


def start_fabric(one: GpuState) -> None:
    """Put the fabric side of a GPU back to what the machine describes."""
    start = one.gpu.fabric
    one.fabric_state, one.fabric_status = start.state, start.status
    one.fabric_clique, one.fabric_cluster = start.clique, start.cluster
    one.fabric_faults = frozenset()
