"""A whole pretend GPU node: a folder with a driver, a kubelet and the plugin as its own process.

with FakeNode(tmp_path, "hgx-h100-8") as node:
    node.plugin.start()
    node.kubelet.wait_for("nvidia.com/gpu", healthy=8)
    node.control("xid", "3", "79")
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import fake_nvml
from tests.fake_kubelet import FakeKubelet
from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
GPU = "nvidia.com/gpu"


class Plugin:
    """The plugin's process. Its log is read from a file, so that a full pipe never holds it up."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.command = list(command)
        self.environment = dict(environment)
        self.log_file = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> Self:
        """Starts it with further arguments."""
        assert self.process is None or self.process.poll() is not None, "the plugin runs already"
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, *more],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
            )
        return self

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the last start."""
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        """Everything it wrote, over all its lives."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        os.kill(self.pid, number)

    def stop(self, timeout: float = 10) -> int:
        """SIGTERM, and the exit code."""
        if self.running:
            self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout: float = 10) -> int:
        """Waits for its end; the exit code."""
        assert self.process is not None
        return self.process.wait(timeout)

    def kill(self) -> None:
        """kill -9."""
        if self.running:
            self.signal(signal.SIGKILL)
            self.wait()

    def restart(self, *more: str) -> None:
        """SIGTERM and a new start."""
        self.stop()
        self.start(*more)

    def wait_for_log(self, text: str, timeout: float = 10, count: int = 1) -> None:
        """Waits until the log holds `text` at least `count` times."""
        wait_until(lambda: self.log.count(text) >= count, timeout=timeout, what=f"{text!r} in the log\n{self.log}")


class FakeNode:
    """Driver root, kubelet and plugin of one pretend node under one folder."""

    def __init__(
        self,
        home: Path,
        machine: str = "hgx-h100-8",
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        kubelet: Mapping[str, Any] | None = None,
    ) -> None:
        # Unix socket paths end at 107 bytes, and pytest's folders are long: sockets live in a short one.
        self.short = Path(tempfile.mkdtemp(prefix="gdp"))
        self.home = home
        self.root = home / "host"
        self.machine = machine
        self.kubelet_folder = self.short / "dp"
        self.kubelet_folder.mkdir(mode=0o750)
        self.pod_resources = self.short / "pr" / "kubelet.sock"
        self.pod_resources.parent.mkdir()
        self.plugins_registry = self.short / "reg"
        self.plugins_registry.mkdir()
        self.cdi_folder = home / "cdi"
        self.labels_file = home / "features.d" / "gfd"
        self.config_file = home / "config.yaml"
        self.kubelet = FakeKubelet(
            self.kubelet_folder,
            pod_resources=self.pod_resources,
            plugins_registry=self.plugins_registry,
            **(kubelet or {}),
        )
        self.arguments = list(arguments)
        self.environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("NVIDIA_", "DP_")) and key not in {"CONFIG_FILE", "KUBELET_SOCKET"}
        } | {"FAKE_NVML_ROOT": str(self.root), "PYTHONUNBUFFERED": "1", **(environment or {})}
        self.plugins: list[Plugin] = []
        self.plugin = self.another_plugin()

    def another_plugin(self, *more: str, name: str = "") -> Plugin:
        """A further plugin process on this node (a rolling update), not started."""
        number = len(self.plugins)
        suffix = name or (str(number) if number else "")
        command = [
            sys.executable,
            "-m",
            "deviceplugin",
            "serve",
            f"--driver=fake:{self.machine}",
            f"--kubelet-socket={self.kubelet_folder / 'kubelet.sock'}",
            f"--pod-resources-socket={self.pod_resources}",
            f"--plugins-registry={self.plugins_registry}",
            f"--control-socket={self.control_socket(suffix)}",
            f"--state-dir={self.home / 'state'}",
            f"--cdi-folder={self.cdi_folder}",
            f"--output-file={self.labels_file}",
            "--metrics-address=",
            *self.arguments,
            *more,
        ]
        plugin = Plugin(command, self.environment, self.home / f"plugin{suffix}.log")
        self.plugins.append(plugin)
        return plugin

    def control_socket(self, suffix: str = "") -> Path:
        """Where the plugin answers the `health`, `status` and `release` subcommands."""
        return self.short / f"ctl{suffix}.sock"

    def configure(self, text: str) -> Path:
        """Writes the configuration file (the plugin must have been given `--config-file`)."""
        fresh = self.config_file.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self.config_file)
        return self.config_file

    def control(self, *words: str) -> str:
        """Changes the pretend driver from outside, as `python -m fake_nvml.control` does."""
        return self.run([sys.executable, "-m", "fake_nvml.control", *words]).stdout

    def command(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """A subcommand of the plugin's command line on this node."""
        return self.run([sys.executable, "-m", "deviceplugin", *words], check=check)

    def run(self, words: Sequence[str], *, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """A command on this node; its output in the error when it fails."""
        done = subprocess.run(
            words,
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def health(self, resource: str = GPU) -> tuple[frozenset[str], frozenset[str]]:
        """Healthy and unhealthy ids as the kubelet knows them; both empty while it does not know the resource."""
        view = self.kubelet.resources.get(resource)
        return (view.healthy, view.unhealthy) if view else (frozenset(), frozenset())

    def wait_healthy(self, count: int, unhealthy: int = 0, resource: str = GPU, timeout: float = 10) -> None:
        """Waits until the kubelet counts so many healthy and unhealthy devices."""
        try:
            wait_until(
                lambda: tuple(map(len, self.health(resource))) == (count, unhealthy),
                timeout=timeout,
                what=f"{count} healthy and {unhealthy} unhealthy {resource}",
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\nseen: {self.health(resource)}\n{self.plugin.log}") from None

    def status(self) -> dict[str, Any]:
        """The plugin's status document."""
        return dict(json.loads(self.command("status", "--json", f"--control-socket={self.control_socket()}").stdout))

    def __enter__(self) -> Self:
        # The machine is there before the plugin is, so that faults can be laid before it starts.
        fake_nvml.open(self.machine, self.root).close()
        self.kubelet.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for plugin in self.plugins:
            plugin.kill()
        self.kubelet.stop()
        shutil.rmtree(self.short, ignore_errors=True)
