"""When a fresh process is due after the driver was upgraded underneath (E2)."""

import asyncio
from contextlib import suppress

import pytest

from deviceplugin.daemon import replacing
from deviceplugin.daemon.replacing import Replacement
from deviceplugin.model.node import DriverState

MISMATCH, READY, FAILING = DriverState.MISMATCH, DriverState.READY, DriverState.FAILING


def ends(tries: int, *states: DriverState, within: float = 0.05) -> int:
    """How often a process that sees these states is ended."""

    async def live() -> int:
        calls: asyncio.Queue[None] = asyncio.Queue()
        replacement = Replacement(tries, lambda: calls.put_nowait(None))
        for state in states:
            replacement.follow(state)
        ended = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while True:
                    await calls.get()
                    ended += 1
        return ended

    return asyncio.run(live())


def test_the_first_fresh_process_comes_at_once_and_only_once() -> None:
    assert ends(0, MISMATCH, FAILING, MISMATCH) == 1


def test_a_fresh_process_that_meets_the_mismatch_again_waits(caplog: pytest.LogCaptureFixture) -> None:
    assert ends(1, MISMATCH) == 0
    assert "a fresh process looks again in 30 s" in caplog.text
    assert ends(3, MISMATCH) == 0
    assert "looks again in 120 s" in caplog.text
    assert ends(100, MISMATCH) == 0
    assert "looks again in 600 s" in caplog.text


def test_after_its_pause_it_makes_way_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacing, "FIRST_PAUSE", 0.01)
    assert ends(1, MISMATCH) == 1


def test_a_driver_that_is_ready_again_calls_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacing, "FIRST_PAUSE", 0.01)
    assert ends(1, MISMATCH, READY) == 0
    assert ends(1, MISMATCH, FAILING) == 1


def test_a_driver_that_was_away_and_comes_as_another_one_is_an_upgrade_again() -> None:
    """Found by chaos: upgraded, unloaded while the fresh process began, and loaded in yet another version."""
    assert ends(1, FAILING, MISMATCH) == 1
    assert ends(3, DriverState.NO_DRIVER, MISMATCH) == 1


def test_after_a_driver_that_was_ready_the_next_upgrade_is_the_first_again() -> None:
    assert ends(2, READY, MISMATCH) == 1
