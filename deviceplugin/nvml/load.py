"""Load of cards and MIG instances, in base units; what a card does not tell stays None and is not asked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pynvml
from msgspec.structs import replace

from deviceplugin.model.node import Gpu, MigInstance
from deviceplugin.model.vitals import GpuLoad, LinkLoad, MigLoad, Process
from deviceplugin.nvml.api import Handle, NvmlApi
from deviceplugin.nvml.inquiry import Inquiry
from deviceplugin.nvml.recall import ALL_LINKS, Field, Recall

_MHZ = 1e6
_PERCENT = 0.01
_MILLI = 0.001
_KIB = 1024
_KILO = 1000
_HOTTEST = 1000
_NO_INSTANCE = 0xFFFFFFFF

_FIELDS: Mapping[str, tuple[Field, float]] = {
    "ecc_corrected_volatile": (pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, 1),
    "ecc_uncorrected_volatile": (pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 1),
    "ecc_corrected_aggregate": (pynvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL, 1),
    "ecc_uncorrected_aggregate": (pynvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL, 1),
    "retired_single_bit": (pynvml.NVML_FI_DEV_RETIRED_SBE, 1),
    "retired_double_bit": (pynvml.NVML_FI_DEV_RETIRED_DBE, 1),
    "nvlink_crc_flit_errors": (pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 1),
    "nvlink_crc_data_errors": (pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, 1),
    "nvlink_replay_errors": (pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 1),
    "nvlink_recovery_errors": (pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, 1),
    "memory_temperature": (pynvml.NVML_FI_DEV_MEMORY_TEMP, 1),
    "energy": (pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, _MILLI),
    "pcie_replays": (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 1),
    "pcie_tx_bytes": (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 1),
    "pcie_rx_bytes": (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 1),
    "nvlink_tx_bytes": ((pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS), _KIB),
    "nvlink_rx_bytes": ((pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS), _KIB),
    "remapped_correctable": (pynvml.NVML_FI_DEV_REMAPPED_COR, 1),
    "remapped_uncorrectable": (pynvml.NVML_FI_DEV_REMAPPED_UNC, 1),
    "remap_pending": (pynvml.NVML_FI_DEV_REMAPPED_PENDING, 1),
    "remap_failure": (pynvml.NVML_FI_DEV_REMAPPED_FAILURE, 1),
    "recovery_action": (pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 1),
}
_BATCH = [field for field, _scale in _FIELDS.values()]
_FLAGS = frozenset({"remap_pending", "remap_failure"})


class _Call(NamedTuple):
    """A call that gives one number."""

    fact: str
    call: str
    arguments: tuple[int, ...] = ()
    scale: float = 1
    instead_of: str = ""
    """Asked only where the card lacks this field."""
    most: float = 1 << 62
    """The largest answer that can be believed."""


_CALLS = (
    _Call("temperature", "nvmlDeviceGetTemperature", (pynvml.NVML_TEMPERATURE_GPU,), most=_HOTTEST),
    _Call("power", "nvmlDeviceGetPowerUsage", scale=_MILLI),
    _Call("power_limit", "nvmlDeviceGetEnforcedPowerLimit", scale=_MILLI),
    _Call("sm_clock", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_SM,), _MHZ),
    _Call("memory_clock", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_MEM,), _MHZ),
    _Call("graphics_clock", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_GRAPHICS,), _MHZ),
    _Call("video_clock", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_VIDEO,), _MHZ),
    _Call("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
    _Call("energy", "nvmlDeviceGetTotalEnergyConsumption", (), _MILLI, "energy"),
    _Call("pcie_replays", "nvmlDeviceGetPcieReplayCounter", (), 1, "pcie_replays"),
    # Each of these two blocks for 20 ms, in which the driver counts.
    _Call("pcie_tx_rate", "nvmlDeviceGetPcieThroughput", (pynvml.NVML_PCIE_UTIL_TX_BYTES,), _KILO, "pcie_tx_bytes"),
    _Call("pcie_rx_rate", "nvmlDeviceGetPcieThroughput", (pynvml.NVML_PCIE_UTIL_RX_BYTES,), _KILO, "pcie_rx_bytes"),
)


class LoadReader:
    """Reads the load of one card at a time."""

    def __init__(self, recall: Recall) -> None:
        self._recall = recall

    def read(self, inquiry: Inquiry, api: NvmlApi, gpu: Gpu, *, per_link: bool) -> GpuLoad:
        """Everything the card tells; a card that is lost or refuses gives an empty load."""
        handle = self._recall.card(inquiry, api, gpu)
        if handle is None:
            return GpuLoad(gpu.uuid)
        facts = self._fields(inquiry, api, handle, gpu.uuid)
        if gpu.uuid in inquiry.lost:
            return GpuLoad(gpu.uuid)
        for call in _CALLS:
            if call.instead_of and not self._recall.lacks(gpu.uuid, _FIELDS[call.instead_of][0]):
                continue
            ask = getattr(api, call.call)
            number = self._recall.ask(inquiry, gpu.uuid, ask, handle, *call.arguments)
            if number is not None and not 0 <= number <= call.most:
                inquiry.garbage(gpu.uuid, call.call, str(number))
                number = None
            facts[call.fact] = None if number is None else number * call.scale
        facts |= self._memory(inquiry, api, handle, gpu.uuid)
        facts |= self._utilization(inquiry, api, handle, gpu.uuid)
        facts["processes"] = self._processes(inquiry, api, handle, gpu.uuid)
        load = replace(GpuLoad(gpu.uuid), **facts)
        instances = tuple(self._instance(inquiry, api, handle, instance) for instance in gpu.instances)
        links = self._links(inquiry, api, handle, gpu) if per_link else ()
        return replace(load, instances=instances, links=links)

    def _fields(self, inquiry: Inquiry, api: NvmlApi, handle: Handle, uuid: str) -> dict[str, Any]:
        values = self._recall.fields(inquiry, api, handle, uuid, _BATCH)
        found = {fact: values[field] * scale for fact, (field, scale) in _FIELDS.items() if field in values}
        return {fact: bool(value) if fact in _FLAGS else value for fact, value in found.items()}

    def _memory(self, inquiry: Inquiry, api: NvmlApi, handle: Handle, uuid: str) -> dict[str, Any]:
        """Version 2 tells reserved memory apart from used; drivers before 510 know version 1 only."""
        call = api.nvmlDeviceGetMemoryInfo
        info = self._recall.ask(inquiry, uuid, call, handle, pynvml.nvmlMemory_v2)
        reserved = None if info is None else info.reserved
        if info is None and self._recall.lacks(uuid, ("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2)):
            info = self._recall.ask(inquiry, uuid, call, handle)
        if info is None:
            return {}
        amounts = {"total": info.total, "used": info.used, "free": info.free, "reserved": reserved}
        return {f"memory_{what}": amount for what, amount in amounts.items()}

    def _utilization(self, inquiry: Inquiry, api: NvmlApi, handle: Handle, uuid: str) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        rates = self._recall.ask(inquiry, uuid, api.nvmlDeviceGetUtilizationRates, handle)
        if rates is not None:
            facts |= {"utilization": rates.gpu * _PERCENT, "memory_utilization": rates.memory * _PERCENT}
        codecs: Mapping[str, Callable[..., Any]] = {
            "encoder_utilization": api.nvmlDeviceGetEncoderUtilization,
            "decoder_utilization": api.nvmlDeviceGetDecoderUtilization,
        }
        for fact, call in codecs.items():
            answer = self._recall.ask(inquiry, uuid, call, handle)
            facts[fact] = None if answer is None else answer[0] * _PERCENT
        return facts

    def _processes(self, inquiry: Inquiry, api: NvmlApi, handle: Handle, uuid: str) -> tuple[Process, ...] | None:
        """Version 2 of the call for drivers before 510, which lack version 3."""
        found = self._recall.ask(inquiry, uuid, api.nvmlDeviceGetComputeRunningProcesses_v3, handle)
        if found is None and self._recall.lacks(uuid, ("nvmlDeviceGetComputeRunningProcesses_v3",)):
            found = self._recall.ask(inquiry, uuid, api.nvmlDeviceGetComputeRunningProcesses_v2, handle)
        return None if found is None else tuple(_process(one) for one in found)

    def _links(self, inquiry: Inquiry, api: NvmlApi, handle: Handle, gpu: Gpu) -> tuple[LinkLoad, ...]:
        numbers = [link.number for link in gpu.links if link.active]
        sent, received = pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX
        wanted = [(field, number) for number in numbers for field in (sent, received)]
        values = self._recall.fields(inquiry, api, handle, gpu.uuid, wanted)
        kib = {field: int(value) * _KIB for field, value in values.items()}
        return tuple(LinkLoad(number, kib.get((sent, number)), kib.get((received, number))) for number in numbers)

    def _instance(self, inquiry: Inquiry, api: NvmlApi, card: Handle, instance: MigInstance) -> MigLoad:
        handle = self._recall.instance(inquiry, api, card, instance)
        load = MigLoad(instance.uuid)
        if handle is None:
            return load
        facts = self._memory(inquiry, api, handle, instance.uuid)
        rates = self._recall.ask(inquiry, instance.uuid, api.nvmlDeviceGetUtilizationRates, handle)
        if rates is not None:
            facts |= {"utilization": rates.gpu * _PERCENT, "memory_utilization": rates.memory * _PERCENT}
        return replace(load, **facts)


def _process(one: Any) -> Process:
    gi, ci = one.gpuInstanceId, one.computeInstanceId
    return Process(
        pid=one.pid,
        memory=one.usedGpuMemory,
        gi=None if gi == _NO_INSTANCE else gi,
        ci=None if ci == _NO_INSTANCE else ci,
    )
