"""The stage of a walk: one pretend node, the processes on it, and everything seen of them."""

import contextlib
import json
import random
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

import fake_nvml
from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.web.local import ask
from fake_nvml.state import GpuState
from tests.bench.measure import files, rss, threads
from tests.chaos.model import Lists, Piece, Settings, Wounds, books, offered, pieces
from tests.fake_kubelet import Frame
from tests.node import FakeNode, Plugin
from tests.waiting import wait_until

MACHINE = "hgx-h100-8"
RESCAN = 0.3
ARGUMENTS = (
    "--health-quiet-period=100ms",
    "--health-interval=200ms",
    f"--rescan-interval={RESCAN * 1000:g}ms",
    "--vanished-grace=500ms",
    "--fail-on-init-error=false",
)


class ChaosError(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Size:
    """What a process uses."""

    threads: int
    files: int
    tasks: int
    rss: float


@dataclass
class Stretch:
    """From one rest to the next: what was done, and so what may be seen."""

    hardware: list[tuple[Piece, ...]] = field(default_factory=list)
    """After each deed."""
    settings: list[Settings] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    """Cards whose hardware state changed: one change each, so that it is known what the plugin must have seen."""
    shaken: set[str] = field(default_factory=set)
    """Cards that may be unhealthy for a while."""
    restarted: bool = False
    """A plugin's process ended or began: events may have been missed."""
    deaf: bool = False
    """The driver was away: an event that came meanwhile was for nobody."""
    bare: bool = False
    """An event came that no state of the driver repeats."""
    blind: bool = False
    """Queries fail: a process that begins now cannot know everything."""
    hanging: bool = False
    misconfigured: bool = False
    """The file is invalid: a process that begins with it ends with 2, rightly."""

    @property
    def worlds(self) -> list[Lists]:
        """Everything that may have been offered: the plugin may hear of hardware and settings in any order."""
        return [offered(hardware, settings) for hardware in self.hardware for settings in self.settings]


class Scene:
    """Node, driver and plugin under one hand. `rng` is that of the step that runs."""

    def __init__(self, home: Path, seed: int, say: Callable[[str], None]) -> None:
        self.frames: list[tuple[str, Frame]] = []
        arguments = [*ARGUMENTS, f"--config-file={home / 'config.yaml'}"]
        kubelet = {"seed": seed, "on_list": lambda name, frame: self.frames.append((name, frame))}
        self.node = FakeNode(home, MACHINE, arguments, kubelet=kubelet)
        self.kubelet = self.node.kubelet
        self.say = say
        self.rng = random.Random(seed)
        self.settings = Settings()
        self.wounds = Wounds()
        self.stretch = Stretch()
        self.reloads = 0
        self.lives = 0
        """How often the plugin's process was replaced."""
        self.pods = 0
        self.onlookers: list[Onlooker] = []
        self._fake: fake_nvml.Fake | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator["Scene"]:
        """With the plugin running on a healthy node."""
        with self.node, contextlib.ExitStack() as stack:
            stack.callback(self.drop_onlookers)
            self._fake = stack.enter_context(fake_nvml.attach(self.node.root))
            self.node.configure(self.settings.text)
            self.start()
            self.note()
            yield self

    @property
    def fake(self) -> fake_nvml.Fake:
        """The pretend driver's controls."""
        assert self._fake is not None
        return self._fake

    @property
    def plugin(self) -> Plugin:
        """The process that should serve."""
        return self.node.plugin

    @property
    def log(self) -> str:
        """Everything that all plugin processes wrote."""
        return "".join(plugin.log for plugin in self.node.plugins)

    def cards(self, *, calm: bool = True) -> list[GpuState]:
        """All cards, or those that nothing happened to in this stretch."""
        return [one for one in books(self.fake).gpus if not (calm and one.gpu.uuid in self.stretch.touched)]

    def note(self) -> None:
        """Takes down how things are now."""
        hardware = pieces(self.fake, self.wounds)
        if hardware not in self.stretch.hardware:
            self.stretch.hardware.append(hardware)
        if self.settings not in self.stretch.settings:
            self.stretch.settings.append(self.settings)

    @property
    def lists(self) -> Lists:
        """What should be listed when all is quiet."""
        return offered(pieces(self.fake, self.wounds), self.settings)

    def raise_kubelet(self) -> None:
        """Starts the kubelet, unless it runs or a row of restarts is about to start it."""
        with contextlib.suppress(RuntimeError):
            self.kubelet.start()

    def touch(self, one: GpuState) -> None:
        """Something is about to change a card."""
        self.stretch.touched.add(one.gpu.uuid)
        self.stretch.shaken.add(one.gpu.uuid)

    def configure(self, settings: Settings) -> None:
        """Writes a configuration; the plugin notices by itself."""
        self.settings = settings
        self.stretch.misconfigured = False
        self.node.configure(settings.text)

    def start(self) -> None:
        """Starts the plugin."""
        self.stretch.restarted = True
        self.lives += 1
        self.configure(self.settings)
        self.plugin.start()

    def stop(self) -> None:
        """SIGTERM, which must do in reasonable time whatever the driver does."""
        self.configure(self.settings)  # should it be about to take a new driver library
        self.stretch.restarted = True
        code = self.plugin.stop(timeout=15)
        if code not in (0, -signal.SIGTERM):  # a process that is only just born has no handler yet
            raise ChaosError(f"the plugin ended with {code} on SIGTERM")

    def succeed(self) -> None:
        """A rolling update: the newcomer runs beside the old process, which then leaves."""
        old = self.plugin
        self.stretch.restarted = True
        self.lives += 1
        self.configure(self.settings)
        new = self.node.another_plugin()
        new.start()
        with contextlib.suppress(AssertionError):
            new.wait_for_log("registered with the kubelet" if self.kubelet.running else "absent", timeout=3)
        self.node.plugin = new
        old.stop(timeout=15)

    def ask(self, what: str) -> dict[str, Any]:
        """Asks the plugin on its local socket; an empty answer where nobody is there."""
        socket = next(word for word in self.plugin.command if word.startswith("--control-socket=")).partition("=")[2]
        try:
            return ask(socket, {"ask": what})
        except (OSError, json.JSONDecodeError):
            return {}

    def size(self) -> Size | None:
        """What the plugin's process uses; None while it does not say."""
        status = self.ask("status")
        if "plugin" not in status:
            return None
        pid = self.plugin.pid
        return Size(threads(pid), files(pid), status["plugin"]["tasks"], rss(pid))

    def look_on(self, resource: str) -> None:
        """Opens one more stream on the socket that the kubelet knows for a resource."""
        view = self.kubelet.resources.get(resource) if self.kubelet.running else None
        if view is not None and view.endpoint:
            self.onlookers.append(Onlooker(resource, view.endpoint, self.node.kubelet_folder))

    def drop_onlookers(self) -> None:
        """Closes all streams but the kubelet's."""
        while self.onlookers:
            self.onlookers.pop().close()

    def signal_up(self) -> None:
        """SIGHUP, as soon as the process no longer dies of it: Python itself takes a moment to begin."""
        status = Path(f"/proc/{self.plugin.pid}/status")
        wait_until(lambda: _minds_hangups(status.read_text()), what="the process to begin", timeout=10)
        self.plugin.signal(signal.SIGHUP)


def _minds_hangups(status: str) -> bool:
    """Whether SIGHUP is caught or ignored (proc_pid_status(5))."""
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigIgn:", "SigCgt:"))]
    return any(mask & 1 << signal.SIGHUP - 1 for mask in masks)


class Onlooker:
    """A stream beside the kubelet's, and the newest list it showed."""

    def __init__(self, resource: str, endpoint: str, folder: Path) -> None:
        self.resource, self.endpoint = resource, endpoint
        self.ended = False
        self.newest: dict[str, str] | None = None
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(f"unix:{folder / endpoint}", options=options)
        self._call: Any = self._channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            wire.Empty.SerializeToString,
            wire.ListAndWatchResponse.FromString,
        )(wire.Empty())
        self._thread = threading.Thread(target=self._follow, name=f"onlooker-{endpoint}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        with contextlib.suppress(grpc.RpcError, ValueError):
            for frame in self._call:
                self.newest = {device.ID: device.health for device in frame.devices}
        self.ended = True

    def close(self) -> None:
        """Ends the stream."""
        self._call.cancel()
        self._channel.close()
        self._thread.join()
