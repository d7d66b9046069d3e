"""`gpu-device-plugin mps`, also as `mps-control-daemon`: runs the MPS control daemons of this node."""

from __future__ import annotations

import argparse
import logging
import signal
import threading
from functools import partial

from deviceplugin.cli import chosen, logs
from deviceplugin.cli.context import Context
from deviceplugin.model.errors import ConfigError

log = logging.getLogger(__name__)

MOUNT_SHM = "mount-shm"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the action."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=["run", MOUNT_SHM],
        default="run",
        help=f"run: keep the control daemons running (default); {MOUNT_SHM}: mount their shared memory and end",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Keeps one control daemon for each resource under `sharing.mps` until SIGTERM; SIGHUP looks at everything anew."""
    logs.configure(context.process.log_format, context.process.log_level)
    if arguments.action == MOUNT_SHM:
        return _mount_shm(context)
    from deviceplugin.daemon.keepers import Keepers

    ended, again = threading.Event(), threading.Event()
    context.loaded = chosen.begin(context)

    def end(*_: object) -> None:
        ended.set()
        again.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    signal.signal(signal.SIGHUP, lambda *_: again.set())
    Keepers(partial(chosen.begin, context), context.open_driver()).run(ended, again)
    return 0


def _mount_shm(context: Context) -> int:
    from deviceplugin.mps import places, shm

    root = context.loaded.config.flags.mps_root
    if not root:
        raise ConfigError("flags.mpsRoot is empty: there is no folder to mount shared memory in; set it, or --mps-root")
    folder = places.find(root, context.loaded.process.host_root).shm
    log.info("%s: %s", folder, "mounted" if shm.mount(folder) else "mounted already")
    return 0
