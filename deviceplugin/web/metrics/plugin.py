"""Rows about the plugin itself: what it offers, to whom, and how it gets on with kubelet and driver."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping

from deviceplugin.ledger import Phase
from deviceplugin.model.health import Sickness
from deviceplugin.model.inventory import NodeState, Resource
from deviceplugin.model.node import DriverState
from deviceplugin.web.metrics.make import Texts, Values, counter, gauge, histogram
from deviceplugin.web.metrics.row import Metric
from deviceplugin.web.metrics.scene import Scene
from deviceplugin.web.standing import free_cards, healthy_shares
from deviceplugin.web.view import View

UP = frozenset({Phase.REGISTERED, Phase.STREAMING})


def _reloads(view: View) -> Texts:
    del view
    return ("success",), ("refused",)


def _resources(view: View) -> Texts:
    return [(name,) for name in view.snapshot.inventory.resources]


def _granted(view: View) -> Texts:
    return [(name, result) for name in view.snapshot.inventory.resources for result in ("success", "refused")]


def _loaded(view: View) -> Values:
    return [((), view.books.times["config"])] if "config" in view.books.times else []


def _build(view: View) -> Values:
    return [((view.plugin.version, platform.python_version(), view.snapshot.node.driver_version or ""), 1)]


def _states(view: View) -> Values:
    present = {str(view.snapshot.node.state), str(view.snapshot.inventory.state)}
    return [((state,), state in present) for state in (*DriverState, *NodeState)]


def _devices(view: View) -> Values:
    for name, resource in view.snapshot.inventory.resources.items():
        healthy = healthy_shares(view.snapshot.health, resource)
        yield (name, "healthy"), healthy
        yield (name, "unhealthy"), len(resource.shares) - healthy


def _allocated(view: View) -> Values:
    if view.plugin.pods_seen:
        for name, resource in view.snapshot.inventory.resources.items():
            yield (name,), _held(view, resource)


def _held(view: View, resource: Resource) -> int:
    return len(view.attribution.ids.get(resource.name, frozenset()))


def _free(view: View) -> Values:
    if view.plugin.pods_seen:
        for domain, cards in free_cards(view).items():
            yield (domain,), len(cards)


def _by_sickness(
    source: Callable[[View], Mapping[str, tuple[Sickness, ...]]], *, since: bool
) -> Callable[[View], Values]:
    def values(view: View) -> Values:
        for uuid, sicknesses in source(view).items():
            for sickness in sicknesses:
                yield (uuid, sickness.reason), sickness.since if since else 1

    return values


def _sick(view: View) -> Mapping[str, tuple[Sickness, ...]]:
    return view.snapshot.health.sick


def _last(view: View) -> Mapping[str, tuple[Sickness, ...]]:
    return view.snapshot.health.last


def _by_resource(value: Callable[[View, str], float]) -> Callable[[View], Values]:
    return lambda view: [((name,), value(view, name)) for name in view.snapshot.inventory.resources]


PLUGIN_ROWS: tuple[Metric[Scene], ...] = (
    gauge("build_info", "Versions of plugin, Python and driver.", ("version", "python", "driver"), _build),
    gauge(
        "start_time_seconds",
        "Unix time at which the process began.",
        (),
        lambda view: [((), view.plugin.started)],
    ),
    gauge(
        "config_info",
        "The configuration in force: hash of its content, and where it came from.",
        ("hash", "source"),
        lambda view: [((view.snapshot.config.hash, view.snapshot.config.source), 1)],
    ),
    counter(
        "config_reload_total",
        "Configurations taken in after the first, by result.",
        ("result",),
        "config_reload",
        _reloads,
    ),
    gauge(
        "config_last_reload_success_timestamp_seconds",
        "Unix time at which a configuration was taken in last.",
        (),
        _loaded,
    ),
    gauge(
        "config_last_reload_successful",
        "0 while the newest configuration is refused and an older one is in force.",
        (),
        lambda view: [((), not view.plugin.config_refused)],
    ),
    gauge(
        "ready",
        "1 while every offered resource is registered and streaming and the driver is usable.",
        (),
        lambda view: [((), view.plugin.ready.ok)],
    ),
    gauge(
        "registered",
        "1 while the kubelet knows the resource from us, else 0.",
        ("resource",),
        _by_resource(lambda view, name: view.books.phases.get(name) in UP),
    ),
    gauge(
        "streams",
        "Open ListAndWatch streams; 1 is right.",
        ("resource",),
        _by_resource(lambda view, name: view.books.streams.get(name, 0)),
    ),
    counter("registrations_total", "Registrations by result.", ("resource", "result"), "registrations"),
    counter("list_updates_total", "Device lists sent to the kubelet.", ("resource",), "list_updates", _resources),
    gauge("devices", "Devices offered, by health.", ("resource", "health"), _devices),
    gauge(
        "allocated_devices",
        "Devices that pods hold; absent while the pod resources API does not answer.",
        ("resource",),
        _allocated,
    ),
    gauge(
        "domain_free_gpus",
        "Healthy whole GPUs that no pod holds, by NVLink domain: the largest group that stays on fast links. "
        "Absent while the pod resources API does not answer.",
        ("nvlink_domain",),
        _free,
    ),
    counter("allocations_total", "Allocate calls by result.", ("resource", "result"), "allocations", _granted),
    histogram("allocation_duration_seconds", "Time to answer Allocate.", "allocation"),
    histogram("preferred_allocation_duration_seconds", "Time to answer GetPreferredAllocation.", "preferred"),
    counter(
        "preferred_allocation_total",
        "Preferred allocations by number of devices, NVLink domains they span, and whether the search was exact.",
        ("resource", "size", "domains", "exact"),
        "preferred",
    ),
    counter(
        "preferred_allocation_unknown_ids_total",
        "Available ids that a preferred allocation skipped because the resource does not have them.",
        ("resource",),
        "preferred_unknown",
        _resources,
    ),
    counter("health_transitions_total", "Changes of health by cause.", ("uuid", "to", "reason"), "health_transitions"),
    counter("xid_total", "Xid events, whether they count or not.", ("uuid", "xid"), "xid"),
    gauge(
        "xid_class",
        "1 for the class in which an Xid counts (fatal, recoverable, ignored); `other` stands for those in no list.",
        ("xid", "class"),
        lambda view: [(pair, 1) for pair in view.plugin.xids.items()],
    ),
    gauge(
        "unhealthy",
        "1 for each cause that keeps a device from being used.",
        ("uuid", "reason"),
        _by_sickness(_sick, since=False),
    ),
    gauge(
        "unhealthy_since_timestamp_seconds",
        "Unix time since when the cause holds.",
        ("uuid", "reason"),
        _by_sickness(_sick, since=True),
    ),
    gauge(
        "ranked_last",
        "1 for each cause for which a healthy device is taken last.",
        ("uuid", "reason"),
        _by_sickness(_last, since=False),
    ),
    gauge(
        "health_checked",
        "0 while no source of health can be read.",
        (),
        lambda view: [((), view.snapshot.health.checked)],
    ),
    counter("nvml_errors_total", "NVML calls that failed, by call and return code.", ("call", "code"), "nvml_errors"),
    counter(
        "bugs_total",
        "Bugs that ended a part of the plugin that pods can do without; it was begun again. Please report them.",
        ("part",),
        "bugs",
    ),
    counter("labels_total", "Times that node labels were written, by place and result.", ("sink", "result"), "labels"),
    counter(
        "cluster_requests_total",
        "Requests to the Kubernetes API, by result.",
        ("request", "result"),
        "cluster_requests",
    ),
    counter("cluster_events_total", "Kubernetes events about health, by result.", ("result",), "cluster_events"),
    gauge(
        "node_state",
        "1 for the states that hold, one of the driver and one of the offer, 0 for the others.",
        ("state",),
        _states,
    ),
    gauge(
        "podresources_up",
        "1 while the kubelet's pod resources API answers; absent when it is not asked.",
        (),
        lambda view: [] if view.plugin.pods_seen is None else [((), view.plugin.pods_seen)],
    ),
    gauge(
        "sample_duration_seconds",
        "How long the last sampling pass over all GPUs took.",
        (),
        lambda view: [((), view.load.seconds)] if view.load.at else [],
    ),
)
