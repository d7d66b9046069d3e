"""Log lines about where GPUs go: what is really there, and only what changed."""

import re

import pytest

from deviceplugin.config.load import load
from deviceplugin.daemon import telling
from deviceplugin.daemon.world import World
from tests.drivers import Machine, opened

GRACE = 30.0


class Told:
    """A world whose changes are told, and the lines of each."""

    def __init__(self, machine: Machine, caplog: pytest.LogCaptureFixture, *strategy: str) -> None:
        self._machine = machine
        self._caplog = caplog
        given = {"--vanished-grace": f"{GRACE:g}s", **({"--mig-strategy": strategy[0]} if strategy else {})}
        self._world = World(load(given, {}), machine.driver.host_root, "boot", ())
        caplog.set_level("INFO", "deviceplugin.daemon")

    def scanned(self, now: float) -> list[str]:
        before = self._world.snapshot
        self._world.scanned(self._machine.scan(before.node if before.node.gpus else None), now)
        self._caplog.clear()
        telling.snapshot(before, self._world.snapshot)
        return [message for message in self._caplog.messages if re.search(r"goes to|offered|is gone", message)]


def test_a_mig_change_is_told_of_its_gpu_alone_and_counts_what_is_there(caplog: pytest.LogCaptureFixture) -> None:
    with opened("dgx-a100-8-mig-mixed") as machine:
        told = Told(machine, caplog, "mixed")
        first = told.scanned(0)
        assert sum("goes to" in line for line in first) == 8
        assert "GPU 0 goes to nvidia.com/mig-1g.5gb x7" in first
        ones = next(int(line.split()[1]) for line in first if line.startswith("nvidia.com/mig-1g.5gb:"))
        twos = next(int(line.split()[1]) for line in first if line.startswith("nvidia.com/mig-2g.10gb:"))

        machine.fake.mig(0, ["1g.5gb", "1g.5gb", "2g.10gb"], force=True)
        assert set(told.scanned(1)) == {
            "GPU 0 goes to nvidia.com/mig-1g.5gb x2, nvidia.com/mig-2g.10gb",
            f"nvidia.com/mig-1g.5gb: {ones - 5} offered, {ones} before",
            f"nvidia.com/mig-2g.10gb: {twos + 1} offered, {twos} before",
        }
        assert told.scanned(2 + GRACE) == []


def test_a_gpu_that_is_unplugged_is_gone_and_not_offered_though_it_stays_listed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with opened("hgx-h100-8") as machine:
        told = Told(machine, caplog)
        assert told.scanned(0)[-1] == "nvidia.com/gpu: 8 offered"
        machine.fake.unplug(7)
        machine.driver.renew()
        assert told.scanned(1) == ["GPU 7 is gone", "nvidia.com/gpu: 7 offered, 8 before"]
        assert told.scanned(2 + GRACE) == []
