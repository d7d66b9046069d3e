"""The document as the rules read it: full resource names, each strategy once, defaults that hang on other values."""

from __future__ import annotations

from msgspec import structs

from deviceplugin.config.document import Config, Devices, Pattern, Replicated, Resources, SharingSection
from deviceplugin.config.names import qualify


def normalise(config: Config) -> Config:
    """Completes names with NVIDIA's domain, makes numbers of indices, fills in what depends on other values."""
    flags = config.flags
    plugin = structs.replace(flags.plugin, device_list_strategy=tuple(dict.fromkeys(flags.plugin.device_list_strategy)))
    return structs.replace(
        config,
        flags=structs.replace(flags, plugin=plugin, nvidia_dev_root=flags.nvidia_dev_root or flags.nvidia_driver_root),
        resources=Resources(
            gpus=tuple(map(_pattern, config.resources.gpus)), mig=tuple(map(_pattern, config.resources.mig))
        ),
        devices=Devices(include=_indices(config.devices.include), exclude=_indices(config.devices.exclude)),
        sharing=SharingSection(
            time_slicing=_replicated(config.sharing.time_slicing, fail=False),
            mps=_replicated(config.sharing.mps, fail=True),
        ),
    )


def _pattern(pattern: Pattern) -> Pattern:
    return structs.replace(pattern, name=qualify(pattern.name)) if pattern.name else pattern


def _replicated(block: Replicated | None, *, fail: bool) -> Replicated | None:
    if block is None:
        return None
    stated = block.fail_requests_greater_than_one
    return structs.replace(
        block,
        fail_requests_greater_than_one=fail if stated is None else stated,
        resources=tuple(
            structs.replace(
                entry,
                name=qualify(entry.name),
                rename=qualify(entry.rename) if entry.rename else None,
                devices=_indices(entry.devices) if isinstance(entry.devices, tuple) else entry.devices,
            )
            for entry in block.resources
        ),
    )


def _indices(words: tuple[str | int, ...]) -> tuple[str | int, ...]:
    return tuple(int(word) if isinstance(word, str) and word.isdecimal() else word for word in words)
