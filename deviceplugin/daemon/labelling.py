"""Node labels follow the board: each change of the snapshot that changes a label is written out.

At the end of the process they stay; where the configuration no longer wants a file, the one that was written goes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from deviceplugin.board import Board
from deviceplugin.config.document import Config, LabelSink
from deviceplugin.files.labels import LabelFile, Outcome
from deviceplugin.files.pcifacts import read_facts
from deviceplugin.ledger import Ledger
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.label import label, stamped
from deviceplugin.rules.label.sink import sink

log = logging.getLogger(__name__)

FILES = frozenset({LabelSink.AUTO, LabelSink.FILE})


class FileLabels:
    """Writes the feature file, and looks from time to time whether it still stands.

    Args:
        board: The snapshots.
        config: The configuration in force.
        host_root: Where the host's /sys is seen.
        ledger: Counts `labels` by sink and outcome.
    """

    def __init__(self, board: Board, config: Callable[[], Config], host_root: str, ledger: Ledger) -> None:
        self._board = board
        self._config = config
        self._host_root = host_root
        self._ledger = ledger
        self._said = ""
        self._written = ""
        """The file that has our labels."""

    async def run(self) -> None:
        """Until cancelled."""
        changed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(changed))
            while True:
                changed.clear()
                config = self._config()
                wanted = config.flags.gfd.output_file if sink(config) in FILES else ""
                if self._written not in {"", wanted}:
                    await asyncio.to_thread(self._remove, self._written)
                if wanted:
                    await asyncio.to_thread(self._publish, self._board.current, config)
                try:
                    async with asyncio.timeout(self._config().flags.gfd.sleep_interval):
                        await changed.wait()
                except TimeoutError:
                    continue

    async def _follow(self, changed: asyncio.Event) -> None:
        async for _ in self._board.follow():
            changed.set()

    def _publish(self, snapshot: Snapshot, config: Config) -> None:
        labels = labels_of(snapshot, config, self._host_root)
        if labels is None:
            return
        path = config.flags.gfd.output_file
        try:
            outcome = LabelFile(path, make_folder=config.labels.publish is LabelSink.FILE).publish(labels)
        except OSError as error:
            self._ledger.count("labels", "file", "failed")
            self._say(
                logging.WARNING,
                f"node labels cannot be written: {error}; mount the folder of --output-file writable, or set "
                "--labels-publish",
                path,
            )
            return
        if outcome is Outcome.NO_FOLDER:
            self._say(
                logging.INFO,
                "node labels are not published: there is no such folder, so node-feature-discovery is not set up for "
                "them; mount its features.d, or set --labels-publish",
                path,
            )
            return
        self._written = path
        if outcome is Outcome.WRITTEN:
            self._ledger.count("labels", "file", "written")
            self._said = ""
            log.info("node labels written", extra={"path": path, "labels": len(labels)})

    def _remove(self, path: str) -> None:
        try:
            LabelFile(path).remove()
        except OSError as error:
            log.warning("node labels are no longer published there, and the file cannot be removed: %s", error)
        else:
            log.info("node labels are no longer published there, and the file is gone", extra={"path": path})
        self._written = self._said = ""

    def _say(self, level: int, sentence: str, path: str) -> None:
        """Logs a state once, when it begins."""
        if sentence != self._said:
            log.log(level, "%s", sentence, extra={"path": path})
        self._said = sentence


def labels_of(snapshot: Snapshot, config: Config, host_root: str) -> Mapping[str, str] | None:
    """The labels of a snapshot, with a timestamp of now; None where they should stay as they are. Reads /sys."""
    facts = read_facts(host_root, (gpu.pci for gpu in snapshot.node.gpus))
    labels = label(snapshot, config, facts)
    return None if labels is None else stamped(labels, config, time.time())
