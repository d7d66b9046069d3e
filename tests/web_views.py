"""Views of pretend machines, as the daemon would take them: scan, offer, sample, pods."""

from collections.abc import Sequence
from types import MappingProxyType

from msgspec.structs import replace

import fake_nvml
from deviceplugin.config.document import (
    Config,
    Devices,
    Flags,
    Metrics,
    MigStrategy,
    Replicas,
    Replicated,
    SharingSection,
)
from deviceplugin.kubelet.podresources import Holding
from deviceplugin.ledger import Ledger, Phase
from deviceplugin.model.health import Health, Sickness, Transition, Verdict
from deviceplugin.model.inventory import Inventory
from deviceplugin.model.node import Gpu
from deviceplugin.model.snapshot import ConfigStamp, Snapshot
from deviceplugin.model.vitals import Load
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.vitals import Vitals
from deviceplugin.rules.attribute import attribute
from deviceplugin.rules.judge import classes
from deviceplugin.rules.offer import offer
from deviceplugin.web.view import Plugin, View, gather

NOW = 1_790_000_000.0
PODS = (
    ("research", "llama-70b-train-0", "trainer"),
    ("serving", "mixtral-8x22b-vllm-7d9f-x2k", "vllm"),
    ("dev", "notebook-ada", "jupyter"),
    ("vision", "segment-batch-5", "main"),
)


def configuration(machine: str, replicas: int = 1, exclude: Sequence[int] = ()) -> Config:
    """The usual configuration for a machine of the catalogue."""
    sharing = SharingSection(time_slicing=Replicated((Replicas("nvidia.com/gpu", replicas),)))
    return Config(
        flags=Flags(mig_strategy=MigStrategy.MIXED if "mig" in machine else MigStrategy.NONE),
        sharing=sharing if replicas > 1 else SharingSection(),
        devices=Devices(exclude=tuple(exclude)),
    )


def busy(fake: fake_nvml.Fake) -> None:
    """Gives each GPU a load of its own."""
    for number in range(len(fake.uuids())):
        fake.load(number, round(0.17 + 0.61 * ((number * 5) % 8) / 8, 2), round(0.3 + 0.08 * (number % 8), 2))


def pods(inventory: Inventory, held: int = 3, each: int = 4) -> tuple[Holding, ...]:
    """Pods on `held` of four shares of each resource; `each` shares in a row are of one pod."""
    claims = []
    for name, resource in inventory.resources.items():
        for number, share in enumerate(resource.shares):
            if number % 4 < held:
                turn, who = divmod(number // each, len(PODS))
                namespace, pod, container = PODS[who]
                suffix = f"-{turn}" if turn else ""
                claims.append(Holding(namespace, pod + suffix, container, name, (share.id,)))
    return tuple(claims)


def sickness(gpu: Gpu, reason: str = "xid-79", since: float = NOW - 420) -> Sickness:
    """What a fatal Xid leaves behind."""
    return Sickness(
        uuid=gpu.uuid,
        reason=reason,
        kind="reset-required",
        since=since,
        detail=f"{reason.title().replace('-', ' ')} was raised. It comes back when a reset was seen.",
        pci=gpu.pci,
        rule="health.fatal",
        gpu_index=gpu.index,
        xid=79,
    )


def ledger_of(resources: Sequence[str], sick: Sequence[Sickness] = ()) -> Ledger:
    """A ledger in which something of everything has happened."""
    ledger = Ledger()
    ledger.stamp("config", NOW - 5_000)
    ledger.count("config_reload", "success")
    for name in resources:
        ledger.phase(name, Phase.STREAMING)
        ledger.stream(name, +1)
        ledger.count("registrations", name, "success")
        ledger.count("list_updates", name, by=3)
        first = name == resources[0]
        ledger.count("allocations", name, "success", by=3 if first else 4)
        ledger.count("preferred", name, "4", "1", "true", by=2)
        ledger.count("preferred", name, "8", "2", "true", by=0 if first else 1)
        if first:
            ledger.answered("allocation", 0.0006, ("allocations", (name, "success")))
            ledger.answered("preferred", 0.0002, ("preferred", (name, "8", "2", "true")))
    ledger.count("nvml_errors", "nvmlDeviceGetMemoryInfo", "3")
    ledger.count("labels", "file", "written")
    ledger.count("cluster_requests", "patch node", "success", by=2)
    ledger.count("cluster_events", "sent")
    ledger.count("bugs", "labels and cluster")
    for one in sick:
        ledger.count("xid", one.uuid, "79")
        ledger.turn(
            Transition(
                one.since,
                one.uuid,
                one.pci,
                one.gpu_index,
                Verdict.HEALTHY,
                Verdict.UNHEALTHY,
                one.reason,
                one.rule,
                one.detail,
                xid=one.xid,
            )
        )
    return ledger


def view_of(
    machine: str = "hgx-h100-8",
    *,
    replicas: int = 1,
    sick: Sequence[int] = (),
    held: int = 3,
    each: int = 4,
    settings: Metrics | None = None,
    exclude: Sequence[int] = (),
    last: Sequence[int] = (),
    pods_seen: bool = True,
    source: str = "/config/config.yaml",
) -> View:
    """The view of a machine of the catalogue with pods on it.

    Args:
        machine: Name in the catalogue.
        replicas: Shares per card.
        sick: Indices of cards with a fatal Xid.
        held: Of four shares, how many pods hold.
        each: Shares in a row of one pod.
        settings: Of the metrics.
        exclude: Indices that the configuration leaves out.
        last: Indices of cards that are ranked last.
        pods_seen: Whether the pod resources API answers.
        source: Of the configuration.
    """
    with fake_nvml.open(machine) as fake:
        driver = Driver(fake.nvml, str(fake.root))
        if fake.uuids():
            driver.initialise()
            busy(fake)
        node = driver.scan(None)
        load = Vitals(driver).read_load(node, per_link=bool(settings and settings.per_link)) if node.gpus else Load()
    inventory = offer(node, configuration(machine, replicas, exclude))
    sicknesses = [sickness(gpu) for gpu in node.gpus if gpu.index in sick]
    ranked = [sickness(gpu, "remap-pending") for gpu in node.gpus if gpu.index in last]
    health = Health(
        sick=MappingProxyType({one.uuid: (one,) for one in sicknesses}),
        last=MappingProxyType({one.uuid: (one,) for one in ranked}),
    )
    snapshot = Snapshot(node, inventory, health, ConfigStamp("5f0c1a9e77b2", source), 7)
    plugin = Plugin(
        version="0.1.0",
        started=NOW - 86_000,
        hostname="gpu-node-17",
        settings=settings or Metrics(),
        kubelet_socket="/var/lib/kubelet/device-plugins/kubelet.sock",
        pods_seen=pods_seen,
        xids=classes(Config().health),
    )
    view = gather(
        snapshot,
        replace(load, at=NOW - 3 if load.at else 0.0),
        ledger_of(tuple(inventory.resources), sicknesses),
        attribute(node, pods(inventory, held, each) if pods_seen else ()),
        plugin,
    )
    return replace(view, at=NOW)
