"""`gpu-device-plugin labels`, also as `gpu-feature-discovery`: node labels, once or for ever, to a file or printed."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deviceplugin.cli import chosen, logs
from deviceplugin.cli.context import Context
from deviceplugin.model.errors import ClusterError, ConfigError, NvmlError, PluginError

if TYPE_CHECKING:
    from deviceplugin.config.load import Loaded

log = logging.getLogger(__name__)

PRINT = frozenset({"", "-"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--output`, which takes `-` for standard output."""
    parser.add_argument(
        "--output-file",
        "--output",
        "-o",
        dest="output",
        metavar="FILE",
        help="feature file of the labels, over flags.gfd.outputFile; - or empty: print them",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Publishes labels now and, without `--oneshot`, again every flags.gfd.sleepInterval until SIGTERM.

    The configuration is read anew each time, and the node's label where that chooses it; SIGHUP has it done at once.
    Health is not judged here, so the label of healthy GPUs is left to `serve`.

    Raises:
        NvmlError: The driver cannot be used, and failOnInitError is true or nothing would follow.
        PluginError: The labels cannot be written, and nothing would follow.
    """
    ended, again = threading.Event(), threading.Event()

    def end(*_: object) -> None:
        ended.set()
        again.set()

    signal.signal(signal.SIGHUP, lambda *_: again.set())
    logs.configure(context.process.log_format, context.process.log_level)
    context.loaded = _first(context)
    work = _Work(context, arguments.output)
    if context.loaded.config.flags.gfd.oneshot:
        work.once()
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    work.again()
    while not ended.is_set():
        again.wait(context.loaded.config.flags.gfd.sleep_interval)
        again.clear()
        if not ended.is_set():
            work.load_anew()
            work.again()
    return 0


def _first(context: Context) -> Loaded:
    try:
        return chosen.now(context)
    except ClusterError as error:
        log.warning("which configuration the node's label chooses is not known yet, labelling without it: %s", error)
        return context.load()


class _Work:
    """One labelling after the other."""

    def __init__(self, context: Context, output: str | None) -> None:
        self._context = context
        self._given = output
        self._worked = False
        self._published: dict[str, str] = {}

    def load_anew(self) -> None:
        """Takes over the configuration of now; one that cannot be had leaves the present one in force."""
        try:
            loaded = chosen.now(self._context)
        except PluginError as error:
            problems = error.problems if isinstance(error, ConfigError) else (error,)
            for problem in problems:
                log.error("configuration not taken over, the present one stays in force: %s", problem)  # noqa: TRY400
            return
        if loaded != self._context.loaded:
            log.info("configuration in force", extra={"hash": loaded.stamp.hash, "source": loaded.stamp.source})
            self._context.loaded = loaded

    def again(self) -> None:
        """Labels once; what fails is logged, since the next time it may work."""
        try:
            self.once()
        except (NvmlError, ConfigError) as error:
            if not self._worked and self._context.loaded.config.flags.fail_on_init_error:
                raise
            log.warning("%s", error)
        except PluginError as error:
            log.warning("%s", error)

    def once(self) -> None:
        """Labels once."""
        from deviceplugin.config.document import LabelSink
        from deviceplugin.files.labels import render
        from deviceplugin.rules.label.sink import sink

        labels = self._labels()
        self._worked = True
        config = self._context.loaded.config
        path, place = config.flags.gfd.output_file if self._given is None else self._given, sink(config)
        if self._given not in PRINT and place in {LabelSink.NODE, LabelSink.NODE_FEATURE}:
            self._by_api(labels, feature=place is LabelSink.NODE_FEATURE)
        elif path in PRINT:
            sys.stdout.write(render(labels))
            sys.stdout.flush()
        else:
            self._write(path, labels, make_folder=config.labels.publish is LabelSink.FILE)

    def _labels(self) -> Mapping[str, str]:
        from deviceplugin.files.pcifacts import read_facts
        from deviceplugin.rules.label import HEALTHY, label, stamped

        snapshot, config = self._context.snapshot(cdi=False), self._context.loaded.config
        facts = read_facts(self._context.host_root, (gpu.pci for gpu in snapshot.node.gpus))
        labels = label(snapshot, config, facts)
        if labels is None:
            why = snapshot.node.detail or snapshot.node.state
            raise NvmlError(f"labels stay as they are, the GPUs cannot be told: {why}")
        judged = {name: value for name, value in labels.items() if name != HEALTHY}
        return stamped(judged, config, time.time())

    def _by_api(self, labels: Mapping[str, str], *, feature: bool) -> None:
        """Publishes by the Kubernetes API, as labels.publish says, where something but the timestamp differs."""
        from importlib.util import find_spec

        from deviceplugin.rules.label import without_timestamp

        if without_timestamp(labels) == self._published:
            return
        node = self._context.loaded.config.cluster.node_name
        if not node:
            raise PluginError("labels go to the Kubernetes API, which needs this node's name: set NODE_NAME")
        if find_spec("lightkube") is None:
            raise PluginError("labels go to the Kubernetes API, which needs gpu-device-plugin[cluster] installed")

        import asyncio

        from deviceplugin.cluster.api import Api
        from deviceplugin.cluster.labels import way
        from deviceplugin.ledger import Ledger

        async def publish() -> None:
            async with Api(node, Ledger()) as api:
                await way(api, feature=feature).publish(labels)

        asyncio.run(publish())
        self._published = without_timestamp(labels)
        log.info("labels published", extra={"node": node, "labels": len(labels)})

    def _write(self, path: str, labels: Mapping[str, str], *, make_folder: bool) -> None:
        from deviceplugin.files.labels import LabelFile, Outcome

        file = LabelFile(path, make_folder=make_folder)
        try:
            outcome = file.publish(labels)
        except OSError as error:
            raise PluginError(f"labels cannot be written to {path}: {error}; mount a writable folder") from error
        if outcome is Outcome.NO_FOLDER:
            raise PluginError(
                f"{file.path.parent} is not there: mount node-feature-discovery's features.d folder, name another file "
                "by --output-file, or print by --output -"
            )
        if outcome is Outcome.WRITTEN:
            log.info("labels written", extra={"path": path, "labels": len(labels)})
