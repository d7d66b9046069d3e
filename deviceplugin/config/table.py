"""The one table of options: flag, variable and place in the document of every setting."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from deviceplugin.config import document as doc
from deviceplugin.config.values import Kind
from deviceplugin.model.inventory import Policy


class Option(Struct, frozen=True):
    """A setting with a flag.

    `path` is its place in the document; None for what concerns the process only. The first of several set variables
    counts. `idle` says why an option that upstream knows does nothing here. `blank` marks texts of which the empty one
    means something; elsewhere an empty flag or variable is one not given. `none`: that word alone is the empty list.
    `devices`: words that are numbers are device indices.
    """

    name: str
    flags: tuple[str, ...]
    variables: tuple[str, ...]
    path: str | None
    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    upstream: bool = False
    blank: bool = False
    none: bool = False
    devices: bool = False
    idle: str = ""


def _option(
    name: str, path: str | None, kind: Kind | type[StrEnum], text: str, /, also: str = "", **rest: bool | str
) -> Option:
    """A row. `also`: further flags and variables; `only`: all variables there are; an enumeration gives the choices."""
    words = also.split()
    flags = tuple(word for word in words if word.startswith("-"))
    variables = (name.upper().replace("-", "_"), *(word for word in words if not word.startswith("-")))
    only = rest.pop("only", None)
    choices = () if isinstance(kind, Kind) else tuple(str(member) for member in kind)
    listed = bool(rest.pop("listed", False))
    return Option(
        name,
        (f"--{name}", *flags),
        variables if only is None else tuple(str(only).split()),
        path,
        kind if isinstance(kind, Kind) else Kind.CHOICES if listed else Kind.CHOICE,
        text,
        choices,
        **rest,  # type: ignore[arg-type]
    )


def _theirs(
    name: str, path: str | None, kind: Kind | type[StrEnum], text: str, /, also: str = "", **rest: bool | str
) -> Option:
    return _option(name, path, kind, text, also, upstream=True, **rest)


_NO_RESTART = "an Unhealthy device needs no restart here; drop it"
_FEW_CALLS = "calls to the API server are too few to be limited; drop it"
_IN_CLUSTER = "the pod's own service account is used; drop it"

UPSTREAM: tuple[Option, ...] = (
    _theirs("mig-strategy", "flags.migStrategy", doc.MigStrategy, "how MIG instances are offered", "GFD_MIG_STRATEGY"),
    _theirs(
        "fail-on-init-error",
        "flags.failOnInitError",
        Kind.BOOL,
        "exit when the driver cannot be reached at start, instead of looking again",
        "GFD_FAIL_ON_INIT_ERROR",
    ),
    _theirs("mps-root", "flags.mpsRoot", Kind.PATH, "host folder of the MPS pipes and shared memory"),
    _theirs(
        "driver-root",
        "flags.nvidiaDriverRoot",
        Kind.PATH,
        "root of the driver installation on the host",
        "--nvidia-driver-root",
        only="NVIDIA_DRIVER_ROOT",
    ),
    _theirs(
        "dev-root",
        "flags.nvidiaDevRoot",
        Kind.PATH,
        "host folder that holds dev/nvidia*; empty: the driver root",
        "--nvidia-dev-root",
        only="NVIDIA_DEV_ROOT",
    ),
    _theirs("gdrcopy-enabled", "flags.gdrcopyEnabled", Kind.BOOL, "give containers GDRCopy"),
    _theirs("gds-enabled", "flags.gdsEnabled", Kind.BOOL, "give containers GPUDirect Storage"),
    _theirs("mofed-enabled", "flags.mofedEnabled", Kind.BOOL, "give containers Mellanox OFED"),
    _theirs(
        "use-node-feature-api",
        "flags.useNodeFeatureAPI",
        Kind.BOOL,
        "publish labels as a NodeFeature object",
        "GFD_USE_NODE_FEATURE_API",
    ),
    _theirs(
        "device-discovery-strategy", "flags.deviceDiscoveryStrategy", doc.Discovery, "auto and nvml are the same here"
    ),
    _theirs("pass-device-specs", "flags.plugin.passDeviceSpecs", Kind.BOOL, "hand device nodes to the kubelet as well"),
    _theirs(
        "device-list-strategy",
        "flags.plugin.deviceListStrategy",
        doc.ListStrategy,
        "how the device list reaches the container runtime",
        listed=True,
    ),
    _theirs("device-id-strategy", "flags.plugin.deviceIDStrategy", doc.IdStrategy, "how devices are named to it"),
    _theirs(
        "cdi-annotation-prefix", "flags.plugin.cdiAnnotationPrefix", Kind.TEXT, "beginning of the CDI annotation's key"
    ),
    _theirs(
        "nvidia-cdi-hook-path",
        "flags.plugin.nvidiaCTKPath",
        Kind.PATH,
        "host path of nvidia-ctk or nvidia-cdi-hook, named in CDI hooks",
        "--nvidia-ctk-path NVIDIA_CTK_PATH",
    ),
    _theirs(
        "driver-root-ctr-path",
        "flags.plugin.containerDriverRoot",
        Kind.PATH,
        "where the driver root is mounted in this container",
        "--container-driver-root CONTAINER_DRIVER_ROOT",
    ),
    _theirs(
        "shared-devices-allocation-policy",
        "flags.plugin.sharedDevicesAllocationPolicy",
        Policy,
        "how shares are chosen; spread and strict are ours",
    ),
    _theirs("oneshot", "flags.gfd.oneshot", Kind.BOOL, "label once and exit", only="GFD_ONESHOT"),
    _theirs("no-timestamp", "flags.gfd.noTimestamp", Kind.BOOL, "no timestamp label", only="GFD_NO_TIMESTAMP"),
    _theirs(
        "sleep-interval", "flags.gfd.sleepInterval", Kind.DURATION, "between two labellings", only="GFD_SLEEP_INTERVAL"
    ),
    _theirs(
        "output-file",
        "flags.gfd.outputFile",
        Kind.PATH,
        "feature file of the labels; empty: standard output",
        "--output -o",
        only="GFD_OUTPUT_FILE",
        blank=True,
    ),
    _theirs(
        "machine-type-file",
        "flags.gfd.machineTypeFile",
        Kind.PATH,
        "file that holds the machine's product name",
        only="GFD_MACHINE_TYPE_FILE",
    ),
    _theirs(
        "imex-channel-ids", "imex.channelIDs", Kind.INTEGERS, "IMEX channels for every container; only 0", none=True
    ),
    _theirs("imex-required", "imex.required", Kind.BOOL, "fail a container when its IMEX channel is missing"),
    _theirs("cdi-feature-flags", "cdi.featureFlags", Kind.TEXTS, "switches of CDI generation", none=True),
    _theirs("cdi-disable-hooks", "cdi.disableHooks", Kind.TEXTS, "CDI hooks to leave out, or all", none=True),
    _theirs(
        "kubelet-socket",
        "kubelet.socket",
        Kind.PATH,
        "the kubelet's registration socket; empty: no registration",
        blank=True,
    ),
    _theirs("config-file", None, Kind.PATH, "configuration file, YAML or JSON", "GFD_CONFIG_FILE"),
    _theirs("node-name", "cluster.nodeName", Kind.TEXT, "this node's name in the cluster"),
    _theirs(
        "default-config", "cluster.defaultConfig", Kind.TEXT, "configuration of --config-dir when no name is given"
    ),
    _theirs(
        "fallback-strategies",
        "cluster.fallback",
        doc.Fallback,
        "what to try, in order, when no name is given",
        listed=True,
        none=True,
    ),
    _theirs("restart-on-device-unhealthy", None, Kind.BOOL, "no effect", idle=_NO_RESTART),
    _theirs("kubeconfig", None, Kind.PATH, "no effect", only="", idle=_IN_CLUSTER),
    _theirs("kube-api-qps", None, Kind.TEXT, "no effect", only="", idle=_FEW_CALLS),
    _theirs("kube-api-burst", None, Kind.TEXT, "no effect", only="", idle=_FEW_CALLS),
)

OURS: tuple[Option, ...] = (
    _option("config-dir", None, Kind.PATH, "folder of several named configurations"),
    _option("config-name", None, Kind.TEXT, "which configuration of --config-dir"),
    _option("driver", None, Kind.TEXT, "nvml, or fake:<machine or .topo file> for a dry run"),
    _option("nvml-library", None, Kind.PATH, "libnvidia-ml.so.1 itself; empty: looked for"),
    _option("host-root", None, Kind.PATH, "where the host's sys, proc and dev are read"),
    _option("log-format", None, doc.LogFormat, "for people or for machines"),
    _option("log-level", None, doc.LogLevel, "least level that is logged"),
    _option("devices-include", "devices.include", Kind.TEXTS, "only these GPUs are offered", devices=True),
    _option("devices-exclude", "devices.exclude", Kind.TEXTS, "these GPUs are not offered", devices=True, none=True),
    _option("health-fatal", "health.fatal", Kind.INTEGERS, "Xids after which a GPU must be reset", none=True),
    _option("health-ignored", "health.ignored", Kind.INTEGERS, "Xids that say nothing about the GPU", none=True),
    _option(
        "health-recoverable", "health.recoverable", Kind.INTEGERS, "Xids that pass after a quiet period", none=True
    ),
    _option("health-unknown-xid", "health.unknownXid", doc.UnknownXid, "what an Xid in no list does"),
    _option("health-quiet-period", "health.quietPeriod", Kind.DURATION, "without a new Xid before recovery"),
    _option("health-ecc", "health.ecc", doc.HealthPolicy, "uncorrectable ECC errors"),
    _option("health-remap-pending", "health.remapPending", doc.HealthPolicy, "a row remap that waits for a reset"),
    _option("health-remap-failure", "health.remapFailure", doc.HealthPolicy, "a row remap that failed"),
    _option("health-recovery-action", "health.recoveryAction", doc.HealthPolicy, "the driver asks for a recovery"),
    _option("health-fabric", "health.fabric", doc.HealthPolicy, "the NVLink fabric is not up"),
    _option("health-nvlink", "health.nvlink", doc.HealthPolicy, "a down NVLink"),
    _option("health-on-check-failure", "health.onCheckFailure", doc.CheckFailure, "when no source can be read"),
    _option("health-inject-file", "health.injectFile", Kind.PATH, "rehearsed health events; empty: off"),
    _option("health-interval", "health.interval", Kind.DURATION, "between two readings of the health states"),
    _option(
        "pod-resources-socket", "kubelet.podResources", Kind.PATH, "the kubelet's pod resources socket", blank=True
    ),
    _option("plugins-registry", "kubelet.pluginsRegistry", Kind.PATH, "folder that the kubelet's watcher scans"),
    _option("registration", "kubelet.registration", doc.Registration, "by its socket, or by its plugin watcher"),
    _option("rescan-interval", "daemon.rescanInterval", Kind.DURATION, "between two scans of the node"),
    _option("vanished-grace", "daemon.vanishedGrace", Kind.DURATION, "how long a GPU that is gone stays Unhealthy"),
    _option("state-dir", "daemon.stateDir", Kind.PATH, "keeps sickness over restarts; empty: nowhere", blank=True),
    _option("control-socket", "daemon.controlSocket", Kind.PATH, "of health, status, release; empty: none", blank=True),
    _option("release-timeout", "daemon.releaseTimeout", Kind.DURATION, "driver taken up again after a release"),
    _option("metrics-address", "metrics.address", Kind.TEXT, "host:port of the web page; empty: none", blank=True),
    _option("metrics-interval", "metrics.interval", Kind.DURATION, "between two samples"),
    _option("metrics-pods", "metrics.pods", doc.PodLabels, "pod labels on GPU metrics"),
    _option("metrics-dcgm-names", "metrics.dcgmNames", Kind.BOOL, "also under the DCGM exporter's names"),
    _option("metrics-per-link", "metrics.perLink", Kind.BOOL, "NVLink counters link by link"),
    _option("metrics-tls-cert", "metrics.tlsCert", Kind.PATH, "certificate chain (PEM); empty: plain HTTP"),
    _option("metrics-tls-key", "metrics.tlsKey", Kind.PATH, "its key (PEM)"),
    _option("metrics-tls-client-ca", "metrics.tlsClientCA", Kind.PATH, "clients need a certificate of this authority"),
    _option("metrics-basic-auth-file", "metrics.basicAuthFile", Kind.PATH, "lines of user:password"),
    _option("labels-publish", "labels.publish", doc.LabelSink, "where node labels go"),
    _option("cdi-spec", "cdi.spec", doc.CdiSpec, "our CDI files, or those of the container toolkit"),
    _option("cdi-folder", "cdi.folder", Kind.PATH, "folder of CDI files"),
    _option("cluster-config-label", "cluster.configLabel", Kind.BOOL, "node label chooses the configuration"),
    _option("cluster-events", "cluster.events", Kind.BOOL, "node events for health changes"),
    _option("cluster-condition", "cluster.condition", Kind.BOOL, "node condition for GPU health"),
)

OPTIONS: tuple[Option, ...] = UPSTREAM + OURS
"""Every option; NVIDIA's first."""

BY_PATH: dict[str, Option] = {option.path: option for option in OPTIONS if option.path}
"""Path in the document -> its option."""
