"""Rows about the plugin itself: what it offers, to whom, and how it gets on with kubelet and driver."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from deviceplugin.ledger import Phase
from deviceplugin.model.health import Sickness
from deviceplugin.model.inventory import NodeState, Resource
from deviceplugin.model.node import DriverState
from deviceplugin.web.metrics.row import Kind, Metric, Sample
from deviceplugin.web.metrics.scene import Scene
from deviceplugin.web.metrics.text import labels as write
from deviceplugin.web.standing import free_cards, healthy_shares
from deviceplugin.web.view import View

PREFIX = "gpu_device_plugin_"
UP = frozenset({Phase.REGISTERED, Phase.STREAMING})

Values = Iterable[tuple[tuple[object, ...], float]]
Texts = Iterable[tuple[str, ...]]


class Moment(Struct, frozen=True):
    """What the rows that are written at each scrape read."""

    view: View
    now: float
    """Unix time in seconds."""
    call_ages: Mapping[str, float]
    """By thread: seconds in its present call of the driver."""


def _nothing(view: View) -> Texts:
    del view
    return ()


def _reloads(view: View) -> Texts:
    del view
    return ("success",), ("refused",)


def _resources(view: View) -> Texts:
    return [(name,) for name in view.snapshot.inventory.resources]


def _granted(view: View) -> Texts:
    return [(name, result) for name in view.snapshot.inventory.resources for result in ("success", "refused")]


def _gauge(name: str, meaning: str, labels: tuple[str, ...], values: Callable[[View], Values]) -> Metric[Scene]:
    def samples(scene: Scene) -> Iterator[Sample]:
        for texts, value in values(scene.view):
            yield Sample(write(dict(zip(labels, texts, strict=True))), value)

    return Metric(PREFIX + name, Kind.GAUGE, meaning, labels, samples)


def _counter(
    name: str, meaning: str, labels: tuple[str, ...], kept_as: str, from_zero: Callable[[View], Texts] = _nothing
) -> Metric[Scene]:
    """A row of the ledger's counts. Those of `from_zero` are there from the start, so that the first one is a rise."""

    def samples(scene: Scene) -> Iterator[Sample]:
        counts: dict[tuple[str, ...], float] = dict.fromkeys(from_zero(scene.view), 0)
        counts |= {texts: value for (count, texts), value in scene.view.books.counts.items() if count == kept_as}
        for texts, value in counts.items():
            yield Sample(write(dict(zip(labels, texts, strict=True))), value)

    return Metric(PREFIX + name, Kind.COUNTER, meaning, labels, samples)


def _histogram(name: str, meaning: str, kept_as: str) -> Metric[Scene]:
    def samples(scene: Scene) -> Iterator[Sample]:
        histogram = scene.view.books.histograms.get(kept_as)
        if histogram is None:
            return
        total = 0
        for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
            total += count
            yield Sample(write({"le": bound}), total, "_bucket")
        yield Sample("", histogram.total, "_sum")
        yield Sample("", total, "_count")

    return Metric(PREFIX + name, Kind.HISTOGRAM, meaning, (), samples)


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
    _gauge("build_info", "Versions of plugin, Python and driver.", ("version", "python", "driver"), _build),
    _gauge(
        "start_time_seconds",
        "Unix time at which the process began.",
        (),
        lambda view: [((), view.plugin.started)],
    ),
    _gauge(
        "config_info",
        "The configuration in force: hash of its content, and where it came from.",
        ("hash", "source"),
        lambda view: [((view.snapshot.config.hash, view.snapshot.config.source), 1)],
    ),
    _counter(
        "config_reload_total",
        "Configurations taken in after the first, by result.",
        ("result",),
        "config_reload",
        _reloads,
    ),
    _gauge(
        "config_last_reload_success_timestamp_seconds",
        "Unix time at which a configuration was taken in last.",
        (),
        _loaded,
    ),
    _gauge(
        "config_last_reload_successful",
        "0 while the newest configuration is refused and an older one is in force.",
        (),
        lambda view: [((), not view.plugin.config_refused)],
    ),
    _gauge(
        "ready",
        "1 while every offered resource is registered and streaming and the driver is usable.",
        (),
        lambda view: [((), view.plugin.ready.ok)],
    ),
    _gauge(
        "registered",
        "1 while the kubelet knows the resource from us, else 0.",
        ("resource",),
        _by_resource(lambda view, name: view.books.phases.get(name) in UP),
    ),
    _gauge(
        "streams",
        "Open ListAndWatch streams; 1 is right.",
        ("resource",),
        _by_resource(lambda view, name: view.books.streams.get(name, 0)),
    ),
    _counter("registrations_total", "Registrations by result.", ("resource", "result"), "registrations"),
    _counter("list_updates_total", "Device lists sent to the kubelet.", ("resource",), "list_updates", _resources),
    _gauge("devices", "Devices offered, by health.", ("resource", "health"), _devices),
    _gauge(
        "allocated_devices",
        "Devices that pods hold; absent while the pod resources API does not answer.",
        ("resource",),
        _allocated,
    ),
    _gauge(
        "domain_free_gpus",
        "Healthy whole GPUs that no pod holds, by NVLink domain: the largest group that stays on fast links. "
        "Absent while the pod resources API does not answer.",
        ("nvlink_domain",),
        _free,
    ),
    _counter("allocations_total", "Allocate calls by result.", ("resource", "result"), "allocations", _granted),
    _histogram("allocation_duration_seconds", "Time to answer Allocate.", "allocation"),
    _histogram("preferred_allocation_duration_seconds", "Time to answer GetPreferredAllocation.", "preferred"),
    _counter(
        "preferred_allocation_total",
        "Preferred allocations by number of devices, NVLink domains they span, and whether the search was exact.",
        ("resource", "size", "domains", "exact"),
        "preferred",
    ),
    _counter("health_transitions_total", "Changes of health by cause.", ("uuid", "to", "reason"), "health_transitions"),
    _counter("xid_total", "Xid events, whether they count or not.", ("uuid", "xid"), "xid"),
    _gauge(
        "unhealthy",
        "1 for each cause that keeps a device from being used.",
        ("uuid", "reason"),
        _by_sickness(_sick, since=False),
    ),
    _gauge(
        "unhealthy_since_timestamp_seconds",
        "Unix time since when the cause holds.",
        ("uuid", "reason"),
        _by_sickness(_sick, since=True),
    ),
    _gauge(
        "ranked_last",
        "1 for each cause for which a healthy device is taken last.",
        ("uuid", "reason"),
        _by_sickness(_last, since=False),
    ),
    _gauge(
        "health_checked",
        "0 while no source of health can be read.",
        (),
        lambda view: [((), view.snapshot.health.checked)],
    ),
    _counter("nvml_errors_total", "NVML calls that failed, by call and return code.", ("call", "code"), "nvml_errors"),
    _counter("labels_total", "Times that node labels were written, by place and result.", ("sink", "result"), "labels"),
    _counter(
        "cluster_requests_total",
        "Requests to the Kubernetes API, by result.",
        ("request", "result"),
        "cluster_requests",
    ),
    _counter("cluster_events_total", "Kubernetes events about health, by result.", ("result",), "cluster_events"),
    _gauge(
        "node_state",
        "1 for the states that hold, one of the driver and one of the offer, 0 for the others.",
        ("state",),
        _states,
    ),
    _gauge(
        "podresources_up",
        "1 while the kubelet's pod resources API answers; absent when it is not asked.",
        (),
        lambda view: [] if view.plugin.pods_seen is None else [((), view.plugin.pods_seen)],
    ),
    _gauge(
        "sample_duration_seconds",
        "How long the last sampling pass over all GPUs took.",
        (),
        lambda view: [((), view.load.seconds)] if view.load.at else [],
    ),
)


def _sample_age(moment: Moment) -> Iterator[Sample]:
    yield Sample("", max(0.0, moment.now - (moment.view.load.at or moment.view.plugin.started)))


def _call_ages(moment: Moment) -> Iterator[Sample]:
    for thread, age in moment.call_ages.items():
        yield Sample(write({"thread": thread}), age)


LIVE_ROWS: tuple[Metric[Moment], ...] = (
    Metric(
        f"{PREFIX}sample_age_seconds",
        Kind.GAUGE,
        "Age of the figures about GPUs at the moment of the scrape; before the first sample, the age of the process.",
        (),
        _sample_age,
    ),
    Metric(
        f"{PREFIX}nvml_call_age_seconds",
        Kind.GAUGE,
        "How long the present call of the driver has lasted, by thread; 0 between calls.",
        ("thread",),
        _call_ages,
    ),
)
"""Written at the scrape, not with the sample: they would stand still just when they are needed."""
