"""The program itself. Run with the pipe folder in CUDA_MPS_PIPE_DIRECTORY, `-f` or `-d` for a daemon."""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

HOME = Path(os.environ["FAKE_MPS"])
FOLDER = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
SOCKET = "control"


def behaviour() -> dict[str, Any]:
    try:
        return dict(json.loads((HOME / "behaviour.json").read_text()))
    except OSError:
        return {}


def note(command: str) -> None:
    with (HOME / "journal").open("a") as journal:
        journal.write(json.dumps({"folder": FOLDER, "command": command}) + "\n")


class Daemon:
    def __init__(self) -> None:
        self.percentage = 100.0
        self.limits: dict[str, str] = {}
        self.servers: list[int] = []
        self.open = True

    def answer(self, command: str) -> str:
        word, *rest = command.split()
        handler = getattr(self, word, None)
        return handler(*rest) if handler else f"Unknown command {word}"

    def get_default_active_thread_percentage(self) -> str:
        return str(behaviour().get("percentage", self.percentage))

    def set_default_active_thread_percentage(self, value: str) -> str:
        self.percentage = float(value)
        return str(self.percentage)

    def set_default_device_pinned_mem_limit(self, device: str, value: str) -> str:
        self.limits[device] = value
        return ""

    def get_default_device_pinned_mem_limit(self, device: str) -> str:
        return self.limits.get(device, "")

    def set_active_thread_percentage(self, server: str, value: str) -> str:
        return str(float(value)) if int(server) in self.servers else f"Server {server} not found"

    def set_device_pinned_mem_limit(self, server: str, _device: str, _value: str) -> str:
        return "" if int(server) in self.servers else f"Server {server} not found"

    def start_server(self, _flag: str, user: str) -> str:
        self.servers.append(10000 + int(user))
        return ""

    def get_server_list(self) -> str:
        return "\n".join(map(str, self.servers))

    def quit(self, *_timeout: str) -> str:
        self.open = False
        return ""

    def serve(self) -> int:
        os.chdir(FOLDER)
        if reachable():
            print("An instance of this daemon is already running")
            return 1
        Path(SOCKET).unlink(missing_ok=True)
        note("start")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(SOCKET)
            listener.listen()
            Path("nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
            while self.open:
                connection, _ = listener.accept()
                with connection, connection.makefile("rw") as stream:
                    for line in stream:
                        note(line.strip())
                        stream.write(f"{self.answer(line.strip())}\n\0\n")
                        stream.flush()
        Path(SOCKET).unlink(missing_ok=True)
        return 0


def reachable() -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(SOCKET)
    except OSError:
        return False
    return True


def client() -> int:
    if behaviour().get("mute"):
        signal.pause()
    try:
        os.chdir(FOLDER)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(SOCKET)
    except OSError:
        print("Cannot find MPS control daemon process", file=sys.stderr)
        return 1
    with connection, connection.makefile("rw") as stream:
        for line in sys.stdin:
            stream.write(line)
            stream.flush()
            while (answer := stream.readline()) and answer != "\0\n":
                if answer.strip():
                    print(answer, end="")
    return 0


def main() -> int:
    if not sys.argv[1:]:
        return client()
    if behaviour().get("refuse"):
        print("MPS: the device is in use", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return Daemon().serve()


if __name__ == "__main__":
    sys.exit(main())
