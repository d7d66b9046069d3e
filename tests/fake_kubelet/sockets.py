"""Sockets and folders on disk, with a kubelet's manners."""

import os
import shutil
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from tests.fake_kubelet.model import CHECKPOINT_NAME


def prepare_folder(folder: Path, *, only_sockets: bool) -> None:
    """Makes the device plugin folder, or cleans the one that is there; sub-folders and the checkpoint stay."""
    if not folder.exists():
        folder.mkdir(parents=True)
        folder.chmod(0o750)
    for entry in folder.iterdir():
        try:
            mode = entry.lstat().st_mode
        except FileNotFoundError:
            continue  # A plugin that ends takes its own socket away meanwhile.
        if stat.S_ISDIR(mode) or entry.name == CHECKPOINT_NAME:
            continue
        if stat.S_ISSOCK(mode) or not only_sockets:
            entry.unlink(missing_ok=True)


def replace_folder(folder: Path) -> None:
    """Takes the folder away with all in it, the checkpoint too, and makes a new one."""
    gone = folder.with_name(f"{folder.name}.gone")
    folder.rename(gone)
    shutil.rmtree(gone)
    prepare_folder(folder, only_sockets=False)


GRACE = 0.05  # without any, gRPC tells the peer of an internal error, who logs it


class SocketServer:
    """A gRPC server whose socket file vanishes when its owner says so, and not when gRPC thinks fit.

    gRPC unlinks the path it has bound when a server ends. So it is given a path through a folder's
    descriptor, and that descriptor is turned away before the end.
    """

    def __init__(self, path: Path, register: Callable[[grpc.Server], None], *, threads: int = 32) -> None:
        self.path = path
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"fake-kubelet-{path.name}")
        self._server = grpc.server(self._executor, options=[("grpc.so_reuseport", 0)])
        register(self._server)
        self._folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._server.add_insecure_port(f"unix:/proc/self/fd/{self._folder}/{path.name}")
        self._identity = path.stat().st_ino
        self._server.start()

    def close(self, *, leave_file: bool = False) -> None:
        """Takes no more calls and ends those that run; the socket file goes too, unless it is to stay behind."""
        if not leave_file and self.path.exists() and self.path.stat().st_ino == self._identity:
            self.path.unlink()
        nowhere = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(nowhere, self._folder, inheritable=False)
        os.close(nowhere)
        self._ended = self._server.stop(GRACE)

    def join(self) -> None:
        """Waits until all is gone; `close` comes first."""
        self._ended.wait()
        self._executor.shutdown(wait=True)
        os.close(self._folder)
