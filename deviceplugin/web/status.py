"""The status document: what the page, the terminal and scripts show. docs/status.md describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deviceplugin.ledger import Phase
from deviceplugin.model.health import Health, Sickness, Transition, Verdict
from deviceplugin.model.inventory import Closeness, Inventory, Resource
from deviceplugin.model.node import Gpu, MigInstance
from deviceplugin.model.vitals import GpuLoad, MigLoad
from deviceplugin.rules.attribute import Holder
from deviceplugin.web.advice import advise
from deviceplugin.web.standing import free_shares, healthy_shares
from deviceplugin.web.view import Finding, View

API = 1
"""Version of the document: it grows when a field changes its meaning or goes, not when one is added."""

Json = dict[str, Any]


def document(view: View) -> Json:
    """The whole document, without `now`, which is added when it is sent."""
    snapshot, plugin = view.snapshot, view.plugin
    node, inventory = snapshot.node, snapshot.inventory
    return {
        "api": API,
        "plugin": {
            "version": plugin.version,
            "started": plugin.started,
            "hostname": plugin.hostname,
            "live": _finding(plugin.live),
            "ready": _finding(plugin.ready),
            "tasks": plugin.tasks,
        },
        "node": {
            "state": node.state,
            "detail": node.detail,
            "offer": inventory.state,
            "driver": node.driver_version,
            "cuda": ".".join(map(str, node.cuda_version)) if node.cuda_version else None,
            "machine": node.machine,
            "health_checked": snapshot.health.checked,
        },
        "config": {
            "hash": snapshot.config.hash,
            "source": snapshot.config.source,
            "loaded": view.books.times.get("config", plugin.started),
            "refused": plugin.config_refused,
            "xids": _by_class(plugin.xids),
            "reloads": {
                labels[0]: int(n) for (name, labels), n in view.books.counts.items() if name == "config_reload"
            },
        },
        "kubelet": {"socket": plugin.kubelet_socket, "pods_seen": plugin.pods_seen},
        "sample": {
            "at": view.load.at or None,
            "seconds": round(view.load.seconds, 6),
            "interval": plugin.settings.interval,
        },
        "resources": [_resource(view, resource) for resource in inventory.resources.values()],
        "gpus": _gpus(view),
        "domains": _domains(inventory.closeness, node.gpus),
        "links": _links(inventory.closeness),
        "transitions": [_transition(one) for one in reversed(view.books.transitions)],
        "warnings": [*plugin.warnings, *inventory.warnings, *inventory.conflicts, *inventory.closeness.warnings],
    }


def _by_class(classes: Mapping[str, str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {"fatal": [], "recoverable": [], "ignored": []}
    for xid, name in classes.items():
        grouped[name].append(xid)
    return grouped


def _finding(finding: Finding) -> Json:
    return {"ok": finding.ok, "reasons": list(finding.reasons)}


def _resource(view: View, resource: Resource) -> Json:
    known = bool(view.plugin.pods_seen)
    offered, healthy = len(resource.shares), healthy_shares(view.snapshot.health, resource)
    name = resource.name
    phase = view.books.phases.get(name, Phase.STARTING)
    return {
        "name": name,
        "offered": offered,
        "healthy": healthy,
        "unhealthy": offered - healthy,
        "allocated": len(view.attribution.ids.get(name, ())) if known else None,
        "free": free_shares(view, resource) if known else None,
        "sharing": resource.sharing,
        "mig_profile": resource.mig_profile,
        "phase": phase,
        "streams": view.books.streams.get(name, 0),
        "trouble": view.plugin.troubles.get(name, ""),
    }


def _gpus(view: View) -> list[Json]:
    inventory = view.snapshot.inventory
    loads = {load.uuid: load for load in view.load.gpus}
    domains = dict(zip(inventory.closeness.uuids, inventory.closeness.domain, strict=False))
    offered = _offered(inventory)
    reasons = {out.device: {"reason": out.reason, "detail": out.detail} for out in inventory.left_out}
    return [
        _gpu(view, gpu, loads.get(gpu.uuid) or GpuLoad(gpu.uuid), reasons)
        | {"domain": domains.get(gpu.uuid), "resources": offered.get(gpu.uuid, {})}
        for gpu in view.snapshot.node.gpus
    ]


def _gpu(view: View, gpu: Gpu, load: GpuLoad, reasons: Mapping[str, Json]) -> Json:
    health = view.snapshot.health
    loads = {one.uuid: one for one in load.instances}
    active = [link.active for link in gpu.links if link.active is not None]
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "pci": gpu.pci,
        "name": gpu.name,
        "numa": gpu.numa,
        "health": _verdict(health, gpu.uuid, gpu.uuid),
        "causes": _causes(health, gpu.uuid),
        "utilization": load.utilization,
        "memory_utilization": load.memory_utilization,
        "memory_total": load.memory_total if load.memory_total is not None else gpu.memory,
        "memory_used": load.memory_used,
        "temperature": load.temperature,
        "power": load.power,
        "power_limit": load.power_limit,
        "nvlinks": {"active": sum(active), "total": len(gpu.links)} if gpu.links else None,
        "mig": bool(gpu.mig_enabled),
        "left_out": reasons.get(gpu.uuid),
        "holders": _holders(view.attribution.cards.get(gpu.uuid, ())),
        "instances": [
            _instance(view, mig, loads.get(mig.uuid) or MigLoad(mig.uuid))
            | {"left_out": reasons.get(mig.uuid), "resources": _offered(view.snapshot.inventory).get(mig.uuid, {})}
            for mig in gpu.instances
        ],
    }


def _instance(view: View, mig: MigInstance, load: MigLoad) -> Json:
    health = view.snapshot.health
    return {
        "slot": mig.slot,
        "uuid": mig.uuid,
        "profile": mig.profile,
        "gi": mig.gi,
        "ci": mig.ci,
        "slices": mig.gi_slices,
        "health": _verdict(health, mig.uuid, mig.gpu),
        "causes": _causes(health, mig.uuid),
        "utilization": load.utilization,
        "memory_total": load.memory_total,
        "memory_used": load.memory_used,
        "holders": _holders(view.attribution.instances.get(mig.uuid, ())),
    }


def _offered(inventory: Inventory) -> dict[str, dict[str, int]]:
    """Shares by device and resource; a MIG instance counts for itself and for its card."""
    counts: dict[str, dict[str, int]] = {}
    for name, resource in inventory.resources.items():
        for share in resource.shares:
            for uuid in {share.device, share.gpu}:
                own = counts.setdefault(uuid, {})
                own[name] = own.get(name, 0) + 1
    return counts


def _verdict(health: Health, device: str, gpu: str) -> Verdict:
    if health.reasons(device, gpu):
        return Verdict.UNHEALTHY
    return Verdict.RANK_LAST if device in health.last or gpu in health.last else Verdict.HEALTHY


def _causes(health: Health, device: str) -> list[Json]:
    return [_cause(one) for one in (*health.sick.get(device, ()), *health.last.get(device, ()))]


def _cause(sickness: Sickness) -> Json:
    return {
        "reason": sickness.reason,
        "kind": sickness.kind,
        "since": sickness.since,
        "detail": sickness.detail,
        "rule": sickness.rule,
        "xid": sickness.xid,
        "todo": advise(sickness.reason),
    }


def _transition(one: Transition) -> Json:
    return {
        "at": one.at,
        "gpu": one.gpu_index,
        "uuid": one.uuid,
        "pci": one.pci,
        "before": one.before,
        "to": one.to,
        "reason": one.reason,
        "rule": one.rule,
        "detail": one.detail,
        "xid": one.xid,
        "todo": "" if one.over else advise(one.reason),
    }


def _holders(holders: Iterable[Holder]) -> list[Json]:
    return [
        {
            "namespace": holder.namespace,
            "pod": holder.pod,
            "container": holder.container,
            "resource": holder.resource,
            "shares": holder.shares,
        }
        for holder in holders
    ]


def _domains(closeness: Closeness, gpus: Sequence[Gpu]) -> list[Json]:
    """NVLink domains of more than one GPU or none, with how they are wired."""
    index = {gpu.uuid: gpu.index for gpu in gpus}
    members: dict[int, list[str]] = {}
    for uuid, domain in zip(closeness.uuids, closeness.domain, strict=False):
        if uuid in index:
            members.setdefault(domain, []).append(uuid)
    cards = {gpu.uuid: gpu for gpu in gpus}
    ours = {gpu.pci for gpu in gpus}
    return [
        {
            "domain": domain,
            "gpus": [index[uuid] for uuid in uuids],
            "wiring": _wiring([cards[uuid] for uuid in uuids], ours) if len(uuids) > 1 else "none",
        }
        for domain, uuids in sorted(members.items())
    ]


def _wiring(cards: Iterable[Gpu], ours: set[str]) -> str:
    direct = any(link.remote_pci in ours - {card.pci} for card in cards for link in card.links)
    return "direct" if direct else "switch"


def _links(closeness: Closeness) -> list[Json]:
    """Pairs of GPUs with NVLink between them, and how many links wide."""
    return [
        {"a": closeness.index[a], "b": closeness.index[b], "width": width}
        for a, row in enumerate(closeness.nvlink)
        for b, width in enumerate(row)
        if a < b and width > 0
    ]
