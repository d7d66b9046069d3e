"""A pretend node whose driver has an MPS control program, with `gpu-device-plugin mps` beside the plugin."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.fake_mps import FakeMps
from tests.node import FakeNode, Plugin

ROOT = "/run/nvidia/mps"


class MpsNode(FakeNode):
    """`mps` is the program that keeps control daemons, not started; `control_program` what it finds on PATH."""

    def __init__(self, home: Path, machine: str = "hgx-h100-8", environment: Mapping[str, str] | None = None) -> None:
        self.control_program = FakeMps(home / "bin")
        path = {"PATH": f"{self.control_program.folder}:{os.environ['PATH']}"}
        super().__init__(home, machine, [f"--config-file={home / 'config.yaml'}"], {**path, **(environment or {})})
        self.mps = self.keeper()

    @property
    def mps_root(self) -> Path:
        """mpsRoot as the host has it."""
        return self.root / ROOT.lstrip("/")

    def keeper(self, *more: str) -> Plugin:
        """The process of `gpu-device-plugin mps`, not started."""
        command = [sys.executable, "-m", "deviceplugin", "mps", f"--driver=fake:{self.machine}"]
        return Plugin([*command, f"--config-file={self.config_file}", *more], self.environment, self.home / "mps.log")

    def share(self, replicas: int, resources: Sequence[str] = ("nvidia.com/gpu",), **more: object) -> None:
        """Writes a configuration that shares these by MPS."""
        extra = "".join(f", {key}: {value}" for key, value in more.items())
        entries = ", ".join(f"{{name: {name}, replicas: {replicas}{extra}}}" for name in resources)
        self.configure(f"flags: {{mpsRoot: {ROOT}}}\nsharing: {{mps: {{resources: [{entries}]}}}}\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.mps.process is not None:
            self.mps.stop()
        super().__exit__(kind, error, trace)
