"""Labels of cards and MIG instances: `gpu.*`, and under the mixed strategy the same once per `mig-<profile>.*`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from deviceplugin.config.document import MigStrategy
from deviceplugin.model.node import Gpu, MigInstance
from deviceplugin.rules.identify import mig_resource
from deviceplugin.rules.label.ours import Ours, Usage
from deviceplugin.rules.label.spell import common, joined, key, leading, spell

_MIB = 1 << 20

FAMILIES: Mapping[int, str] = MappingProxyType(
    {
        2: "kepler",
        3: "maxwell",
        4: "pascal",
        5: "volta",
        6: "turing",
        7: "ampere",
        8: "ada-lovelace",
        9: "hopper",
        10: "blackwell",
        13: "rubin",
    }
)
"""nvmlDeviceArchitecture_t -> `gpu.family`."""

_FAMILIES_BY_CAPABILITY = (
    ((12, 0), "blackwell"),
    ((10, 0), "blackwell"),
    ((9, 0), "hopper"),
    ((8, 9), "ada-lovelace"),
    ((8, 0), "ampere"),
    ((7, 5), "turing"),
    ((7, 0), "volta"),
    ((6, 0), "pascal"),
    ((5, 0), "maxwell"),
    ((3, 0), "kepler"),
    ((2, 0), "fermi"),
    ((1, 0), "tesla"),
)
"""Lowest compute capability of each family, for drivers that do not name the architecture."""
_UNDEFINED = "undefined"


def device_labels(ours: Ours) -> dict[str, str]:
    """Everything that describes cards or instances."""
    labels = _card_facts(ours) | _models(ours) | _blocks(ours)
    if ours.invalid:
        return labels | _invalid(ours)
    if ours.by_instance:
        return labels | _instances(ours, ours.instances, "gpu") | {key("gpu", "healthy"): str(_healthy_instances(ours))}
    labels |= _cards(ours)
    if ours.strategy is MigStrategy.MIXED:
        for profile in sorted({str(one.profile) for one in ours.instances}):
            group = tuple(one for one in ours.instances if one.profile == profile)
            labels |= _instances(ours, group, mig_resource(profile).partition("/")[2])
    return labels


def family(gpu: Gpu) -> str:
    """`gpu.family` of one card: what the driver names, else what its compute capability implies."""
    named = None if gpu.architecture is None else FAMILIES.get(gpu.architecture)
    if named is not None:
        return named
    capability = gpu.compute_capability
    if capability is None or capability[0] > _FAMILIES_BY_CAPABILITY[0][0][0]:
        return _UNDEFINED
    return next((name for least, name in _FAMILIES_BY_CAPABILITY if capability >= least), _UNDEFINED)


def _card_facts(ours: Ours) -> dict[str, str]:
    capability = common(
        None if gpu.compute_capability is None else gpu.compute_capability[0] * 1000 + gpu.compute_capability[1]
        for gpu in ours.described
    )
    return {
        key("gpu", "family"): leading(family(gpu) for gpu in ours.described),
        key("gpu", "compute.major"): "" if capability is None else str(capability // 1000),
        key("gpu", "compute.minor"): "" if capability is None else str(capability % 1000),
    }


def _models(ours: Ours) -> dict[str, str]:
    """Counts by model, where there are several."""
    counts = Counter(name for gpu in ours.gpus if (name := spell(gpu.name)))
    if len(counts) < 2:  # noqa: PLR2004 - several
        return {}
    return {key("gpu", "mixed"): "true"} | {key("gpu", name, "count"): str(count) for name, count in counts.items()}


def _blocks(ours: Ours) -> dict[str, str]:
    """How many NVLink domains there are, and how many cards the largest has; a card without links is one by itself."""
    closeness = ours.snapshot.inventory.closeness
    selected = {gpu.uuid for gpu in ours.gpus}
    sizes = Counter(domain for uuid, domain in zip(closeness.uuids, closeness.domain, strict=True) if uuid in selected)
    if not sizes:
        return {}
    return {
        key("gpu", "nvlink-domains"): str(len(sizes)),
        key("gpu", "nvlink-domain.max"): str(max(sizes.values())),
    }


def _cards(ours: Ours) -> dict[str, str]:
    whole = tuple(gpu for gpu in ours.described if not gpu.mig_enabled)
    usage = ours.usage(gpu.uuid for gpu in whole)
    memory = common(gpu.memory for gpu in ours.described)
    return _base("gpu", len(ours.gpus), usage) | {
        key("gpu", "product"): joined(ours.model, usage.suffix),
        key("gpu", "memory"): "" if memory is None else str(memory // _MIB),
        key("gpu", "healthy"): str(ours.healthy((gpu.uuid, gpu.uuid) for gpu in ours.gpus)),
    }


def _invalid(ours: Ours) -> dict[str, str]:
    return _base("gpu", 0, Usage()) | {
        key("gpu", "product"): joined(ours.model, "MIG-INVALID"),
        key("gpu", "memory"): "0",
        key("gpu", "healthy"): "0",
    }


def _instances(ours: Ours, group: Sequence[MigInstance], prefix: str) -> dict[str, str]:
    """The labels of instances of one profile; the values are those of the model that most of them are cut from."""
    names = {gpu.uuid: spell(gpu.name) for gpu in ours.gpus}
    model = leading(names[one.gpu] for one in group)
    alike = [one for one in group if names[one.gpu] == model]
    usage = ours.usage(one.uuid for one in group)
    facts = {
        "memory": common(one.memory_mib for one in alike),
        "multiprocessors": common(one.multiprocessors for one in alike),
        "slices.gi": common(one.gi_slices for one in alike),
        "slices.ci": common(one.ci_slices for one in alike),
        **_engines(alike),
    }
    return _base(prefix, len(group), usage) | {
        key(prefix, "product"): joined(model, "MIG", str(group[0].profile), usage.suffix),
        **{key(prefix, name): str(value) for name, value in facts.items() if value is not None},
    }


def _engines(alike: Sequence[MigInstance]) -> dict[str, int | None]:
    """Engines of an instance; unknown where its attributes could not be read, which leaves the slices unknown too."""
    read = [one.engines for one in alike if one.gi_slices is not None]
    return {
        f"engines.{name}": common(getattr(engines, name) for engines in read)
        for name in ("copy", "decoder", "encoder", "jpeg", "ofa")
    }


def _base(prefix: str, count: int, usage: Usage) -> dict[str, str]:
    return {
        key(prefix, "count"): str(count),
        key(prefix, "replicas"): str(usage.replicas),
        key(prefix, "sharing-strategy"): str(usage.sharing),
    }


def _healthy_instances(ours: Ours) -> int:
    return ours.healthy((one.uuid, one.gpu) for one in ours.instances)
