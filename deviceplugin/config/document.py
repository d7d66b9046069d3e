"""The configuration file as frozen structs: upstream's `version: v1` document, and our sections beside it.

Field names are the file's keys in snake case; msgspec renames them to camel case, save where upstream writes an
initialism in capitals. A value that is absent or `null`
takes the default shown here. Durations are seconds once loaded (the file takes `1m30s`, or nanoseconds as a number).
Shapes only: what may be combined is checked in `config.check`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field

from deviceplugin.model.inventory import Policy

Duration = Annotated[float, Meta(extra_json_schema={"x-duration": True})]
"""Seconds; written as in Go (`1m30s`) or as a number of nanoseconds."""


class Document(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Base of every section: frozen, camel-case keys, unknown keys refused."""


class MigStrategy(StrEnum):
    """flags.migStrategy."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class ListStrategy(StrEnum):
    """flags.plugin.deviceListStrategy: how the device list reaches the container runtime."""

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_ANNOTATIONS = "cdi-annotations"
    CDI_CRI = "cdi-cri"


class IdStrategy(StrEnum):
    """flags.plugin.deviceIDStrategy."""

    UUID = "uuid"
    INDEX = "index"


class Discovery(StrEnum):
    """flags.deviceDiscoveryStrategy; tegra is refused with a message."""

    AUTO = "auto"
    NVML = "nvml"
    TEGRA = "tegra"


class PluginFlags(Document, frozen=True):
    """flags.plugin."""

    pass_device_specs: bool = False
    device_list_strategy: tuple[ListStrategy, ...] = (ListStrategy.ENVVAR,)
    device_id_strategy: IdStrategy = field(default=IdStrategy.UUID, name="deviceIDStrategy")
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    nvidia_ctk_path: str = field(default="/usr/bin/nvidia-ctk", name="nvidiaCTKPath")
    container_driver_root: str = "/driver-root"
    shared_devices_allocation_policy: Policy = Policy.DISTRIBUTED


class GfdFlags(Document, frozen=True):
    """flags.gfd: settings of the node labels."""

    oneshot: bool = False
    no_timestamp: bool = False
    sleep_interval: Duration = 60.0
    output_file: str = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
    machine_type_file: str = "/sys/class/dmi/id/product_name"


class Flags(Document, frozen=True):
    """flags."""

    mig_strategy: MigStrategy = MigStrategy.NONE
    fail_on_init_error: bool = True
    mps_root: str = ""
    nvidia_driver_root: str = "/"
    nvidia_dev_root: str = ""
    """Empty: the driver root."""
    gdrcopy_enabled: bool = False
    gds_enabled: bool = False
    mofed_enabled: bool = False
    use_node_feature_api: bool | None = field(default=None, name="useNodeFeatureAPI")
    device_discovery_strategy: Discovery = Discovery.AUTO
    plugin: PluginFlags = PluginFlags()
    gfd: GfdFlags = GfdFlags()


class Pattern(Document, frozen=True):
    """resources.gpus[] and resources.mig[]: first match wins; an empty name leaves the device out.

    `pattern` is matched over the product name or MIG profile, `*` only is special. Ours besides: `pci` (the same over
    the PCI bus id) and `memory` (`>=80Gi`, `<24Gi`); what is given must all match.
    """

    pattern: str
    name: str
    pci: str | None = None
    memory: str | None = None
    allocation_policy: Policy | None = None


class Resources(Document, frozen=True):
    """resources. `migs` is accepted as an alias of `mig` by the loader."""

    gpus: tuple[Pattern, ...] = ()
    mig: tuple[Pattern, ...] = ()


class Replicas(Document, frozen=True):
    """sharing.*.resources[]: `devices` is `all`, a count, or a list of index, `gpu:mig` index or UUID."""

    name: str
    replicas: int
    rename: str | None = None
    devices: str | int | tuple[str | int, ...] = "all"
    allocation_policy: Policy | None = None
    memory_limit: str | float | None = None
    """MPS only: `share` (default), a ratio of the share such as `0.5`, an amount such as `8Gi`, or `none`."""
    active_thread_percentage: float | None = None
    """MPS only: 1 to 100; default 100/replicas."""


class Replicated(Document, frozen=True):
    """sharing.timeSlicing and sharing.mps."""

    resources: tuple[Replicas, ...]
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool | None = None
    """None: false for timeSlicing, true for mps."""


class SharingSection(Document, frozen=True):
    """sharing. At most one of the two may be given."""

    time_slicing: Replicated | None = None
    mps: Replicated | None = None


class Imex(Document, frozen=True):
    """imex."""

    channel_ids: tuple[int, ...] = field(default=(), name="channelIDs")
    required: bool = False


class Devices(Document, frozen=True):
    """devices (ours): which GPUs are ours to offer, by UUID, index, PCI id or product glob."""

    include: tuple[str | int, ...] = ()
    """Empty: all."""
    exclude: tuple[str | int, ...] = ()


class HealthPolicy(StrEnum):
    """What a bad state does: nothing, take the GPU last for k > 1, or Unhealthy."""

    IGNORE = "ignore"
    RANK_LAST = "rankLast"
    UNHEALTHY = "unhealthy"


class UnknownXid(StrEnum):
    """What an Xid in no list does."""

    FATAL = "fatal"
    RECOVERABLE = "recoverable"
    IGNORE = "ignore"


class CheckFailure(StrEnum):
    """health.onCheckFailure: what holds when no health source can be read."""

    KEEP = "keep"
    UNHEALTHY = "unhealthy"


class Cordon(Document, frozen=True):
    """health.cordon[]: a GPU or MIG instance taken out by hand."""

    device: str | int
    """UUID, index, `gpu:mig` index or PCI id."""
    reason: str = ""
    release: bool = False
    """Also let go of the driver, so that the GPU can be reset or its MIG mode changed."""


class HealthSection(Document, frozen=True):
    """health (ours)."""

    fatal: tuple[int, ...] = (48, 62, 64, 74, 79, 95, 119, 120, 140, 143)
    ignored: tuple[int, ...] = (13, 31, 43, 45, 68, 109)
    recoverable: tuple[int, ...] = (94,)
    unknown_xid: UnknownXid = UnknownXid.FATAL
    quiet_period: Duration = 60.0
    ecc: HealthPolicy = HealthPolicy.UNHEALTHY
    remap_pending: HealthPolicy = HealthPolicy.RANK_LAST
    remap_failure: HealthPolicy = HealthPolicy.UNHEALTHY
    recovery_action: HealthPolicy = HealthPolicy.UNHEALTHY
    fabric: HealthPolicy = HealthPolicy.RANK_LAST
    nvlink: HealthPolicy = HealthPolicy.RANK_LAST
    cordon: tuple[Cordon, ...] = ()
    on_check_failure: CheckFailure = CheckFailure.KEEP
    inject_file: str = ""
    """A file whose lines inject health events (rehearsals); empty: off."""
    interval: Duration = 5.0
    """Between two readings of the health states."""


class Registration(StrEnum):
    """kubelet.registration."""

    SOCKET = "socket"
    WATCHER = "watcher"


class Kubelet(Document, frozen=True):
    """kubelet (ours): where the kubelet is."""

    socket: str = "/var/lib/kubelet/device-plugins/kubelet.sock"
    """Empty: serve without registering."""
    pod_resources: str = "/var/lib/kubelet/pod-resources/kubelet.sock"
    plugins_registry: str = "/var/lib/kubelet/plugins_registry"
    registration: Registration = Registration.SOCKET


class Daemon(Document, frozen=True):
    """daemon (ours): the life of the process."""

    rescan_interval: Duration = 30.0
    vanished_grace: Duration = 60.0
    """How long a device that is gone stays listed as Unhealthy."""
    state_dir: str = "/var/lib/gpu-device-plugin"
    """Sickness is kept here over restarts; empty or not writable: judged by driver state alone."""
    control_socket: str = "/run/gpu-device-plugin/control.sock"
    """Local socket behind the `health`, `status` and `release` subcommands; empty: none."""
    release_timeout: Duration = 300.0


class PodLabels(StrEnum):
    """metrics.pods."""

    ON = "on"
    OFF = "off"


class Metrics(Document, frozen=True):
    """metrics (ours)."""

    address: str = ":9400"
    """`host:port`, `[v6]:port` or `:port`; empty: no endpoint."""
    interval: Duration = 10.0
    pods: PodLabels = PodLabels.ON
    dcgm_names: bool = False
    per_link: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = field(default="", name="tlsClientCA")
    basic_auth_file: str = ""
    """Lines of `user:password`."""


class LabelSink(StrEnum):
    """labels.publish."""

    AUTO = "auto"
    """The feature file if its folder exists, else nothing."""
    FILE = "file"
    NODE_FEATURE = "node-feature"
    NODE = "node"
    OFF = "off"


class Labels(Document, frozen=True):
    """labels (ours)."""

    publish: LabelSink = LabelSink.AUTO


class CdiSpec(StrEnum):
    """cdi.spec: our own specification files, or one that the container toolkit keeps."""

    OWN = "own"
    EXTERNAL = "external"


class Cdi(Document, frozen=True):
    """cdi (ours), and upstream's --cdi-feature-flags and --cdi-disable-hooks."""

    spec: CdiSpec = CdiSpec.OWN
    folder: str = "/var/run/cdi"
    feature_flags: tuple[str, ...] = ()
    disable_hooks: tuple[str, ...] = ()


class Fallback(StrEnum):
    """cluster.fallback: which of several configurations holds when none is chosen, tried in the order given."""

    NAMED = "named"
    """The one called `default`."""
    SINGLE = "single"
    """The only one there is."""
    EMPTY = "empty"
    """None: defaults."""


class Cluster(Document, frozen=True):
    """cluster (ours): the optional door to the Kubernetes API."""

    config_label: bool = False
    """Choose the configuration by the node label nvidia.com/device-plugin.config."""
    events: bool = False
    condition: bool = False
    node_name: str = ""
    fallback: tuple[Fallback, ...] = (Fallback.NAMED, Fallback.SINGLE)
    default_config: str = ""


class LogFormat(StrEnum):
    """--log-format."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """--log-level."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class ProcessOptions(Struct, frozen=True):
    """What concerns the process only and has no key in the file."""

    config_file: str = ""
    config_dir: str = ""
    config_name: str = ""
    driver: str = "nvml"
    """`nvml`, or `fake:<machine or .topo file>`."""
    nvml_library: str = ""
    host_root: str = "/"
    """Where the host's /sys, /proc and /dev are read; a fake driver brings its own."""
    log_format: LogFormat = LogFormat.TEXT
    log_level: LogLevel = LogLevel.INFO


class Config(Document, frozen=True):
    """The whole document. Upstream's sections: version, flags, resources, sharing, imex; the others are ours."""

    version: str = "v1"
    flags: Flags = Flags()
    resources: Resources = Resources()
    sharing: SharingSection = SharingSection()
    imex: Imex = Imex()
    devices: Devices = Devices()
    health: HealthSection = HealthSection()
    kubelet: Kubelet = Kubelet()
    daemon: Daemon = Daemon()
    metrics: Metrics = Metrics()
    labels: Labels = Labels()
    cdi: Cdi = Cdi()
    cluster: Cluster = Cluster()
