"""The program nvidia-cuda-mps-control: as a daemon of one pipe folder, and as the client that talks to it.

Source: NVIDIA Multi-Process Service, "nvidia-cuda-mps-control": a client reads commands from its standard input.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from deviceplugin.model.errors import MpsError

PROGRAM = "nvidia-cuda-mps-control"
FOLDERS = ("usr/bin", "usr/local/nvidia/bin", "usr/local/bin", "opt/nvidia/bin", "run/current-system/sw/bin")
"""Where drivers put it, below their root."""
PATIENCE = 5.0
"""Seconds that a client may take."""
_NOBODY = "Cannot find MPS control daemon"


def find_program(driver_root: str) -> str:
    """The program's path: on PATH, where a container runtime puts it, or below the driver root as it is seen here.

    Raises:
        MpsError: It is in none of these places.
    """
    if found := shutil.which(PROGRAM):
        return found
    for folder in FOLDERS:
        path = Path(driver_root, folder, PROGRAM)
        if os.access(path, os.X_OK):
            return str(path)
    raise MpsError(
        f"{PROGRAM} is neither on PATH nor below {driver_root}; set NVIDIA_DRIVER_CAPABILITIES=compute,utility on this "
        "container, or mount the driver's root and name it by --container-driver-root"
    )


class Control(Struct, frozen=True):
    """One daemon: the program, and the folder that holds its `pipe` and `log`."""

    program: str
    folder: Path

    def ask(self, *commands: str) -> str:
        """What the daemon answers to these commands.

        Raises:
            MpsError: There is none, or it does not answer in time.
        """
        try:
            done = subprocess.run(  # noqa: S603 - a program of a fixed name
                [self.program],
                input="".join(f"{command}\n" for command in commands),
                env=self._environment(),
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise MpsError(f"{PROGRAM} did not answer {commands[0]!r} within {PATIENCE:g} s") from error
        except OSError as error:
            raise MpsError(f"{self.program} cannot be run: {error.strerror}") from error
        said = (done.stdout + done.stderr).strip()
        if done.returncode or _NOBODY in said:
            raise MpsError(f"{PROGRAM} says: {said or f'exit code {done.returncode}'}")
        return done.stdout.strip()

    def thread_percentage(self) -> float:
        """The default thread percentage: the question by which a daemon shows that it lives.

        Raises:
            MpsError: It does not, or answers something else.
        """
        answer = self.ask("get_default_active_thread_percentage")
        try:
            return float(answer)
        except ValueError as error:
            raise MpsError(f"{PROGRAM} answered {answer!r} where a percentage was asked for") from error

    def servers(self) -> Sequence[int]:
        """Process ids of the servers that it has begun."""
        return [int(word) for word in self.ask("get_server_list").split() if word.isdecimal()]

    def start(self) -> subprocess.Popen[bytes]:
        """A daemon in the foreground of a process of its own.

        Raises:
            MpsError: It cannot be run, or its folders cannot be made.
        """
        try:
            for name in ("pipe", "log"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            return subprocess.Popen(  # noqa: S603 - as above
                [self.program, "-f"], env=self._environment(), stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise MpsError(f"{error.filename or self.program}: {error.strerror}") from error

    def _environment(self) -> dict[str, str]:
        # Indices in the daemon's commands are to be the driver's, which CUDA's own order, fastest first, is not.
        return {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log"),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        }
