"""Which file is read: the one that is named, or one of several in a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deviceplugin.config.document import Cluster, Fallback, ProcessOptions
from deviceplugin.config.wording import nearest
from deviceplugin.model.errors import ConfigError

NAMED = "default"
"""The configuration that the fallback `named` means."""

_ENDINGS = ("", ".yaml", ".yml", ".json")


def pick(process: ProcessOptions, cluster: Cluster, names: Callable[[str], Sequence[str]]) -> str | None:
    """The path of the file to read; None where defaults hold.

    Raises:
        ConfigError: Both ways are taken at once, or the folder does not have the one that is named.
    """
    if process.config_file and process.config_dir:
        raise ConfigError(
            f"--config-file {process.config_file} and --config-dir {process.config_dir} are both given; drop one"
        )
    if not process.config_dir:
        if process.config_name:
            raise ConfigError(f"--config-name {process.config_name} needs --config-dir, the folder to find it in")
        return process.config_file or None
    try:
        known = names(process.config_dir)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"--config-dir {process.config_dir}: {reason}; mount the folder there") from error
    name = process.config_name or cluster.default_config
    if name:
        return f"{process.config_dir}/{_find(name, known, process.config_dir)}"
    return _fall_back(process.config_dir, cluster.fallback, known)


def _find(name: str, known: Sequence[str], folder: str) -> str:
    for ending in _ENDINGS:
        if name + ending in known:
            return name + ending
    near = nearest(name, list(known))
    hint = f"did you mean {near}?" if near else f"there are: {', '.join(known) or 'none'}"
    raise ConfigError(f"--config-name {name}: no such configuration in {folder}; {hint}")


def _fall_back(folder: str, order: Sequence[Fallback], known: Sequence[str]) -> str | None:
    for fallback in order:
        if fallback is Fallback.EMPTY:
            return None
        if fallback is Fallback.SINGLE and len(known) == 1:
            return f"{folder}/{known[0]}"
        if fallback is Fallback.NAMED:
            for ending in _ENDINGS:
                if NAMED + ending in known:
                    return f"{folder}/{NAMED}{ending}"
    tried = ", ".join(order) or "none"
    raise ConfigError(
        f"--config-dir {folder}: no --config-name is given and no fallback ({tried}) applies; "
        f"there are: {', '.join(known) or 'none'}"
    )
