"""The MPS control daemons of a node, one for each resource that is shared by MPS: the work of `gpu-device-plugin mps`.

Everything here blocks, on one thread: each round looks at configuration, cards and daemons, and mends what differs.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from deviceplugin.config.load import Loaded
from deviceplugin.daemon.choice import NAME
from deviceplugin.model.errors import ConfigError, MpsError, NvmlError
from deviceplugin.model.inventory import Inventory
from deviceplugin.model.mps import MpsPlan
from deviceplugin.model.node import DriverState, Node
from deviceplugin.mps import places, ready
from deviceplugin.mps.control import Control, find_program
from deviceplugin.mps.keeper import Keeper
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.modes import DEFAULT, EXCLUSIVE, set_compute_mode
from deviceplugin.rules.allocate.nodes import dev_root_here
from deviceplugin.rules.confirm import plans
from deviceplugin.rules.offer import offer
from deviceplugin.rules.offer.handover import compile_handover, seen_from_here

log = logging.getLogger(__name__)

ROUND = 0.5
"""Seconds between two looks at the daemons and at the configuration file."""


class Keepers:
    """Keeps the control daemons in step with configuration and cards.

    Args:
        load: Loads the configuration anew.
        driver: NVML, or a pretend one; it is held only while cards are looked at, so that they can be reset.
    """

    def __init__(self, load: Callable[[], Loaded], driver: Driver) -> None:
        self._load = load
        self._driver = driver
        self._loaded = load()
        self._stamp = self._signature()
        self._node = Node()
        self._plans: Mapping[str, MpsPlan] = {}
        self._keepers: dict[str, Keeper] = {}
        self._exclusive: frozenset[str] = frozenset()
        self._places: places.Places | None = None
        self._scan_at = 0.0
        self._said = ""

    def run(self, ended: threading.Event, again: threading.Event) -> None:
        """Until `ended` is set; `again` asks for configuration and cards to be looked at now.

        Raises:
            ConfigError: The configuration does not fit this node at start.
            NvmlError: The driver cannot be used at start, and failOnInitError is true.
        """
        try:
            self._begin()
            while not ended.is_set():
                self._round(asked=again.is_set())
                again.clear()
                again.wait(ROUND)
        finally:
            self._end()

    def _begin(self) -> None:
        self._scan()
        if self._node.state is not DriverState.READY and self._loaded.config.flags.fail_on_init_error:
            raise NvmlError(f"{self._node.detail}; to wait for the driver instead, set --fail-on-init-error=false")
        self._plan(self._loaded)

    def _round(self, *, asked: bool) -> None:
        signature = self._signature()
        if asked or signature != self._stamp:
            self._stamp = signature
            self._reload()
        if asked or time.monotonic() >= self._scan_at:
            self._scan()
            with suppress(ConfigError):
                self._plan(self._loaded)
        for name, plan in self._plans.items():
            self._keep(name, plan)

    def _scan(self) -> None:
        config = self._loaded.config
        dev_root = dev_root_here(compile_handover(config, self._driver.host_root), os.path.exists)
        previous = None if self._node.state is DriverState.STARTING else self._node
        self._node = self._driver.scan(previous, dev_root=dev_root)
        with suppress(NvmlError):
            self._driver.shutdown()
        self._scan_at = time.monotonic() + config.daemon.rescan_interval

    def _reload(self) -> None:
        try:
            loaded = self._load()
            self._plan(loaded)
        except ConfigError as error:
            for problem in error.problems:
                self._say(f"configuration refused, the present one stays in force: {problem}")

    def _plan(self, loaded: Loaded) -> None:
        """Takes over what a configuration asks of this node; a node that cannot be scanned changes nothing.

        Raises:
            ConfigError: The configuration does not fit this node.
        """
        if self._node.state is not DriverState.READY:
            self._loaded = loaded
            self._say(f"the driver cannot be used, looking again: {self._node.detail or self._node.state}")
            return
        inventory = offer(self._node, loaded.config, self._driver.host_root)
        if inventory.conflicts:
            raise ConfigError(*map(loaded.placed, inventory.conflicts))
        root = places.find(loaded.config.flags.mps_root, self._driver.host_root)
        if root != self._places:
            self._stop(self._keepers)
            self._places = root
            ready.forget_all(root.root)
        self._loaded = loaded
        self._take(inventory)

    def _take(self, inventory: Inventory) -> None:
        wanted = plans(inventory)
        self._stop(self._keepers.keys() - wanted.keys())
        self._plans = wanted
        if not wanted:
            self._say("no resource of this node is shared by MPS: idle, and following the configuration")
        self._lock(frozenset(device.uuid for plan in wanted.values() for device in plan.devices))

    def _lock(self, uuids: frozenset[str]) -> None:
        """One process per card, which is to be the server of MPS; cards that are shared no more are open again."""
        self._set(self._exclusive - uuids, DEFAULT)
        self._exclusive = uuids
        self._set(uuids, EXCLUSIVE)

    def _set(self, uuids: Iterable[str], mode: int) -> None:
        try:
            set_compute_mode(self._driver, sorted(uuids), mode)
        except NvmlError as error:
            self._say(str(error))
        with suppress(NvmlError):
            self._driver.shutdown()

    def _keep(self, name: str, plan: MpsPlan) -> None:
        config = self._loaded.config
        root = self._places or places.find(config.flags.mps_root, self._driver.host_root)
        try:
            root.shm.mkdir(parents=True, exist_ok=True)
            if name not in self._keepers:
                driver_root = seen_from_here(config.flags.nvidia_driver_root, config, self._driver.host_root)
                self._keepers[name] = Keeper(name, Control(find_program(driver_root), root.of(name)))
        except OSError as error:
            self._say(f"{error.filename}: {error.strerror}; mount the host's {root.host} at /mps, writable")
        except MpsError as error:
            self._say(str(error))
        else:
            self._keepers[name].follow(plan, self._loaded.stamp.hash)

    def _stop(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            self._keepers.pop(name).stop()

    def _end(self) -> None:
        self._stop(self._keepers)
        self._lock(frozenset())

    def _signature(self) -> tuple[object, ...]:
        """What tells that the configuration's file is another: a ConfigMap's changes through a link."""
        process = self._loaded.process
        chosen = os.path.join(self._loaded.config.daemon.state_dir, NAME)  # noqa: PTH118 - to be looked at twice a second
        return tuple(map(_stamp, (process.config_file, process.config_dir, self._loaded.stamp.source, chosen)))

    def _say(self, sentence: str) -> None:
        """Logs a state once, when it begins."""
        if sentence != self._said:
            log.warning("%s", sentence)
        self._said = sentence


def _stamp(path: str) -> object:
    try:
        stat = os.stat(path)  # noqa: PTH116 - a path is all there is to ask
    except OSError:
        return None
    return (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
