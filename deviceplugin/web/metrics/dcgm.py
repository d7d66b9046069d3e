"""The same figures under the names, labels and units of DCGM's exporter, for dashboards that people have already.

Units are DCGM's: MHz, degrees Celsius, W, mJ, MiB, percent. As there, a card in MIG mode is shown by its instances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter

from msgspec import Struct

from deviceplugin.model.vitals import GpuLoad, MigLoad
from deviceplugin.rules.attribute import Holder
from deviceplugin.web.metrics.row import Kind, Labels, Metric, Sample, labels_of
from deviceplugin.web.metrics.scene import Card, Instance, Scene
from deviceplugin.web.view import View

PREFIX = "DCGM_FI_DEV_"
MIB = 1 << 20

DCGM_LABELS = (
    "gpu",
    "UUID",
    "pci_bus_id",
    "device",
    "modelName",
    "Hostname",
    "hostname",
    "DCGM_FI_DRIVER_VERSION",
    "GPU_I_PROFILE",
    "GPU_I_ID",
    "namespace",
    "pod",
    "container",
)


class Entity(Struct, frozen=True):
    """What DCGM counts as one: a card, or a MIG instance."""

    view: View
    card: GpuLoad
    memory: GpuLoad | MigLoad
    """Of the instance, where it is one."""
    labels: tuple[Labels, ...]


def entities(scene: Scene) -> Iterator[Entity]:
    """Cards and MIG instances with their labels."""
    for card in scene.cards:
        if not card.instances:
            yield Entity(scene.view, card.load, card.load, _labels(scene.view, card, card.holders))
        for instance in card.instances:
            own = _labels(scene.view, card, instance.holders, instance)
            yield Entity(scene.view, card.load, instance.load, own)


def _labels(
    view: View, card: Card, holders: tuple[Holder, ...], instance: Instance | None = None
) -> tuple[Labels, ...]:
    gpu = card.gpu
    base = labels_of(
        {
            "gpu": gpu.index,
            "UUID": gpu.uuid,
            "pci_bus_id": gpu.pci,
            "device": f"nvidia{gpu.index if gpu.minor is None else gpu.minor}",
            "modelName": gpu.name,
            "Hostname": view.plugin.hostname,
            "hostname": view.plugin.hostname,
            "DCGM_FI_DRIVER_VERSION": view.snapshot.node.driver_version,
            "GPU_I_PROFILE": instance and instance.mig.profile,
            "GPU_I_ID": instance and instance.mig.gi,
        }
    )
    pods = (
        labels_of({"namespace": holder.namespace, "pod": holder.pod, "container": holder.container})
        for holder in holders
    )
    return tuple(base | pod for pod in pods) or (base,)


def _row(name: str, kind: Kind, meaning: str, value: Callable[[Entity], float | None]) -> Metric[Scene]:
    def samples(scene: Scene) -> Iterator[Sample]:
        for entity in entities(scene):
            found = value(entity)
            if found is not None:
                yield from (Sample(labels, found) for labels in entity.labels)

    return Metric(PREFIX + name, kind, meaning, DCGM_LABELS, samples)


def _scaled(path: str, scale: float = 1) -> Callable[[Entity], float | None]:
    read: Callable[[Entity], float | None] = attrgetter(path)

    def value(entity: Entity) -> float | None:
        found = read(entity)
        return None if found is None else round(found * scale, 6)

    return value


def _nvlink(entity: Entity) -> float | None:
    parts = [part for part in (entity.card.nvlink_tx_bytes, entity.card.nvlink_rx_bytes) if part is not None]
    return sum(parts) // MIB if parts else None


def _last_xid(entity: Entity) -> float:
    """As DCGM has it: the number of the last Xid, 0 before the first."""
    books = entity.view.books
    seen = [labels[1] for (name, labels) in books.counts if name == "xid" and labels[0] == entity.card.uuid]
    return int(max(seen, key=lambda xid: books.times.get(f"xid {entity.card.uuid} {xid}", 0.0), default="0"))


GAUGE, COUNT = Kind.GAUGE, Kind.UNTYPED

DCGM_ROWS: tuple[Metric[Scene], ...] = (
    _row("SM_CLOCK", GAUGE, "SM clock (MHz).", _scaled("card.sm_clock", 1e-6)),
    _row("MEM_CLOCK", GAUGE, "Memory clock (MHz).", _scaled("card.memory_clock", 1e-6)),
    _row("MEMORY_TEMP", GAUGE, "Memory temperature (C).", _scaled("card.memory_temperature")),
    _row("GPU_TEMP", GAUGE, "GPU temperature (C).", _scaled("card.temperature")),
    _row("POWER_USAGE", GAUGE, "Power drawn (W).", _scaled("card.power")),
    _row("TOTAL_ENERGY_CONSUMPTION", COUNT, "Energy since the driver was loaded (mJ).", _scaled("card.energy", 1e3)),
    _row("PCIE_REPLAY_COUNTER", COUNT, "PCIe replays.", _scaled("card.pcie_replays")),
    _row("GPU_UTIL", GAUGE, "GPU utilization (%).", _scaled("card.utilization", 100)),
    _row("MEM_COPY_UTIL", GAUGE, "Memory utilization (%).", _scaled("card.memory_utilization", 100)),
    _row("ENC_UTIL", GAUGE, "Encoder utilization (%).", _scaled("card.encoder_utilization", 100)),
    _row("DEC_UTIL", GAUGE, "Decoder utilization (%).", _scaled("card.decoder_utilization", 100)),
    _row("XID_ERRORS", GAUGE, "Number of the last Xid, 0 for none yet.", _last_xid),
    _row("FB_FREE", GAUGE, "Framebuffer memory free (MiB).", _scaled("memory.memory_free", 1 / MIB)),
    _row("FB_USED", GAUGE, "Framebuffer memory used (MiB).", _scaled("memory.memory_used", 1 / MIB)),
    _row("FB_RESERVED", GAUGE, "Framebuffer memory reserved (MiB).", _scaled("memory.memory_reserved", 1 / MIB)),
    _row(
        "UNCORRECTABLE_REMAPPED_ROWS",
        COUNT,
        "Rows remapped for uncorrectable errors.",
        _scaled("card.remapped_uncorrectable"),
    ),
    _row(
        "CORRECTABLE_REMAPPED_ROWS",
        COUNT,
        "Rows remapped for correctable errors.",
        _scaled("card.remapped_correctable"),
    ),
    _row("ROW_REMAP_FAILURE", GAUGE, "1 when a row remap has failed.", _scaled("card.remap_failure")),
    _row("NVLINK_BANDWIDTH_TOTAL", COUNT, "Data over all NVLinks, both ways (MiB).", _nvlink),
)
