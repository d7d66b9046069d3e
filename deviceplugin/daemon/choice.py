"""Which of several configurations is in force when a node label chooses: the name last chosen, kept over restarts."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deviceplugin.config.load import Loaded
from deviceplugin.model.errors import ConfigError

log = logging.getLogger(__name__)

NAME = "chosen-config"
_LONGEST = 253

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
        if loaded.config.cluster.config_label and loaded.process.config_dir:
            self.wanted = _remembered(loaded.config.daemon.state_dir)
            if self.wanted:
                try:
                    return self._load(self.wanted)
                except ConfigError as error:
                    log.warning("the configuration %r that the node label chose last: %s", self.wanted, error)
                    self.wanted = ""
        return loaded

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
        self._load("")

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


def _remembered(state_dir: str) -> str:
    if not state_dir:
        return ""
    try:
        with (Path(state_dir) / NAME).open(encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST).strip()
    except OSError:
        return ""
