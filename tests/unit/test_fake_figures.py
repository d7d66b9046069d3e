"""What instruments read, on idle and busy GPUs, and what a card cannot tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pynvml
import pytest

import fake_nvml
from fake_nvml.fake import Fake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Clock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fake(tmp_path: Path, clock: Clock) -> Iterator[Fake]:
    with Fake("hgx-h100-8", tmp_path, clock) as opened:
        opened.nvml.nvmlInit()
        yield opened


def _fields(fake: Fake, gpu: int, *ids: Any) -> list[int | None]:
    """Values, None where the field's code is not success."""
    values = fake.nvml.nvmlDeviceGetFieldValues(fake.nvml.nvmlDeviceGetHandleByIndex(gpu), list(ids))
    slot = {1: "uiVal", 3: "ullVal"}
    return [None if v.nvmlReturn else getattr(v.value, slot[v.valueType]) for v in values]


def test_idle_and_busy(fake: Fake) -> None:
    nvml, handle = fake.nvml, fake.nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetUtilizationRates(handle).gpu == 0
    assert nvml.nvmlDeviceGetPowerUsage(handle) == 69_000
    assert nvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) == 345
    assert nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) == pynvml.nvmlClocksThrottleReasonGpuIdle
    idle = nvml.nvmlDeviceGetTemperature(handle, 0)
    fake.load(0, 0.8, 0.5)
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    assert (rates.gpu, rates.memory) == (80, 48)
    assert nvml.nvmlDeviceGetEncoderUtilization(handle)[0] == nvml.nvmlDeviceGetDecoderUtilization(handle)[0] == 4
    assert 500_000 < nvml.nvmlDeviceGetPowerUsage(handle) < nvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 700_000
    assert idle < nvml.nvmlDeviceGetTemperatureV(handle, 0) < nvml.nvmlDeviceGetTemperatureThreshold(handle, 1)
    assert nvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_GRAPHICS) == 1980
    assert nvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_MEM) == 2619
    assert nvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == 0
    assert nvml.nvmlDeviceGetPerformanceState(handle) == nvml.nvmlDeviceGetPowerState(handle) == 0
    assert nvml.nvmlDeviceGetPcieThroughput(handle, pynvml.NVML_PCIE_UTIL_RX_BYTES) > 1_000_000
    assert nvml.nvmlDeviceGetUtilizationRates(nvml.nvmlDeviceGetHandleByIndex(1)).gpu == 0


def test_all_gpus_can_be_loaded_at_once_and_slowed(fake: Fake) -> None:
    fake.load(None, 1.0, throttle=pynvml.nvmlClocksThrottleReasonHwSlowdown)
    for gpu in range(8):
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(gpu)
        assert fake.nvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) == 1386
        assert fake.nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) == pynvml.nvmlClocksThrottleReasonHwSlowdown


@pytest.mark.parametrize(("load", "memory"), [(1.1, 0.5), (-0.1, 0.5), (0.5, 2)])
def test_loads_beyond_one_are_refused(fake: Fake, load: float, memory: float) -> None:
    with pytest.raises(fake_nvml.Refused, match="from 0 to 1"):
        fake.load(0, load, memory)


def test_memory_adds_up_in_both_versions(fake: Fake) -> None:
    fake.load(0, 0.5)
    fake.process(0, 4711, 1024)
    handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
    one = fake.nvml.nvmlDeviceGetMemoryInfo(handle)
    two = fake.nvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    assert one.total == two.total == 81559 << 20
    assert one.used + one.free == one.total
    assert two.used + two.free + two.reserved == two.total
    assert one.used == two.used + two.reserved
    assert two.version == pynvml.nvmlMemory_v2
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        fake.nvml.nvmlDeviceGetMemoryInfo(handle, 2)
    assert fake.nvml.nvmlDeviceGetBAR1MemoryInfo(handle).bar1Total == 128 << 30


def test_counters_grow_with_time_and_load(fake: Fake, clock: Clock) -> None:
    every = 0xFFFFFFFF

    def counters() -> list[int | None]:
        return _fields(fake, 0, 83, 191, (138, every), (139, 0), 197, 202)

    clock.now += 10
    idle = counters()
    assert idle[0] == idle[1] == 690_000
    assert idle[2:] == [0, 0, 0, 0]
    fake.load(0, 0.5)
    clock.now += 10
    busy = counters()
    assert busy[0] == fake.nvml.nvmlDeviceGetTotalEnergyConsumption(fake.nvml.nvmlDeviceGetHandleByIndex(0))
    assert all(
        after > before for before, after in zip(idle, busy, strict=True) if after is not None and before is not None
    )
    fake.load(0, 0)
    clock.now += 10
    assert counters()[2:] == busy[2:]
    assert round((busy[2] or 0) / (busy[3] or 1)) == 18  # all links, one link


def test_a_reset_starts_the_counters_again(fake: Fake, clock: Clock) -> None:
    clock.now += 10
    fake.reset(0, force=True)
    fake.nvml.nvmlShutdown()
    fake.nvml.nvmlInit()
    assert _fields(fake, 0, 83) == [0]


def test_each_field_has_a_code_of_its_own(fake: Fake) -> None:
    handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
    values = fake.nvml.nvmlDeviceGetFieldValues(handle, [82, 77, 0, 9999, (138, 99)])
    codes = [0, pynvml.NVML_ERROR_NOT_SUPPORTED] + [pynvml.NVML_ERROR_INVALID_ARGUMENT] * 3
    assert [value.nvmlReturn for value in values] == codes
    assert [value.fieldId for value in values] == [82, 77, 0, 9999, 138]
    assert values[4].scopeId == 99
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        fake.nvml.nvmlDeviceGetFieldValues(handle, [])


def test_every_field_of_the_table_answers_or_says_why_not() -> None:
    from fake_nvml.api.fields import _TABLE

    for machine in fake_nvml.names():
        if machine == "none":
            continue
        with fake_nvml.open(machine) as fake:
            fake.nvml.nvmlInit()
            values = fake.nvml.nvmlDeviceGetFieldValues(fake.nvml.nvmlDeviceGetHandleByIndex(0), list(_TABLE))
            assert {value.nvmlReturn for value in values} <= {0, pynvml.NVML_ERROR_NOT_SUPPORTED}


def test_what_a_card_cannot_tell() -> None:
    with fake_nvml.open("t4x1") as fake:
        fake.nvml.nvmlInit()
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        assert _fields(fake, 0, 82, 142, 147, 138) == [None] * 4
        for call in (
            fake.nvml.nvmlDeviceGetRemappedRows,
            fake.nvml.nvmlDeviceGetRowRemapperHistogram,
            fake.nvml.nvmlDeviceGetFanSpeed,
        ):
            with pytest.raises(pynvml.NVMLError_NotSupported):
                call(handle)
        assert fake.nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle) == 0
        with pytest.raises(pynvml.NVMLError_NotSupported):
            fake.nvml.nvmlDeviceGetTemperatureThreshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX)
    with fake_nvml.open("rtx4090-2") as fake:
        fake.nvml.nvmlInit()
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        assert fake.nvml.nvmlDeviceGetFanSpeed(handle) == 30
        assert fake.nvml.nvmlDeviceGetPerformanceState(handle) == 8
        for ask in (fake.nvml.nvmlDeviceGetEccMode, fake.nvml.nvmlDeviceGetCurrentEccMode):
            with pytest.raises(pynvml.NVMLError_NotSupported):
                ask(handle)
        with pytest.raises(pynvml.NVMLError_NotSupported):
            fake.nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0)
        with pytest.raises(fake_nvml.Refused, match="no ECC"):
            fake.ecc(0)
    with fake_nvml.open("gb10-1") as fake:
        fake.nvml.nvmlInit()
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        with pytest.raises(pynvml.NVMLError_NotSupported):
            fake.nvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)
        assert _fields(fake, 0, 83, 188) == [None, None]


def test_arguments_out_of_range(fake: Fake) -> None:
    nvml, handle = fake.nvml, fake.nvml.nvmlDeviceGetHandleByIndex(0)
    for call, arguments in (
        (nvml.nvmlDeviceGetTemperature, (5,)),
        (nvml.nvmlDeviceGetTemperatureV, (5,)),
        (nvml.nvmlDeviceGetClockInfo, (9,)),
        (nvml.nvmlDeviceGetPcieThroughput, (9,)),
        (nvml.nvmlDeviceGetTotalEccErrors, (5, 0)),
        (nvml.nvmlDeviceGetNvLinkErrorCounter, (0, 9)),
    ):
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            call(handle, *arguments)
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        nvml.nvmlDeviceGetTemperatureV(handle, 0, 5)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetTemperatureThreshold(handle, 7)


def test_things_that_stay_as_they_are(fake: Fake) -> None:
    nvml, handle = fake.nvml, fake.nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle) == [200_000, 700_000]
    assert nvml.nvmlDeviceGetPowerManagementLimit(handle) == nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle)
    assert nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle) == nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle) == 5
    assert nvml.nvmlDeviceGetMaxPcieLinkWidth(handle) == nvml.nvmlDeviceGetCurrPcieLinkWidth(handle) == 16
    assert nvml.nvmlDeviceGetPcieReplayCounter(handle) == 0
    assert nvml.nvmlDeviceGetEccMode(handle) == [1, 1]
    assert nvml.nvmlDeviceGetCurrentEccMode(handle) == 1
    assert nvml.nvmlDeviceGetSupportedClocksThrottleReasons(handle) == pynvml.nvmlClocksThrottleReasonAll
    assert (
        nvml.nvmlDeviceGetGraphicsRunningProcesses(handle) == nvml.nvmlDeviceGetMPSComputeRunningProcesses(handle) == []
    )


def test_processes(fake: Fake) -> None:
    handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
    assert fake.nvml.nvmlDeviceGetComputeRunningProcesses(handle) == []
    fake.process(0, 4711, 2048)
    (listed,) = fake.nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    assert (listed.pid, listed.usedGpuMemory, listed.gpuInstanceId) == (4711, 2048 << 20, 0xFFFFFFFF)
    fake.load(0, 0.5)
    assert len(fake.nvml.nvmlDeviceGetComputeRunningProcesses(handle)) == 2  # whoever makes the load
    fake.process(0, 4711, None)
    assert [one.pid for one in fake.nvml.nvmlDeviceGetComputeRunningProcesses(handle)] == [40_000]


def test_processes_and_memory_of_a_mig_device(fake: Fake) -> None:
    nvml = fake.nvml
    fake.mig(0, ["3g.40gb", "1g.10gb"], force=True)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    large, small = (nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot) for slot in (0, 1))
    fake.process(0, 99, 100, gi=nvml.nvmlDeviceGetGpuInstanceId(large), ci=0)
    assert [one.pid for one in nvml.nvmlDeviceGetComputeRunningProcesses(large)] == [99]
    assert nvml.nvmlDeviceGetComputeRunningProcesses(small) == []
    assert nvml.nvmlDeviceGetMemoryInfo(large, pynvml.nvmlMemory_v2).used == 100 << 20
    assert nvml.nvmlDeviceGetMemoryInfo(small, pynvml.nvmlMemory_v2).used == 0
    for call, arguments in ((nvml.nvmlDeviceGetPcieThroughput, (0,)), (nvml.nvmlDeviceGetEncoderUtilization, ())):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call(gpu, *arguments)


def test_ecc_errors_are_volatile_and_for_ever(fake: Fake) -> None:
    nvml, handle = fake.nvml, fake.nvml.nvmlDeviceGetHandleByIndex(0)
    fake.ecc(0, "corrected", 5)
    fake.ecc(0)
    assert [nvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter) for kind in (0, 1) for counter in (0, 1)] == [
        5,
        5,
        1,
        1,
    ]
    assert nvml.nvmlDeviceGetMemoryErrorCounter(handle, 1, 0, pynvml.NVML_MEMORY_LOCATION_DEVICE_MEMORY) == 1
    assert nvml.nvmlDeviceGetMemoryErrorCounter(handle, 1, 0, pynvml.NVML_MEMORY_LOCATION_L1_CACHE) == 0
    assert _fields(fake, 0, 3, 4, 5, 6) == [5, 1, 5, 1]
    fake.reset(0, force=True)
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert _fields(fake, 0, 3, 4, 5, 6) == [0, 0, 5, 1]
    with pytest.raises(fake_nvml.Refused, match="corrected, uncorrected"):
        fake.ecc(0, "funny")


def test_row_remapping(fake: Fake) -> None:
    nvml, handle = fake.nvml, fake.nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetRemappedRows(handle) == (0, 0, 0, 0)
    fake.remap(0, "pending", correctable=2)
    assert nvml.nvmlDeviceGetRemappedRows(handle) == (2, 0, 1, 0)
    assert _fields(fake, 0, 142, 143, 144, 145) == [2, 0, 1, 0]
    fake.reset(0, force=True)
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetRemappedRows(handle) == (2, 1, 0, 0)
    assert nvml.nvmlDeviceGetRowRemapperHistogram(handle).high == 3
    fake.remap(0, "failure")
    assert nvml.nvmlDeviceGetRemappedRows(handle) == (2, 1, 0, 1)
    with pytest.raises(fake_nvml.Refused, match="try `remap`"):
        fake.retire(0, "pending")


@pytest.mark.parametrize(("machine", "fields"), [("hgx-h100-8", (144, 145)), ("dgx1-v100-8", (31,))])
def test_memory_xids_are_written_down(machine: str, fields: tuple[int, ...]) -> None:
    with fake_nvml.open(machine) as fake:
        fake.nvml.nvmlInit()
        fake.xid(0, 63)
        fake.xid(0, 64)
        assert _fields(fake, 0, *fields) == [1] * len(fields)
        assert _fields(fake, 1, *fields) == [0] * len(fields)


def test_page_retirement() -> None:
    with fake_nvml.open("dgx1-v100-8") as fake:
        fake.nvml.nvmlInit()
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        fake.retire(0, "pending", single=2)
        assert fake.nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle) == 1
        assert len(fake.nvml.nvmlDeviceGetRetiredPages(handle, 0)) == 2
        assert fake.nvml.nvmlDeviceGetRetiredPages(handle, 1) == []
        assert _fields(fake, 0, 29, 30, 31) == [2, 0, 1]
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            fake.nvml.nvmlDeviceGetRetiredPages(handle, 9)
        fake.reset(0, force=True)
        fake.nvml.nvmlShutdown()
        fake.nvml.nvmlInit()
        assert _fields(fake, 0, 29, 30, 31) == [2, 1, 0]
        with pytest.raises(fake_nvml.Refused, match="try `retire`"):
            fake.remap(0, "pending")
    with fake_nvml.open("hgx-h100-8") as fake:
        fake.nvml.nvmlInit()
        handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        for call, rest in (
            (fake.nvml.nvmlDeviceGetRetiredPages, (0,)),
            (fake.nvml.nvmlDeviceGetRetiredPagesPendingStatus, ()),
        ):
            with pytest.raises(pynvml.NVMLError_NotSupported):
                call(handle, *rest)


def _gpm(fake: Fake, one: Any, two: Any, *metrics: int) -> list[tuple[int, float]]:
    order = pynvml.c_nvmlGpmMetricsGet_t()
    order.version, order.sample1, order.sample2 = pynvml.NVML_GPM_METRICS_GET_VERSION, one, two
    order.numMetrics = len(metrics)
    for place, metric in enumerate(metrics):
        order.metrics[place].metricId = metric
    told = fake.nvml.nvmlGpmMetricsGet(order)
    return [(told.metrics[i].nvmlReturn, told.metrics[i].value) for i in range(len(metrics))]


@pytest.mark.parametrize("cut", [False, True])
def test_performance_samples(fake: Fake, clock: Clock, *, cut: bool) -> None:
    nvml = fake.nvml
    if cut:
        fake.mig(0, ["3g.40gb"], force=True)
    gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice == 1
    one, two = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()

    def take(sample: Any) -> None:
        nvml.nvmlGpmMigSampleGet(gpu, 1, sample) if cut else nvml.nvmlGpmSampleGet(gpu, sample)

    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        _gpm(fake, one, two, pynvml.NVML_GPM_METRIC_SM_UTIL)
    take(one)
    fake.load(0, 0.5)
    clock.now += 10
    take(two)
    wanted = _gpm(fake, one, two, pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL, pynvml.NVML_GPM_METRIC_FP64_UTIL)
    assert wanted == [(0, pytest.approx(50)), (pynvml.NVML_ERROR_NOT_SUPPORTED, 0)]
    wrong = nvml.nvmlGpmSampleGet if cut else lambda device, sample: nvml.nvmlGpmMigSampleGet(device, 1, sample)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        wrong(gpu, one)
    if cut:
        with pytest.raises(pynvml.NVMLError_NotFound):
            nvml.nvmlGpmMigSampleGet(gpu, 9, one)
    nvml.nvmlGpmSampleFree(one)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        take(one)
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlGpmSampleFree(two)
    bad = pynvml.c_nvmlGpmMetricsGet_t()
    with pytest.raises(pynvml.NVMLError_ArgumentVersionMismatch):
        nvml.nvmlGpmMetricsGet(bad)


def test_performance_samples_came_with_hopper() -> None:
    with fake_nvml.open("dgx-a100-8") as fake:
        fake.nvml.nvmlInit()
        gpu = fake.nvml.nvmlDeviceGetHandleByIndex(0)
        assert fake.nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice == 0
        with pytest.raises(pynvml.NVMLError_NotSupported):
            fake.nvml.nvmlGpmSampleGet(gpu, fake.nvml.nvmlGpmSampleAlloc())
