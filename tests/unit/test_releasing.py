"""While the driver is let go on request, what cannot be asked of it is no failure."""

import asyncio

import pytest

from deviceplugin.config.load import load
from deviceplugin.daemon.hardware import Hardware
from deviceplugin.daemon.world import World
from deviceplugin.ledger import Ledger
from deviceplugin.model.node import DriverState
from tests.drivers import opened


def test_a_pass_between_the_release_and_its_scan_is_neither_warned_of_nor_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    async def scene() -> None:
        with opened("hgx-h100-8") as machine:
            world, ledger = World(load({}, {}), machine.driver.host_root, "boot", ()), Ledger()
            hardware = Hardware(machine.driver, world, ledger, lambda _news: None)
            try:
                await hardware.first()
                before = ledger.counts
                machine.driver.release()
                assert world.node.state is DriverState.READY
                caplog.clear()
                health = world.snapshot.health
                await hardware.read()
                await hardware.sample(per_link=False)
                assert [record.message for record in caplog.records if record.levelname != "INFO"] == []
                assert ledger.counts == before
                assert world.snapshot.health == health
            finally:
                hardware.stop()

    asyncio.run(scene())
