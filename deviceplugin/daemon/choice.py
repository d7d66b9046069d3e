"""Which of several configurations is in force when a node label chooses: the name last chosen, kept over restarts."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deviceplugin.config.load import Loaded
from deviceplugin.config.names import CONFIG_LABEL
from deviceplugin.model.errors import ClusterError, ConfigError

log = logging.getLogger(__name__)

NAME = "chosen-config"
_LONGEST = 253

Ask = Callable[[str], str]
"""Reads that label of the node of this name; empty where it has none. Raises `ClusterError`."""

Load = Callable[[str], Loaded]
"""Loads the configuration of that name; of none for the empty name, so that flags and fallbacks decide."""


class Choice:
    """The name chosen by the label.

    Args:
        load: Loads a configuration by name.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self.wanted = ""

    def begin(self, loaded: Loaded) -> Loaded:
        """What to start with: what the label chose before the restart, if it still loads; else `loaded`."""
        if by_label(loaded):
            return self.try_(_remembered(loaded.config.daemon.state_dir), "last") or loaded
        return loaded

    def begin_without(self, alone: Loaded, ask: Ask, why: ConfigError) -> Loaded:
        """What to start with where nothing loads unless a label chooses it: the last choice, or the node is asked.

        Args:
            alone: Flags and variables alone.
            ask: Reads the label.
            why: What is wrong with the configuration of a node without the label.

        Raises:
            ConfigError: The label does not choose, or not a configuration that loads.
        """
        if not by_label(alone):
            raise why
        found = self.try_(_remembered(alone.config.daemon.state_dir), "last")
        if found is not None:
            return found
        try:
            name = ask(alone.config.cluster.node_name)
        except ClusterError as error:
            raise ConfigError(*why.problems, f"nor can the node's label {CONFIG_LABEL} be read: {error}") from why
        if not name:
            raise ConfigError(*why.problems, f"nor has the node a label {CONFIG_LABEL} to choose one") from why
        self.wanted = name
        log.warning("only the configuration %r of the node's label holds here: %s", name, why)
        return self._load(name)

    def try_(self, name: str, when: str) -> Loaded | None:
        """The configuration of that name, which is wanted from now on; None, and a warning, where it does not load."""
        if not name:
            return None
        try:
            found = self._load(name)
        except ConfigError as error:
            log.warning("the configuration %r that the node label chose %s: %s", name, when, error)
            return None
        self.wanted = name
        return found

    def load(self) -> Loaded:
        """Loads what is chosen now.

        Raises:
            ConfigError: It does not exist or is wrong.
        """
        return self._load(self.wanted)

    def check_start(self) -> None:
        """Loads what a fresh process would begin with.

        Raises:
            ConfigError: It would end at once.
        """
        try:
            self._load("")
        except ConfigError:
            if not self.wanted:
                raise
            self._load(self.wanted)

    def took(self, state_dir: str) -> None:
        """Notes what was taken into force, for the next start; without a writable folder the label is waited for."""
        if not state_dir:
            return
        path = Path(state_dir) / NAME
        with suppress(OSError):
            if _remembered(state_dir) != self.wanted:
                path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                fresh = path.with_name(f".{NAME}.{os.getpid()}")
                fresh.write_text(f"{self.wanted}\n")
                fresh.replace(path)


def by_label(loaded: Loaded) -> bool:
    """Whether a node label chooses among several configurations."""
    return loaded.config.cluster.config_label and bool(loaded.process.config_dir)


def _remembered(state_dir: str) -> str:
    if not state_dir:
        return ""
    try:
        with (Path(state_dir) / NAME).open(encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST).strip()
    except OSError:
        return ""
