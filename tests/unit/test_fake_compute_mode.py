"""The pretend driver's compute mode: set by one process, seen by all, gone with a reset."""

from pathlib import Path

import pynvml
import pytest

import fake_nvml


def test_a_mode_that_is_set_is_seen_by_every_process_until_the_card_is_reset(tmp_path: Path) -> None:
    with fake_nvml.open("hgx-h100-8", tmp_path) as one, fake_nvml.attach(tmp_path) as other:
        for fake in (one, other):
            fake.nvml.nvmlInit()
        handle = one.nvml.nvmlDeviceGetHandleByIndex(2)
        one.nvml.nvmlDeviceSetComputeMode(handle, pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
        modes = [other.nvml.nvmlDeviceGetComputeMode(other.nvml.nvmlDeviceGetHandleByIndex(n)) for n in range(3)]
        assert modes == [0, 0, pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS]
        assert any("compute mode 3" in line for line in other.describe())
        for fake in (one, other):
            fake.nvml.nvmlShutdown()
        one.reset(2)
        one.nvml.nvmlInit()
        assert one.nvml.nvmlDeviceGetComputeMode(one.nvml.nvmlDeviceGetHandleByIndex(2)) == 0


@pytest.mark.parametrize("mode", [-1, pynvml.NVML_COMPUTEMODE_COUNT])
def test_what_is_no_mode_is_refused(mode: int) -> None:
    with fake_nvml.open("t4x1") as fake:
        fake.nvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            fake.nvml.nvmlDeviceSetComputeMode(fake.nvml.nvmlDeviceGetHandleByIndex(0), mode)
