"""The driver's life: late, absent, failing, exchanged, let go, and held by several threads."""

from __future__ import annotations

import threading

import pytest

from deviceplugin.model.errors import NvmlError
from deviceplugin.model.node import DriverState
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.failure import without_driver
from tests.drivers import opened, opened_without_driver
from tests.waiting import wait_until


def test_no_hardware_and_no_library_is_a_node_without_gpus() -> None:
    with opened("none") as machine:
        node = machine.scan()
    assert node.state is DriverState.NO_HARDWARE
    assert node.gpus == ()
    assert "no PCI device of vendor 10de" in node.detail


def test_hardware_without_library_names_both() -> None:
    with opened_without_driver("hgx-h100-8") as machine:
        node = machine.scan()
    assert node.state is DriverState.NO_DRIVER
    assert "8 NVIDIA PCI devices in sysfs (0000:1b:00.0" in node.detail
    assert "LIBRARY_NOT_FOUND (12)" in node.detail


def test_a_driver_that_is_not_loaded_fails_and_names_the_call() -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.driver("unloaded", force=True)
        node = machine.scan()
    assert node.state is DriverState.FAILING
    assert "nvmlInit answered DRIVER_NOT_LOADED (9)" in node.detail


@pytest.mark.parametrize("code", [4, 17, 999])
def test_an_initialisation_that_fails_names_call_and_code_and_is_tried_again(code: int) -> None:
    with opened("hgx-h100-8") as machine:
        machine.fake.fault("nvmlInitWithFlags", code=code)
        first = machine.scan()
        machine.fake.clear()
        second = machine.scan(first)
    assert first.state is DriverState.FAILING
    assert f"({code})" in first.detail
    assert second.state is DriverState.READY
    assert len(second.gpus) == 8


def test_a_driver_that_comes_late_is_found_by_a_later_scan() -> None:
    with opened_without_driver("hgx-h100-8") as machine:
        node = machine.scan()
        machine.fake.driver("present", force=True)
        late = machine.scan(node)
    assert node.state is DriverState.NO_DRIVER
    assert late.state is DriverState.READY
    assert len(late.gpus) == 8


def test_a_driver_that_fails_later_leaves_the_picture_of_before() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.driver("unloaded", force=True)
        after = machine.scan(before)
    assert after.state is DriverState.FAILING
    assert after.gpus == before.gpus


def test_an_exchanged_driver_is_a_mismatch_and_stays_one() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.fake.driver("mismatch", force=True)
        first = machine.scan(before)
        second = machine.scan(first)
    for node in (first, second):
        assert node.state is DriverState.MISMATCH
        assert "LIB_RM_VERSION_MISMATCH (18)" in node.detail
        assert "fresh process" in node.detail
        assert node.gpus == before.gpus


def test_old_drivers_without_the_call_are_initialised_by_the_plain_one() -> None:
    with opened("t4x1") as machine:
        machine.fake.fault("nvmlInitWithFlags", code=13)
        # The pretend nvmlInit goes through the same function; only the first call hits the missing symbol.
        machine.fake.clear()
        machine.fake.fault("nvmlInitWithFlags", code=13, times=1)
        node = machine.scan()
        assert machine.calls("nvmlInit") == 1
    assert node.state is DriverState.READY


def test_a_released_driver_is_not_touched_until_it_is_taken_up() -> None:
    with opened("hgx-h100-8") as machine:
        before = machine.scan()
        machine.driver.release()
        machine.forget_calls()
        node = machine.scan(before)
        with pytest.raises(NvmlError, match="let go on request"), machine.driver.session():
            pass
        assert not machine.fake.calls
        machine.fake.reset(0)
        machine.driver.take()
        after = machine.scan(node)
    assert node.state is DriverState.RELEASED
    assert node.gpus == before.gpus
    assert after.state is DriverState.READY
    assert after.gpus == before.gpus


def test_shutting_down_twice_is_no_error() -> None:
    with opened("t4x1") as machine:
        machine.driver.initialise()
        machine.driver.initialise()
        machine.driver.shutdown()
        machine.driver.shutdown()
        assert machine.calls("nvmlShutdown") == 1


def test_a_shutdown_that_fails_says_so_unless_there_is_nothing_left_to_shut_down() -> None:
    with opened("t4x1") as machine:
        machine.driver.initialise()
        machine.fake.fault("nvmlShutdown", code=9)
        machine.driver.shutdown()
        machine.fake.clear()
        machine.driver.initialise()
        machine.fake.fault("nvmlShutdown", code=999)
        with pytest.raises(NvmlError, match="nvmlShutdown answered UNKNOWN"):
            machine.driver.shutdown()


def test_taking_up_anew_waits_for_calls_under_way() -> None:
    with opened("t4x1") as machine:
        driver = machine.driver
        driver.initialise()
        entered, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with driver.session():
                entered.set()
                leave.wait(5)

        holder = threading.Thread(target=hold)
        renewer = threading.Thread(target=driver.renew)
        holder.start()
        assert entered.wait(5)
        renewer.start()
        wait_until(lambda: driver._changing, what="the renewal to wait for its turn")
        assert driver.generation == 1
        leave.set()
        renewer.join(5)
        holder.join(5)
        assert driver.generation == 2
        with driver.session() as api:
            assert api.nvmlDeviceGetCount() == 1


def test_a_call_that_hangs_makes_a_renewal_give_up_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deviceplugin.nvml.driver._PATIENCE", 0.05)
    with opened("t4x1") as machine:
        driver = machine.driver
        with driver.session():
            with pytest.raises(NvmlError, match="hangs"):
                driver.renew()
            with driver.session() as api:
                assert api.nvmlDeviceGetCount() == 1
        driver.renew()
        assert driver.generation == 2


def test_an_initialisation_that_hangs_is_an_error_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deviceplugin.nvml.driver._PATIENCE", 0.05)
    with opened("t4x1") as machine:
        driver = machine.driver
        machine.fake.hang("nvmlInitWithFlags")
        stuck = threading.Thread(target=driver.initialise)
        stuck.start()
        wait_until(lambda: driver._changing, what="the first thread to hang")
        for call in (driver.initialise, driver.shutdown):
            with pytest.raises(NvmlError, match="TIMEOUT"):
                call()
        with pytest.raises(NvmlError, match="TIMEOUT"), driver.session():
            pass
        machine.fake.release()
        stuck.join(5)
        with driver.session() as api:
            assert api.nvmlDeviceGetCount() == 1


def test_the_library_is_looked_for_until_it_is_there() -> None:
    with opened("t4x1") as machine:
        attempts = []

        def find() -> object:
            attempts.append(1)
            if len(attempts) < 3:
                raise NvmlError("libnvidia-ml.so.1 cannot be loaded; tried /here (missing)", code=12)
            return machine.fake.nvml

        driver = Driver(find, str(machine.fake.root))  # type: ignore[arg-type]
        first = driver.scan()
        second = driver.scan(first)
        third = driver.scan(second)
        fourth = driver.scan(third)
    assert [node.state for node in (first, second)] == [DriverState.NO_DRIVER] * 2
    assert "tried /here (missing)" in first.detail
    assert third.state is DriverState.READY
    assert fourth == third
    assert len(attempts) == 3


def test_without_sysfs_a_driver_that_is_not_loaded_means_no_hardware(tmp_path: object) -> None:
    for code in (9, 28):
        node = without_driver(NvmlError("nvmlInit answered", code=code), str(tmp_path))
        assert node.state is DriverState.NO_HARDWARE
    assert without_driver(NvmlError("nvmlInit answered", code=999), str(tmp_path)).state is DriverState.FAILING


def test_a_scan_that_fails_and_cannot_even_shut_down_is_still_a_picture() -> None:
    with opened("t4x1") as machine:
        before = machine.scan()
        machine.fake.fault("nvmlDeviceGetCount", code=9)
        machine.fake.fault("nvmlShutdown", code=999)
        failing = machine.scan(before)
        machine.fake.clear()
        after = machine.scan(failing)
    assert failing.state is DriverState.FAILING
    assert "nvmlDeviceGetCount answered DRIVER_NOT_LOADED (9)" in failing.detail
    assert after == before
