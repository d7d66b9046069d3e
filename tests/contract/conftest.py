"""The drivers on which the promises must hold: machines of the catalogue, and the real one where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

import fake_nvml
from deviceplugin.model.errors import NvmlError
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.library import load_library, open_driver

REAL = "real"


@cache
def real_driver_answers() -> bool:
    """Whether this machine has a driver that can be initialised."""
    try:
        driver = Driver(load_library())
        driver.initialise()
        driver.shutdown()
    except NvmlError:
        return False
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a GPU the promises are kept to the pretend driver: the others are left out, and counted as such."""
    mine = [item for item in items if item.get_closest_marker("gpu") is not None]
    if mine and not real_driver_answers():
        config.hook.pytest_deselected(items=mine)
        items[:] = [item for item in items if item not in mine]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that takes a driver runs on each machine that has GPUs, and on the real one."""
    if "machine" not in metafunc.fixturenames:
        return
    names = [name for name in fake_nvml.names() if name != "none"]
    machines = [*names, pytest.param(REAL, marks=pytest.mark.gpu)]
    metafunc.parametrize("machine", machines, indirect=True, scope="module")


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest) -> Iterator[fake_nvml.Fake | None]:
    """A pretend machine, shared by the tests of a module, none of which changes it; None for the real one."""
    if request.param == REAL:
        yield None
        return
    with fake_nvml.open(request.param) as fake:
        yield fake


@pytest.fixture
def driver(machine: fake_nvml.Fake | None) -> Iterator[Driver]:
    """An initialised driver."""
    driver = open_driver() if machine is None else Driver(machine.nvml, str(machine.root))
    driver.initialise()
    yield driver
    driver.shutdown()
