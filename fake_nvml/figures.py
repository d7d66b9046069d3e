"""What instruments read: every figure as a function of the card, the load and the time. No figure jumps by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fake_nvml.state import GpuState

ROOM_CELSIUS = 26
_AT_FULL_LOAD = 0.94  # of the power limit
_NVLINK_SHARE = 0.3  # of the bandwidth, at full load
_PCIE_SHARE = 0.1
MEMORY_SHARE = 60.0  # percent of the memory's bandwidth, at full load
_PCIE_KIB_PER_LANE = {1: 244_140, 2: 488_281, 3: 961_914, 4: 1_923_828, 5: 3_846_679, 6: 7_385_253}  # one direction
GPU_IDLE, POWER_CAP, THERMAL = 0x1, 0x4, 0x20


def utilization(one: GpuState) -> int:
    """Percent of time the multiprocessors were busy."""
    return round(100 * one.meter.load)


def memory_utilization(one: GpuState) -> int:
    """Percent of time the memory was read or written."""
    return round(MEMORY_SHARE * one.meter.load)


def codec_utilization(one: GpuState) -> int:
    """Percent of time an encoder or decoder was busy; training jobs use none."""
    return round(5 * one.meter.load)


def memory_used(one: GpuState) -> int:
    """Bytes in use by clients, without what the driver keeps for itself."""
    room = one.gpu.card.memory_bytes - reserved(one)
    listed = sum(process.memory_mib for process in one.processes.values()) << 20
    return min(room, int(room * one.meter.memory) + listed)


def reserved(one: GpuState) -> int:
    """Bytes the driver keeps for itself."""
    return one.gpu.card.reserved_mib << 20


def power(one: GpuState) -> float:
    """Watts drawn now."""
    card = one.gpu.card
    return card.idle_watts + (card.limit_watts * _AT_FULL_LOAD - card.idle_watts) * one.meter.load


def energy(one: GpuState, now: float) -> float:
    """Joules drawn since the driver was loaded."""
    card = one.gpu.card
    extra = card.limit_watts * _AT_FULL_LOAD - card.idle_watts
    return card.idle_watts * one.meter.seconds(now) + extra * one.meter.busy_seconds(now)


def temperature(one: GpuState) -> int:
    """Degrees Celsius of the GPU."""
    return round(ROOM_CELSIUS + 2 + 38 * power(one) / one.gpu.card.limit_watts)


def memory_temperature(one: GpuState) -> int:
    """Degrees Celsius of the memory stacks."""
    return temperature(one) + 7


def sm_clock(one: GpuState) -> int:
    """MHz of the multiprocessors."""
    if not one.meter.load:
        return one.gpu.card.idle_mhz
    slowed = bool(one.throttle & ~GPU_IDLE)
    return round(one.gpu.card.sm_mhz * (0.7 if slowed else 1))


def performance_state(one: GpuState) -> int:
    """P0 under load, P8 when idle."""
    return 0 if one.meter.load or not one.gpu.card.fan else 8


def throttle_reasons(one: GpuState) -> int:
    """Mask of reasons why clocks are below the highest."""
    return one.throttle | (0 if one.meter.load else GPU_IDLE)


def pcie_rate(one: GpuState) -> int:
    """KiB/s in one direction over PCIe."""
    card = one.gpu.card
    return round(_PCIE_KIB_PER_LANE[card.pcie_generation] * card.pcie_width * _PCIE_SHARE * one.meter.load)


def pcie_total(one: GpuState, now: float) -> int:
    """Bytes moved in one direction over PCIe since the driver was loaded."""
    card = one.gpu.card
    full = _PCIE_KIB_PER_LANE[card.pcie_generation] * card.pcie_width * _PCIE_SHARE * 1024
    return round(full * one.meter.busy_seconds(now))


def nvlink_total(one: GpuState, now: float, links: int) -> int:
    """KiB moved in one direction over that many links since the driver was loaded."""
    per_link = one.gpu.card.nvlink_mbps * 1_000_000 / 1024 * _NVLINK_SHARE
    return round(per_link * links * one.meter.busy_seconds(now))
