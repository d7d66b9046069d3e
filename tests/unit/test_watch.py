"""The watcher: what changed on disk, with hints from inotify and without."""

import asyncio
import logging
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from deviceplugin.files import watch
from deviceplugin.files.inotify import InotifyHints
from deviceplugin.files.watch import Hints, OpenHints, Watcher, identity

Scenario = Callable[[Watcher], Awaitable[None]]


class Changes:
    """Counts calls, and lets a test wait for the next ones."""

    def __init__(self) -> None:
        self.count = 0
        self._called = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self._called.set()

    async def reach(self, count: int, seconds: float = 5) -> None:
        async with asyncio.timeout(seconds):
            while self.count < count:
                self._called.clear()
                await self._called.wait()


def run(scenario: Scenario, period: float = 30.0, open_hints: OpenHints | None = None) -> None:
    """Runs a scenario beside a running watcher; the default period is longer than any test waits."""

    async def both() -> None:
        watcher = Watcher(period, open_hints, warm_up=0)
        running = asyncio.create_task(watcher.run())
        try:
            await scenario(watcher)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(both())


async def armed(watcher: Watcher, *folders: Path) -> None:
    """Waits until the watcher has its hints."""
    await reached(lambda: watcher._folders.keys() >= set(folders))


async def reached(predicate: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not predicate():  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.001)


def no_hints(_hint: Callable[[], None]) -> Hints:
    raise OSError(24, "inotify instance limit reached")


def test_before_there_are_hints_it_looks_often(tmp_path: Path) -> None:
    """A kubelet that restarts in the first moments of the plugin's life is not left waiting for the warm-up's end."""

    def never(_hint: Callable[[], None]) -> Hints:
        raise AssertionError("still warming up")

    async def scenario() -> None:
        watcher = Watcher(3600, never, warm_up=3600)
        running = asyncio.create_task(watcher.run())
        changes = Changes()
        watcher.watch(tmp_path / "kubelet.sock", changes)
        (tmp_path / "kubelet.sock").write_text("a")
        await changes.reach(1)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_a_file_that_appears_changes_and_vanishes_is_told_at_once(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        changes = Changes()
        watcher.watch(tmp_path / "kubelet.sock", changes)
        await armed(watcher, tmp_path)
        (tmp_path / "kubelet.sock").write_text("a")
        await changes.reach(1)
        before = changes.count
        (tmp_path / "kubelet.sock").write_text("longer")
        await changes.reach(before + 1)
        before = changes.count
        (tmp_path / "kubelet.sock").unlink()
        await changes.reach(before + 1)

    run(scenario)


def test_a_file_moved_into_place_is_told_at_once(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        changes = Changes()
        (tmp_path / "config").write_text("a")
        (tmp_path / "new").write_text("b")
        watcher.watch(tmp_path / "config", changes)
        await armed(watcher, tmp_path)
        (tmp_path / "new").rename(tmp_path / "config")
        await changes.reach(1)

    run(scenario)


def test_a_file_behind_a_swapped_link_is_another_file(tmp_path: Path) -> None:
    """A ConfigMap's volume: the kubelet swaps the ..data link, the file's name stays."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(name)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")

    async def scenario(watcher: Watcher) -> None:
        changes = Changes()
        watcher.watch(tmp_path / "config.yaml", changes)
        await armed(watcher, tmp_path)
        (tmp_path / "..data_tmp").symlink_to("two")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        await changes.reach(1)

    run(scenario)


def test_other_files_of_the_folder_are_not_told(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        changes, others = Changes(), Changes()
        watcher.watch(tmp_path / "kubelet.sock", changes)
        watcher.watch(tmp_path / "other", others)
        await armed(watcher, tmp_path)
        (tmp_path / "other").write_text("a")
        await others.reach(1)
        assert changes.count == 0

    run(scenario)


def test_a_watched_folder_tells_of_its_entries(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        changes = Changes()
        watcher.watch(tmp_path, changes)
        watcher.watch(tmp_path / "kubelet.sock", lambda: None)
        await armed(watcher, tmp_path)
        (tmp_path / "another.sock").write_text("a")
        await changes.reach(1)

    run(scenario)


def test_every_listener_of_a_path_is_told_until_it_ends(tmp_path: Path) -> None:
    async def scenario(watcher: Watcher) -> None:
        one, two = Changes(), Changes()
        end_one = watcher.watch(tmp_path / "file", one)
        end_two = watcher.watch(tmp_path / "file", two)
        (tmp_path / "file").write_text("a")
        await one.reach(1)
        await two.reach(1)
        end_one()
        end_one()
        before = one.count
        (tmp_path / "file").unlink()
        await two.reach(two.count + 1)
        assert one.count == before
        end_two()
        assert not watcher._paths

    run(scenario, period=0.02)


def test_a_folder_that_comes_later_or_is_replaced_is_noticed_within_a_period(tmp_path: Path) -> None:
    folder = tmp_path / "kubelet"

    async def scenario(watcher: Watcher) -> None:
        changes = Changes()
        watcher.watch(folder / "kubelet.sock", changes)
        folder.mkdir()
        (folder / "kubelet.sock").write_text("a")
        await changes.reach(1)
        await armed(watcher, folder)
        shutil.rmtree(folder)
        await changes.reach(changes.count + 1)
        folder.mkdir()
        (folder / "kubelet.sock").write_text("b")
        await changes.reach(changes.count + 1)
        await armed(watcher, folder)
        assert not watcher.polling

    run(scenario, period=0.05)


def test_a_replaced_folder_is_watched_by_events_again(tmp_path: Path) -> None:
    folder = tmp_path / "kubelet"
    folder.mkdir()

    async def scenario(watcher: Watcher) -> None:
        changes = Changes()
        watcher.watch(folder / "kubelet.sock", changes)
        watcher.watch(folder, changes)
        await armed(watcher, folder, tmp_path)
        folder.rename(tmp_path / "gone")
        folder.mkdir()
        new = folder.stat().st_ino
        await reached(lambda: watcher._folders.get(folder, (0, 0))[1] == new)
        before = changes.count
        (folder / "kubelet.sock").write_text("a")
        await changes.reach(before + 1)

    run(scenario)


def test_without_inotify_it_looks_every_period_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").mkdir()

    async def scenario(watcher: Watcher) -> None:
        changes = Changes()
        watcher.watch(tmp_path / "file", changes)
        watcher.watch(tmp_path / "folder" / "other", changes)
        watcher.watch(tmp_path / "absent" / "file", changes)
        (tmp_path / "file").write_text("a")
        await changes.reach(1)
        (tmp_path / "file").unlink()
        await changes.reach(2)
        assert watcher.polling

    with caplog.at_level(logging.WARNING):
        run(scenario, period=0.02, open_hints=no_hints)
    [record] = caplog.records
    assert record.message.startswith(
        f"{tmp_path} cannot be watched by inotify ([Errno 24] inotify instance limit reached): looking every 0.02 s"
    )


def test_a_folder_that_inotify_refuses_is_looked_at_every_period(tmp_path: Path) -> None:
    class Full(InotifyHints):
        def add(self, folder: Path) -> None:
            raise OSError(28, f"inotify watch limit reached for {folder}")

    async def scenario(watcher: Watcher) -> None:
        changes = Changes()
        watcher.watch(tmp_path / "file", changes)
        (tmp_path / "file").write_text("a")
        await changes.reach(1)
        assert watcher.polling

    run(scenario, period=0.02, open_hints=Full)


def test_a_folder_that_vanishes_while_it_is_armed_is_tried_again(tmp_path: Path) -> None:
    class Racing(InotifyHints):
        refused = False

        def add(self, folder: Path) -> None:
            if not Racing.refused:
                Racing.refused = True
                raise FileNotFoundError(folder)
            super().add(folder)

    async def scenario(watcher: Watcher) -> None:
        watcher.watch(tmp_path / "file", lambda: None)
        await armed(watcher, tmp_path)
        assert not watcher.polling

    run(scenario, period=0.02, open_hints=Racing)


def test_the_end_leaves_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    import threading

    async def scenario(watcher: Watcher) -> None:
        watcher.watch(tmp_path / "file", lambda: None)
        await armed(watcher, tmp_path)

    run(scenario)
    before = (threading.active_count(), len(os.listdir("/proc/self/fd")))  # noqa: PTH208 - only counted
    for _ in range(5):
        run(scenario)
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before  # noqa: PTH208 - only counted


def test_the_identity_of_what_is_not_there_is_none(tmp_path: Path) -> None:
    assert identity(tmp_path / "absent") is None
    assert identity(tmp_path) == identity(tmp_path)


def test_the_usual_hints_are_those_of_inotify() -> None:
    hints = watch._inotify(lambda: None)
    assert isinstance(hints, InotifyHints)
    hints.remove(Path("/never/watched"))
    hints.close()
