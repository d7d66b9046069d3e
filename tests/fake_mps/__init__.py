"""A pretend nvidia-cuda-mps-control: daemon and client of one pipe folder, with the prompt that the real one speaks."""

import json
import shlex
import sys
from pathlib import Path

NAME = "nvidia-cuda-mps-control"
PROGRAM = Path(__file__).with_name("program.py")


class FakeMps:
    """The program in a folder of its own, for PATH. What it was told is in `told`, what it should do in `behave`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._journal = folder / "journal"
        self._behaviour = folder / "behaviour.json"
        self.program = folder / NAME
        self.program.write_text(
            f'#!/bin/sh\nFAKE_MPS={shlex.quote(str(folder))} exec {shlex.quote(sys.executable)} -S {PROGRAM} "$@"\n'
        )
        self.program.chmod(0o755)

    def told(self, resource: str = "nvidia.com/gpu") -> list[str]:
        """The commands that daemons of this resource were given, oldest first; `start` where one began."""
        if not self._journal.exists():
            return []
        lines = [json.loads(line) for line in self._journal.read_text().splitlines()]
        return [line["command"] for line in lines if line["folder"].endswith(f"/{resource}/pipe")]

    def orders(self, resource: str = "nvidia.com/gpu") -> list[str]:
        """The same without questions."""
        return [command for command in self.told(resource) if not command.startswith("get_")]

    def behave(self, **behaviour: object) -> None:
        """`refuse`: a daemon ends at once; `mute`: clients hang; `percentage`: what it insists on."""
        self._behaviour.write_text(json.dumps(behaviour))

    def pid(self, root: Path, resource: str = "nvidia.com/gpu") -> int:
        """Process id of the daemon."""
        return int((root / resource / "pipe" / f"{NAME}.pid").read_text())
