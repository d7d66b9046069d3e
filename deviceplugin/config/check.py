"""What is refused or warned about of values that are each right by themselves; what hangs on the node is not here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from deviceplugin.config.check_resources import check_patterns
from deviceplugin.config.check_sharing import check_sharing
from deviceplugin.config.document import Config, Discovery, IdStrategy, LabelSink, ListStrategy
from deviceplugin.config.effective import flatten
from deviceplugin.config.finding import Finding, problem, warning
from deviceplugin.config.names import annotation_fault
from deviceplugin.config.table import BY_PATH
from deviceplugin.config.values import Kind
from deviceplugin.config.wording import quote

_MAY_BE_ZERO = frozenset({"health.quietPeriod", "daemon.vanishedGrace"})
_PORTS = range(65536)
_PLUGIN = "flags.plugin"


def check(config: Config) -> Iterator[Finding]:
    """Everything about the document that can be judged without a node."""
    for examine in _CHECKS:
        yield from examine(config)


def _version(config: Config) -> Iterator[Finding]:
    if config.version != "v1":
        yield problem(f"{quote(config.version)} is not known; write version: v1", "version")


def _scalars(config: Config) -> Iterator[Finding]:
    for path, value in flatten(config):
        option = BY_PATH.get(path)
        if option is None or (path == "flags.nvidiaDevRoot" and value == config.flags.nvidia_driver_root):
            continue
        if option.kind is Kind.PATH and value and not str(value).startswith("/"):
            yield problem(f"must be an absolute path, is {quote(str(value))}; begin it with /", path)
        if option.kind is Kind.DURATION and value == 0 and path not in _MAY_BE_ZERO:
            yield problem("must be longer than 0s; write for example 10s", path)


def _discovery(config: Config) -> Iterator[Finding]:
    if config.flags.device_discovery_strategy is Discovery.TEGRA:
        yield problem(
            "tegra devices are not served by this plugin; write auto, and run NVIDIA's plugin on Tegra nodes",
            "flags.deviceDiscoveryStrategy",
        )


def _strategies(config: Config) -> Iterator[Finding]:
    plugin, path = config.flags.plugin, f"{_PLUGIN}.deviceListStrategy"
    strategies = set(plugin.device_list_strategy)
    if not strategies:
        yield problem(f"is empty; name at least one of {', '.join(ListStrategy)}", path)
    if {ListStrategy.CDI_ANNOTATIONS, ListStrategy.CDI_CRI} <= strategies:
        yield warning(
            "cdi-annotations and cdi-cri are both answered; a runtime that reads both injects each device twice", path
        )
    if ListStrategy.ENVVAR in strategies:
        yield warning(
            "under envvar any image that sets NVIDIA_VISIBLE_DEVICES=all sees every GPU; "
            "volume-mounts, cdi-annotations and cdi-cri cannot be forged",
            path,
        )
    if plugin.device_id_strategy is IdStrategy.INDEX:
        yield warning(
            "an index may mean another GPU after a reboot or when one is lost; uuid never does",
            f"{_PLUGIN}.deviceIDStrategy",
        )
    if ListStrategy.CDI_ANNOTATIONS in strategies and (fault := annotation_fault(plugin.cdi_annotation_prefix)):
        yield problem(fault, f"{_PLUGIN}.cdiAnnotationPrefix")


def _imex(config: Config) -> Iterator[Finding]:
    if config.imex.channel_ids not in {(), (0,)}:
        yield problem("only channel 0 can be given to containers today; write [0]", "imex.channelIDs")
    if config.imex.required and not config.imex.channel_ids:
        yield warning("has no effect without imex.channelIDs; write channelIDs: [0]", "imex.required")


def _devices(config: Config) -> Iterator[Finding]:
    for name in ("include", "exclude"):
        seen: set[str] = set()
        for entry in getattr(config.devices, name):
            word, path = str(entry), f"devices.{name}"
            if not word.strip() or word.startswith("-"):
                yield problem(f"{quote(word)} is no UUID, index, PCI id or product name; mend or delete it", path)
            if word in seen:
                yield problem(f"{quote(word)} is listed twice; keep one", path)
            seen.add(word)
    for word in sorted({str(e) for e in config.devices.include} & {str(e) for e in config.devices.exclude}):
        yield problem(f"{quote(word)} is also under devices.include; delete one", "devices.exclude", "devices.include")


def _health(config: Config) -> Iterator[Finding]:
    health = config.health
    lists = {name: set(getattr(health, name)) for name in ("fatal", "ignored", "recoverable")}
    for name, xids in lists.items():
        for xid in sorted(xid for xid in xids if xid < 1):
            yield problem(f"{xid} is no Xid; Xids are numbers from 1", f"health.{name}")
    for first, second in combinations(lists, 2):
        for xid in sorted(lists[first] & lists[second]):
            yield problem(f"Xid {xid} is also under health.{first}; delete one", f"health.{second}", f"health.{first}")
    seen: dict[str, int] = {}
    for number, cordon in enumerate(health.cordon):
        path = f"health.cordon[{number}].device"
        if str(cordon.device) in seen:
            first_path = f"health.cordon[{seen[str(cordon.device)]}]"
            yield problem(f"{quote(str(cordon.device))} is cordoned by {first_path} already; delete one", path)
        seen.setdefault(str(cordon.device), number)
    if health.inject_file:
        yield warning("whoever writes this file can make GPUs Unhealthy; for rehearsals only", "health.injectFile")


def _metrics(config: Config) -> Iterator[Finding]:
    metrics = config.metrics
    if metrics.address and not _is_address(metrics.address):
        yield problem(
            f'must be host:port, [v6]:port or :port, is {quote(metrics.address)}; write for example ":9400"',
            "metrics.address",
        )
    for given, name, lacking in (
        (metrics.tls_cert and not metrics.tls_key, "tlsCert", "tlsKey"),
        (metrics.tls_key and not metrics.tls_cert, "tlsKey", "tlsCert"),
        (metrics.tls_client_ca and not metrics.tls_cert, "tlsClientCA", "tlsCert"),
    ):
        if given:
            yield problem(f"needs metrics.{lacking} as well", f"metrics.{name}", f"metrics.{lacking}")
    if metrics.basic_auth_file and not metrics.tls_cert:
        yield warning("passwords travel in the clear without metrics.tlsCert and tlsKey", "metrics.basicAuthFile")


def _is_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    bare = ":" not in host or (host.startswith("[") and host.endswith("]"))
    return bool(colon) and bare and port.isdecimal() and int(port) in _PORTS


def _cluster(config: Config) -> Iterator[Finding]:
    if config.cluster.node_name:
        return
    wanting = [
        f"cluster.{key}"
        for key, on in (
            ("configLabel", config.cluster.config_label),
            ("events", config.cluster.events),
            ("condition", config.cluster.condition),
        )
        if on
    ]
    if config.labels.publish in {LabelSink.NODE, LabelSink.NODE_FEATURE}:
        wanting.append("labels.publish")
    if config.flags.use_node_feature_api:
        wanting.append("flags.useNodeFeatureAPI")
    for path in wanting:
        yield warning("needs this node's name; set the variable NODE_NAME from spec.nodeName", path)


_CHECKS: tuple[Callable[[Config], Iterator[Finding]], ...] = (
    _version,
    _scalars,
    _discovery,
    _strategies,
    check_patterns,
    check_sharing,
    _imex,
    _devices,
    _health,
    _metrics,
    _cluster,
)
