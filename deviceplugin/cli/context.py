"""What every subcommand shares: the loaded configuration, the driver, and the snapshot they give."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from deviceplugin.model.errors import ConfigError

if TYPE_CHECKING:
    from deviceplugin.config.document import ProcessOptions
    from deviceplugin.config.load import Loaded
    from deviceplugin.model.inventory import Inventory
    from deviceplugin.model.node import Node
    from deviceplugin.model.snapshot import Snapshot
    from deviceplugin.model.vitals import Reading
    from deviceplugin.nvml.library import Driver

NVML, FAKE = "nvml", "fake:"
HANGING = 5.0
"""Seconds of waiting for the driver after which a one-shot command says so."""


class Context:
    """Settings from argv and environment, loaded when they are first asked for."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._stack = ExitStack()
        self._driver: str | None = None
        self._topo: str | None = None
        """What `--topo` named, for which the driver stands."""
        self.host_root = "/"
        """Where the last scan saw the host's /sys, /proc and /dev."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @cached_property
    def loaded(self) -> Loaded:
        """The effective configuration."""
        return self.load()

    def load(self, name: str = "") -> Loaded:
        """Reads the configuration anew: flags and environment as they were at start, the file as it is now.

        Args:
            name: Which of --config-dir, over --config-name.
        """
        from deviceplugin.config import load, options

        chosen = {"--config-name": name} if name else {}
        return load.load({**options.given(self._arguments), **chosen}, os.environ)

    @cached_property
    def process(self) -> ProcessOptions:
        """What concerns the process and is in no file; also where the file does not load.

        Raises:
            ConfigError: A flag or variable is wrong; what is wrong with the file is said too.
        """
        try:
            return self.load_alone().process
        except ConfigError:
            self.load()
            raise

    def load_alone(self) -> Loaded:
        """Flags and environment without any file."""
        from deviceplugin.config import load, options

        return load.load(options.given(self._arguments), os.environ, alone=True)

    def open_driver(self) -> Driver:
        """The driver that `--driver` names, not yet initialised: NVML, or a pretend one loaded by name."""
        from deviceplugin.nvml.library import Driver, open_driver

        process, flags = self.loaded.process, self.loaded.config.flags
        driver = process.driver if self._driver is None else self._driver
        if driver not in {"", NVML} and not driver.startswith(FAKE):
            where = self.loaded.sources["driver"].where
            raise ConfigError(f"{where}: {driver!r} is no driver; write nvml, or fake:<machine or .topo file>")
        if not driver.startswith(FAKE):
            return open_driver(process.nvml_library, flags.plugin.container_driver_root, process.host_root)
        spec = driver.removeprefix(FAKE)
        fake = _open_fake(spec) if self._topo is None else _open_fake(spec, f"--topo {self._topo}", f"{spec}: ")
        self._stack.callback(fake.close)
        return Driver(fake.nvml, str(fake.root))

    def pretend(self, topo: str) -> None:
        """Makes the machine of an `nvidia-smi topo -m` text the driver; `-` is standard input.

        Raises:
            ConfigError: the file cannot be read.
        """
        folder = self._stack.enter_context(TemporaryDirectory())
        try:
            text = sys.stdin.read() if topo == "-" else Path(topo).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--topo {topo}: {getattr(error, 'strerror', None) or 'not a text file'}") from error
        copy = Path(folder, "standard-input.topo" if topo == "-" else f"{Path(topo).stem.partition('?')[0]}.topo")
        copy.write_text(text)
        self._driver, self._topo = f"{FAKE}{copy}", topo

    def probe(self) -> Node:
        """One scan of the node; its state says how far the driver could be reached."""
        return self._look()[0]

    def snapshot(self, *, cdi: bool = True) -> Snapshot:
        """What this node would offer under this configuration; health is not judged.

        Args:
            cdi: Also look whether CDI can hand the devices over, for which the driver's files must be in sight.
        """
        return self._offered(self.probe(), cdi=cdi)

    def judged(self) -> Snapshot:
        """The same, with health as the driver shows it now: what events told a running plugin is not known here."""
        import time

        from msgspec.structs import replace

        from deviceplugin.rules.judge import health, judge, start

        node, readings = self._look(states=True)
        policy, now = self.loaded.config.health, time.time()
        state = start(node, policy, (), now=now)
        for reading in readings:
            state = judge(state, reading, policy, now).state
        return replace(self._offered(node), health=health(state))

    def _look(self, *, states: bool = False) -> tuple[Node, tuple[Reading, ...]]:
        from deviceplugin.model.errors import NvmlError
        from deviceplugin.nvml.vitals import Vitals
        from deviceplugin.rules.allocate.nodes import dev_root_here
        from deviceplugin.rules.offer.handover import compile_handover

        driver = self.open_driver()
        self.host_root = driver.host_root
        config = self.loaded.config
        dev_root = dev_root_here(compile_handover(config, driver.host_root), os.path.exists)
        with _told_when_it_hangs():
            node = driver.scan(dev_root=dev_root, machine_type_file=config.flags.gfd.machine_type_file)
            readings: tuple[Reading, ...] = ()
            with suppress(NvmlError):
                if states:
                    readings = Vitals(driver).read_states(node)
                driver.shutdown()
        return node, readings

    def _offered(self, node: Node, *, cdi: bool = True) -> Snapshot:
        from deviceplugin.model.snapshot import Snapshot
        from deviceplugin.rules.offer import offer
        from deviceplugin.rules.offer.reach import names_by_cdi

        inventory = offer(node, self.loaded.config, self.host_root)
        if inventory.conflicts:
            raise ConfigError(*map(self.loaded.placed, inventory.conflicts))
        if cdi and names_by_cdi(self.loaded.config):
            inventory = self._by_cdi(node, inventory)
        return Snapshot(node=node, inventory=inventory, config=self.loaded.stamp)

    def _by_cdi(self, node: Node, inventory: Inventory) -> Inventory:
        from msgspec.structs import replace

        from deviceplugin.files.cdi import CdiFolder
        from deviceplugin.rules.offer import withhold

        upkeep = CdiFolder().examine(node, self.loaded.config, self.host_root)
        return withhold(replace(inventory, warnings=inventory.warnings + upkeep.warnings), upkeep.left_out)


@contextmanager
def _told_when_it_hangs() -> Iterator[None]:
    """A call of a driver that hangs cannot be broken off; whoever waits for it is told what for."""
    from threading import Timer

    words = (
        f"still waiting for the driver, which has not answered for {HANGING:g} s: see whether `nvidia-smi` answers on "
        "this node, and the kernel log; Ctrl-\\ ends this command"
    )
    timer = Timer(HANGING, lambda: print(words, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _open_fake(spec: str, given: str = "", aside: str = "") -> Any:
    """Opens a pretend machine.

    Args:
        spec: Which.
        given: How whoever typed the command named it, where not by --driver.
        aside: Beginning of its complaint that means nothing to them.

    Raises:
        ConfigError: It cannot be opened.
    """
    from importlib import import_module

    given = given or f"--driver {FAKE}{spec}"
    try:
        fake_nvml = import_module("fake_nvml")
    except ImportError as error:
        raise ConfigError(f"{given}: the package fake_nvml is not installed beside deviceplugin") from error
    try:
        return fake_nvml.open(spec)
    except (ValueError, OSError) as error:
        raise ConfigError(f"{given}: {str(error).removeprefix(aside)}") from error
