"""What the rows about GPUs read: each card with its load and with its labels already made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from msgspec import Struct

from deviceplugin.config.document import PodLabels
from deviceplugin.model.node import Gpu, MigInstance
from deviceplugin.model.vitals import GpuLoad, MigLoad
from deviceplugin.rules.attribute import Holder
from deviceplugin.web.metrics.row import Labels, labels_of
from deviceplugin.web.view import View

PLACE_LABELS = ("gpu", "uuid", "pci_bus_id", "model", "nvlink_domain", "numa_node")
POD_LABELS = ("namespace", "pod", "container", "resource")
CARD_LABELS = (*PLACE_LABELS, *POD_LABELS)
MIG_LABELS = (*PLACE_LABELS, "mig_uuid", "mig_profile", "gpu_instance", "compute_instance", *POD_LABELS)


class Instance(Struct, frozen=True):
    """A MIG instance."""

    mig: MigInstance
    load: MigLoad
    holders: tuple[Holder, ...]
    labels: tuple[Labels, ...]
    """One set for each pod that holds it, one without a pod where nobody does."""


class Card(Struct, frozen=True):
    """A physical GPU."""

    gpu: Gpu
    load: GpuLoad
    holders: tuple[Holder, ...]
    labels: tuple[Labels, ...]
    instances: tuple[Instance, ...] = ()


class Scene:
    """A view, and its cards."""

    def __init__(self, view: View) -> None:
        self.view = view

    @cached_property
    def domains(self) -> Mapping[str, int]:
        """NVLink domain by card."""
        closeness = self.view.snapshot.inventory.closeness
        return dict(zip(closeness.uuids, closeness.domain, strict=False))

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        """All cards of the node, with unknown load where none was sampled."""
        loads = {load.uuid: load for load in self.view.load.gpus}
        return tuple(self._card(gpu, loads.get(gpu.uuid) or GpuLoad(gpu.uuid)) for gpu in self.view.snapshot.node.gpus)

    def _card(self, gpu: Gpu, load: GpuLoad) -> Card:
        base = labels_of(
            {
                "gpu": gpu.index,
                "uuid": gpu.uuid,
                "pci_bus_id": gpu.pci,
                "model": gpu.name,
                "nvlink_domain": self.domains.get(gpu.uuid),
                "numa_node": gpu.numa,
            }
        )
        loads = {load.uuid: load for load in load.instances}
        instances = tuple(self._instance(base, mig, loads.get(mig.uuid) or MigLoad(mig.uuid)) for mig in gpu.instances)
        holders = self._shown(self.view.attribution.cards.get(gpu.uuid, ()))
        return Card(gpu, load, holders, tuple(_per_holder(base, holders)), instances)

    def _instance(self, base: Labels, mig: MigInstance, load: MigLoad) -> Instance:
        own = labels_of(
            {
                "mig_uuid": mig.uuid,
                "mig_profile": mig.profile,
                "gpu_instance": mig.gi,
                "compute_instance": mig.ci,
            }
        )
        holders = self._shown(self.view.attribution.instances.get(mig.uuid, ()))
        return Instance(mig, load, holders, tuple(_per_holder(base | own, holders)))

    def _shown(self, holders: tuple[Holder, ...]) -> tuple[Holder, ...]:
        return holders if self.view.plugin.settings.pods is PodLabels.ON else ()


def _per_holder(base: Labels, holders: Iterable[Holder]) -> Iterable[Labels]:
    return [base | pod_labels(holder) for holder in holders] or [base]


def pod_labels(holder: Holder) -> Labels:
    """The labels that name who holds a device."""
    return labels_of(
        {
            "namespace": holder.namespace,
            "pod": holder.pod,
            "container": holder.container,
            "resource": holder.resource,
        }
    )
