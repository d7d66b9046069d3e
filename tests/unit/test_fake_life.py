"""Initialising, shutting down, and drivers that are absent, late, exchanged or old."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pynvml
import pytest

import fake_nvml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[fake_nvml.Fake]:
    with fake_nvml.open("hgx-h100-8", tmp_path) as opened:
        yield opened


def test_calls_before_init_and_after_shutdown_are_uninitialized(fake: fake_nvml.Fake) -> None:
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        fake.nvml.nvmlDeviceGetCount()
    fake.nvml.nvmlInit()
    fake.nvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        fake.nvml.nvmlSystemGetDriverVersion()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        fake.nvml.nvmlShutdown()


def test_init_counts_and_only_the_last_shutdown_makes_handles_stale(fake: fake_nvml.Fake) -> None:
    nvml = fake.nvml
    nvml.nvmlInit()
    nvml.nvmlInitWithFlags(0)
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    nvml.nvmlShutdown()
    assert nvml.nvmlDeviceGetIndex(handle) == 0
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetName(handle)


def test_versions(fake: fake_nvml.Fake) -> None:
    fake.nvml.nvmlInit()
    assert fake.nvml.nvmlSystemGetDriverVersion() == "580.95.05"
    assert fake.nvml.nvmlSystemGetNVMLVersion() == "13.580.95.05"
    assert fake.nvml.nvmlSystemGetCudaDriverVersion() == 13000
    assert fake.nvml.nvmlSystemGetCudaDriverVersion_v2() == 13000


def test_small_things_of_the_system(fake: fake_nvml.Fake) -> None:
    assert fake.nvml.nvmlErrorString(3) == "Not Supported"
    assert fake.nvml.nvmlErrorString(4711) == "Unknown Error 4711"
    fake.nvml.nvmlInit()
    assert fake.nvml.nvmlGetExcludedDeviceCount() == 0
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvml.nvmlGetExcludedDeviceInfoByIndex(0)
    fake.process(0, 77, 100)
    assert fake.nvml.nvmlSystemGetProcessName(77) == "/usr/bin/pretend-77"
    with pytest.raises(pynvml.NVMLError_NotFound):
        fake.nvml.nvmlSystemGetProcessName(78)


def test_a_late_driver_can_be_loaded_without_a_new_process(fake: fake_nvml.Fake, tmp_path: Path) -> None:
    fake.driver("absent")
    with fake_nvml.attach(tmp_path) as late:
        with pytest.raises(pynvml.NVMLError_LibraryNotFound):
            late.nvml.nvmlInit()
        assert not (tmp_path / "dev" / "nvidiactl").exists()
        assert (tmp_path / "sys/bus/pci/devices/0000:1b:00.0/vendor").read_text() == "0x10de\n"
        late.driver("unloaded")
        with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
            late.nvml.nvmlInit()
        late.driver("present")
        late.nvml.nvmlInit()
        assert late.nvml.nvmlDeviceGetCount() == 8
        assert (tmp_path / "dev" / "nvidiactl").exists()


def test_a_driver_taken_away_under_a_process(fake: fake_nvml.Fake) -> None:
    fake.nvml.nvmlInit()
    with pytest.raises(fake_nvml.InUse):
        fake.driver("unloaded")
    fake.driver("unloaded", force=True)
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        fake.nvml.nvmlDeviceGetCount()


def test_an_exchanged_driver_stays_a_mismatch_for_the_process_and_is_none_for_the_next(
    fake: fake_nvml.Fake, tmp_path: Path
) -> None:
    fake.nvml.nvmlInit()
    fake.driver("mismatch", force=True)
    with pytest.raises(pynvml.NVMLError_LibRmVersionMismatch):
        fake.nvml.nvmlDeviceGetCount()
    fake.nvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_LibRmVersionMismatch):
        fake.nvml.nvmlInit()
    with fake_nvml.attach(tmp_path) as fresh:
        fresh.nvml.nvmlInit()
        assert fresh.nvml.nvmlSystemGetDriverVersion() == "595.45.04"


def test_a_wait_notices_that_the_driver_was_exchanged(fake: fake_nvml.Fake) -> None:
    fake.nvml.nvmlInit()
    events = fake.nvml.nvmlEventSetCreate()
    told: list[int] = []

    def wait() -> None:
        try:
            fake.nvml.nvmlEventSetWait_v2(events, 30_000)
        except pynvml.NVMLError as error:
            told.append(error.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    fake.driver("mismatch", force=True)
    waiting.join(10)
    assert told == [pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH]


@pytest.mark.parametrize(
    ("version", "call", "missing"),
    [
        ("450.80.02", "nvmlDeviceGetArchitecture", True),
        ("580.95.05", "nvmlDeviceGetArchitecture", False),
        ("440.33.01", "nvmlDeviceGetMigMode", True),
        ("450.80.02", "nvmlDeviceGetMigMode", False),
        ("450.80.02", "nvmlDeviceGetCurrentClocksEventReasons", True),
        ("450.80.02", "nvmlDeviceGetCurrentClocksThrottleReasons", False),
    ],
)
def test_an_older_driver_lacks_symbols(version: str, call: str, *, missing: bool) -> None:
    with fake_nvml.open(f"dgx-a100-8?driver={version}") as old:
        old.nvml.nvmlInit()
        handle = old.nvml.nvmlDeviceGetHandleByIndex(0)
        if missing:
            with pytest.raises(pynvml.NVMLError_FunctionNotFound):
                getattr(old.nvml, call)(handle)
        else:
            getattr(old.nvml, call)(handle)


def test_unversioned_calls_fail_on_an_old_driver_as_the_binding_makes_them_fail() -> None:
    with fake_nvml.open("t4x1?driver=450.80.02") as old:
        old.nvml.nvmlInit()
        handle = old.nvml.nvmlDeviceGetHandleByIndex(0)
        with pytest.raises(pynvml.NVMLLibraryMismatchError):
            old.nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        with pytest.raises(pynvml.NVMLLibraryMismatchError):
            old.nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
        with pytest.raises(pynvml.NVMLError_FunctionNotFound):
            old.nvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
        assert old.nvml.nvmlDeviceGetMemoryInfo(handle).total == 15360 << 20
        assert old.nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle) == []


def test_the_driver_can_be_made_any_version(fake: fake_nvml.Fake, tmp_path: Path) -> None:
    fake.driver("version", "550.54.15")
    with fake_nvml.attach(tmp_path) as fresh:
        fresh.nvml.nvmlInit()
        assert fresh.nvml.nvmlSystemGetDriverVersion() == "550.54.15"
    with pytest.raises(fake_nvml.Refused, match="which"):
        fake.driver("version")
    with pytest.raises(fake_nvml.Refused, match="absent, unloaded, present"):
        fake.driver("broken")
