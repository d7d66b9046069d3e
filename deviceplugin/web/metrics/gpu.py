"""Rows about each GPU and each MIG instance, in base units. What the driver does not tell is None and has no sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType

from deviceplugin.model.node import FabricState
from deviceplugin.web.metrics.row import Kind, Metric, Sample
from deviceplugin.web.metrics.scene import CARD_LABELS, MIG_LABELS, Card, Instance, Scene

THROTTLE_REASONS: Mapping[int, str] = MappingProxyType(
    {
        0x1: "gpu-idle",
        0x2: "applications-clocks",
        0x4: "software-power-cap",
        0x8: "hardware-slowdown",
        0x10: "sync-boost",
        0x20: "software-thermal",
        0x40: "hardware-thermal",
        0x80: "hardware-power-brake",
        0x100: "display-clocks",
    }
)
"""Bits of nvmlClocksEventReasons."""

Parts = Iterable[tuple[str, float | None]]


def _card(name: str, kind: Kind, meaning: str, value: Callable[[Card], float | None]) -> Metric[Scene]:
    def samples(scene: Scene) -> Iterator[Sample]:
        for card in scene.cards:
            found = value(card)
            if found is not None:
                yield from (Sample(labels, found) for labels in card.labels)

    return Metric(f"gpu_{name}", kind, meaning, CARD_LABELS, samples)


def _parts(name: str, kind: Kind, meaning: str, label: str, values: Callable[[Card], Parts]) -> Metric[Scene]:
    def samples(scene: Scene) -> Iterator[Sample]:
        for card in scene.cards:
            for part, found in values(card):
                if found is not None:
                    yield from (Sample({**labels, label: part}, found) for labels in card.labels)

    return Metric(f"gpu_{name}", kind, meaning, (*CARD_LABELS, label), samples)


def _mig(name: str, meaning: str, value: Callable[[Instance], float | None]) -> Metric[Scene]:
    def samples(scene: Scene) -> Iterator[Sample]:
        for card in scene.cards:
            for instance in card.instances:
                found = value(instance)
                if found is not None:
                    yield from (Sample(labels, found) for labels in instance.labels)

    return Metric(f"gpu_mig_{name}", Kind.GAUGE, meaning, MIG_LABELS, samples)


def _load(name: str) -> Callable[[Card], float | None]:
    return attrgetter(f"load.{name}")


def _one(card: Card) -> float:
    del card
    return 1


def _fabric(card: Card) -> float | None:
    fabric = card.gpu.fabric
    return None if fabric is None or fabric.state is FabricState.NOT_SUPPORTED else fabric.state


def _links(card: Card) -> Parts:
    known = [link.active for link in card.gpu.links if link.active is not None]
    return [("active", sum(known)), ("inactive", len(known) - sum(known))] if known else []


def _throttle(card: Card) -> Parts:
    bits = card.load.throttle_reasons
    return [] if bits is None else [(reason, bool(bits & bit)) for bit, reason in THROTTLE_REASONS.items()]


def _processes(card: Card) -> float | None:
    return None if card.load.processes is None else len(card.load.processes)


def _pair(label: str, name: str, other: str, other_name: str) -> Callable[[Card], Parts]:
    first, second = _load(name), _load(other_name)
    return lambda card: [(label, first(card)), (other, second(card))]


def _per_link(direction: str) -> Callable[[Card], Parts]:
    read: Callable[[object], float | None] = attrgetter(f"{direction}_bytes")
    return lambda card: [(str(link.number), read(link)) for link in card.load.links]


GAUGE, COUNTER = Kind.GAUGE, Kind.COUNTER

GPU_ROWS: tuple[Metric[Scene], ...] = (
    _card("info", GAUGE, "1 for each GPU of the node, whatever else is known of it.", _one),
    _card("utilization_ratio", GAUGE, "Share of time in which a kernel ran, 0 to 1.", _load("utilization")),
    _card(
        "memory_copy_utilization_ratio",
        GAUGE,
        "Share of time in which device memory was read or written, 0 to 1.",
        _load("memory_utilization"),
    ),
    _card("encoder_utilization_ratio", GAUGE, "How busy the video encoders are, 0 to 1.", _load("encoder_utilization")),
    _card("decoder_utilization_ratio", GAUGE, "How busy the video decoders are, 0 to 1.", _load("decoder_utilization")),
    _card("memory_total_bytes", GAUGE, "Device memory.", _load("memory_total")),
    _card("memory_used_bytes", GAUGE, "Device memory in use.", _load("memory_used")),
    _card("memory_free_bytes", GAUGE, "Device memory that can still be allocated.", _load("memory_free")),
    _card("memory_reserved_bytes", GAUGE, "Device memory that the driver keeps.", _load("memory_reserved")),
    _card("temperature_celsius", GAUGE, "Temperature of the GPU.", _load("temperature")),
    _card("memory_temperature_celsius", GAUGE, "Temperature of the device memory.", _load("memory_temperature")),
    _card("power_watts", GAUGE, "Power drawn.", _load("power")),
    _card("power_limit_watts", GAUGE, "Power limit in force.", _load("power_limit")),
    _card("energy_joules_total", COUNTER, "Energy used since the driver was loaded.", _load("energy")),
    _card("sm_clock_hertz", GAUGE, "Clock of the multiprocessors.", _load("sm_clock")),
    _card("memory_clock_hertz", GAUGE, "Clock of the device memory.", _load("memory_clock")),
    _card("graphics_clock_hertz", GAUGE, "Clock of the graphics engine.", _load("graphics_clock")),
    _card("video_clock_hertz", GAUGE, "Clock of the video engines.", _load("video_clock")),
    _parts("throttled", GAUGE, "1 while the clocks are held down for this reason, else 0.", "reason", _throttle),
    _card(
        "pcie_transmit_bytes_total",
        COUNTER,
        "Bytes sent over PCIe; drivers that count them.",
        _load("pcie_tx_bytes"),
    ),
    _card(
        "pcie_receive_bytes_total",
        COUNTER,
        "Bytes received over PCIe; drivers that count them.",
        _load("pcie_rx_bytes"),
    ),
    _card(
        "pcie_transmit_bytes_per_second",
        GAUGE,
        "Bytes sent over PCIe in the last 20 ms, per second; where the driver keeps no count.",
        _load("pcie_tx_rate"),
    ),
    _card(
        "pcie_receive_bytes_per_second",
        GAUGE,
        "Bytes received over PCIe in the last 20 ms, per second; where the driver keeps no count.",
        _load("pcie_rx_rate"),
    ),
    _card("pcie_replays_total", COUNTER, "Replayed PCIe packets.", _load("pcie_replays")),
    _parts("nvlink_links", GAUGE, "NVLinks by state, as of the last scan.", "state", _links),
    _card("nvlink_transmit_bytes_total", COUNTER, "Bytes sent over all NVLinks.", _load("nvlink_tx_bytes")),
    _card("nvlink_receive_bytes_total", COUNTER, "Bytes received over all NVLinks.", _load("nvlink_rx_bytes")),
    _parts(
        "nvlink_link_transmit_bytes_total",
        COUNTER,
        "Bytes sent over one NVLink; with --metrics-per-link.",
        "link",
        _per_link("tx"),
    ),
    _parts(
        "nvlink_link_receive_bytes_total",
        COUNTER,
        "Bytes received over one NVLink; with --metrics-per-link.",
        "link",
        _per_link("rx"),
    ),
    _card("nvlink_crc_flit_errors_total", COUNTER, "NVLink flow control CRC errors.", _load("nvlink_crc_flit_errors")),
    _card("nvlink_crc_data_errors_total", COUNTER, "NVLink data CRC errors.", _load("nvlink_crc_data_errors")),
    _card("nvlink_replay_errors_total", COUNTER, "NVLink replays.", _load("nvlink_replay_errors")),
    _card("nvlink_recovery_errors_total", COUNTER, "NVLink recoveries.", _load("nvlink_recovery_errors")),
    _parts(
        "ecc_volatile_errors_total",
        COUNTER,
        "ECC errors since the driver was loaded.",
        "kind",
        _pair("corrected", "ecc_corrected_volatile", "uncorrected", "ecc_uncorrected_volatile"),
    ),
    _parts(
        "ecc_aggregate_errors_total",
        COUNTER,
        "ECC errors in the life of the GPU.",
        "kind",
        _pair("corrected", "ecc_corrected_aggregate", "uncorrected", "ecc_uncorrected_aggregate"),
    ),
    _parts(
        "remapped_rows",
        GAUGE,
        "Rows of device memory that were replaced by spare ones.",
        "kind",
        _pair("correctable", "remapped_correctable", "uncorrectable", "remapped_uncorrectable"),
    ),
    _card("remap_pending", GAUGE, "1 while a row remap waits for a GPU reset.", _load("remap_pending")),
    _card("remap_failure", GAUGE, "1 when a row remap has failed: no spare row was left.", _load("remap_failure")),
    _parts(
        "retired_pages",
        GAUGE,
        "Pages of device memory taken out of use (GPUs that do not remap rows).",
        "kind",
        _pair("single-bit", "retired_single_bit", "double-bit", "retired_double_bit"),
    ),
    _card(
        "recovery_action",
        GAUGE,
        "What the driver asks for: 0 nothing, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, "
        "5 recover IMEX domain, 6 bus reset, 7 system reboot.",
        _load("recovery_action"),
    ),
    _card("fabric_state", GAUGE, "NVLink fabric: 1 not started, 2 in progress, 3 completed.", _fabric),
    _card("processes", GAUGE, "Compute processes on the GPU.", _processes),
    _mig("memory_total_bytes", "Device memory of the MIG instance.", attrgetter("load.memory_total")),
    _mig("memory_used_bytes", "Device memory of the MIG instance in use.", attrgetter("load.memory_used")),
    _mig("memory_free_bytes", "Device memory of the MIG instance still free.", attrgetter("load.memory_free")),
    _mig("memory_reserved_bytes", "Memory of the instance that the driver keeps.", attrgetter("load.memory_reserved")),
    _mig(
        "utilization_ratio", "How busy the multiprocessors of the instance are, 0 to 1.", attrgetter("load.utilization")
    ),
    _mig(
        "memory_copy_utilization_ratio",
        "How busy the memory bandwidth of the instance is, 0 to 1.",
        attrgetter("load.memory_utilization"),
    ),
)
