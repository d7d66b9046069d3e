"""How the hardware is and what it does: events, health states and load of one moment.

A field that is None is unknown: the driver has no such thing, or did not answer. Unknown is neither good nor bad.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

from msgspec import Struct

from deviceplugin.model.node import Fabric, Problem


class EventKind(StrEnum):
    """What the driver announced (nvmlEventType)."""

    XID = "xid"
    SINGLE_BIT_ECC = "single-bit-ecc"
    DOUBLE_BIT_ECC = "double-bit-ecc"
    SINGLE_BIT_ECC_STORM = "single-bit-ecc-storm"
    DRAM_RETIREMENT = "dram-retirement"
    DRAM_RETIREMENT_FAILURE = "dram-retirement-failure"
    CONTAINED_POISON = "contained-poison"
    FATAL_POISON = "fatal-poison"
    UNAVAILABLE = "unavailable"
    RECOVERY_ACTION = "recovery-action"
    OTHER = "other"


class Event(Struct, frozen=True):
    """One event of the driver. `gi` and `ci` are None where the whole GPU is meant."""

    uuid: str | None
    """UUID of the card; None where the driver did not say which."""
    kind: EventKind
    xid: int | None = None
    """Only of XID events; 999 is the driver's own word for an unknown one."""
    gi: int | None = None
    ci: int | None = None
    at: float = 0.0
    """Unix time in seconds."""


class RecoveryAction(IntEnum):
    """Field 230, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION. Numbers unknown here come through as plain integers."""

    NONE = 0
    GPU_RESET = 1
    NODE_REBOOT = 2
    DRAIN_P2P = 3
    DRAIN_AND_RESET = 4
    RECOVER_IMEX_DOMAIN = 5
    BUS_RESET = 6
    SYSTEM_REBOOT = 7


class Reading(Struct, frozen=True):
    """Health states of one card."""

    uuid: str
    at: float
    """Unix time in seconds."""
    alive: bool | None = None
    """True: every question got an answer of the card. False: GPU_IS_LOST. None: it cannot be told."""
    remap_supported: bool | None = None
    """Whether the card remaps rows; where it does not, volatile uncorrectable ECC errors count."""
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    retired_pending: bool | None = None
    """Pages wait for retirement until the next reset (cards without row remapping)."""
    volatile_uncorrectable: int | None = None
    """Uncorrectable ECC errors since the driver was loaded; read only where rows are not remapped."""
    recovery_action: int | None = None
    """A `RecoveryAction`, or the number of one that a newer driver knows."""
    fabric: Fabric | None = None
    links_down: tuple[int, ...] | None = None
    """NVLinks that were active in an earlier scan and are not now."""
    problems: tuple[Problem, ...] = ()
    """Questions that should have had an answer and had none."""


class Process(Struct, frozen=True):
    """A compute process on a card; `gi` and `ci` are None outside MIG mode."""

    pid: int
    memory: int | None = None
    """Bytes."""
    gi: int | None = None
    ci: int | None = None


class LinkLoad(Struct, frozen=True):
    """Counters of one NVLink since the driver was loaded."""

    number: int
    tx_bytes: int | None = None
    rx_bytes: int | None = None


class MigLoad(Struct, frozen=True):
    """Load of one MIG instance, as far as the driver gives it."""

    uuid: str
    memory_total: int | None = None
    memory_used: int | None = None
    memory_free: int | None = None
    memory_reserved: int | None = None
    utilization: float | None = None
    """Ratio, 0 to 1."""
    memory_utilization: float | None = None


class GpuLoad(Struct, frozen=True):
    """Load of one card in base units: ratios, bytes, degrees Celsius, watts, joules, hertz. Counters only grow."""

    uuid: str
    utilization: float | None = None
    memory_utilization: float | None = None
    """Share of time in which memory was read or written."""
    encoder_utilization: float | None = None
    decoder_utilization: float | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    memory_free: int | None = None
    memory_reserved: int | None = None
    temperature: int | None = None
    memory_temperature: int | None = None
    power: float | None = None
    power_limit: float | None = None
    """The limit in force."""
    energy: float | None = None
    """Counter, joules since the driver was loaded."""
    sm_clock: float | None = None
    memory_clock: float | None = None
    graphics_clock: float | None = None
    video_clock: float | None = None
    throttle_reasons: int | None = None
    """Bits of nvmlClocksEventReason."""
    pcie_tx_bytes: int | None = None
    """Counter; newer drivers only."""
    pcie_rx_bytes: int | None = None
    pcie_tx_rate: float | None = None
    """Bytes per second over the last 20 ms; read only where there is no counter."""
    pcie_rx_rate: float | None = None
    pcie_replays: int | None = None
    nvlink_tx_bytes: int | None = None
    nvlink_rx_bytes: int | None = None
    nvlink_crc_flit_errors: int | None = None
    nvlink_crc_data_errors: int | None = None
    nvlink_replay_errors: int | None = None
    nvlink_recovery_errors: int | None = None
    ecc_corrected_volatile: int | None = None
    ecc_uncorrected_volatile: int | None = None
    ecc_corrected_aggregate: int | None = None
    ecc_uncorrected_aggregate: int | None = None
    remapped_correctable: int | None = None
    remapped_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    retired_single_bit: int | None = None
    retired_double_bit: int | None = None
    recovery_action: int | None = None
    processes: tuple[Process, ...] | None = None
    links: tuple[LinkLoad, ...] = ()
    """Filled only when counters per link are asked for."""
    instances: tuple[MigLoad, ...] = ()


class Load(Struct, frozen=True):
    """One sampling pass over all cards."""

    at: float = 0.0
    """Unix time in seconds; 0 before the first pass."""
    seconds: float = 0.0
    """How long the pass took."""
    gpus: tuple[GpuLoad, ...] = ()
    problems: tuple[Problem, ...] = ()
