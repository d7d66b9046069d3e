"""nvmlDeviceGetFieldValues: one table of what each field id answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pynvml

from fake_nvml import fabric, figures
from fake_nvml.api import since
from fake_nvml.api.calls import Calls, call
from fake_nvml.api.health import errors
from fake_nvml.state import GpuState

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_nvml.state import State

UNSIGNED, LONG = 1, 3  # NVML_VALUE_TYPE_UNSIGNED_INT, _UNSIGNED_LONG_LONG
_SLOTS = {UNSIGNED: "uiVal", LONG: "ullVal"}
_ALL_LINKS = 0xFFFFFFFF


class _Asked:
    """One field of one GPU at one moment."""

    def __init__(self, state: State, one: GpuState, now: float, scope: int) -> None:
        self.state, self.one, self.now, self.scope = state, one, now, scope

    def only_if(self, supported: bool) -> _Asked:  # noqa: FBT001  reads as a sentence
        if not supported:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self

    def links(self) -> int:
        """Active links in the scope: one link, or all of them."""
        card = self.only_if(self.one.gpu.card.nvlinks > 0).one.gpu.card
        found = fabric.active_links(self.state, self.one.number)
        if self.scope == _ALL_LINKS:
            return len(found)
        if self.scope >= card.nvlinks:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return int(self.scope in found)

    def nvlink_kib(self) -> int:
        links = self.links()
        return figures.nvlink_total(self.one, self.now, links)

    def link_errors(self) -> int:
        self.only_if(self.one.gpu.card.nvlinks > 0)
        return self.one.link_errors

    def rows(self, what: str) -> int:
        return self.only_if(self.one.gpu.card.row_remap).one.rows.get(what, 0)

    def pages(self, what: str) -> int:
        return self.only_if(self.one.gpu.card.page_retirement).one.pages.get(what, 0)

    def limit(self, watts: float) -> int:
        self.only_if("nvmlDeviceGetPowerManagementLimit" not in self.one.gpu.card.unsupported)
        return round(watts * 1000)

    def energy(self) -> int:
        self.only_if("nvmlDeviceGetTotalEnergyConsumption" not in self.one.gpu.card.unsupported)
        return round(figures.energy(self.one, self.now) * 1000)


_none: Callable[[_Asked], int] = lambda _asked: 0  # noqa: E731  a cell of the table
_link_errors: Callable[[_Asked], int] = _Asked.link_errors
_no_link_errors: Callable[[_Asked], int] = lambda asked: 0 * asked.link_errors()  # noqa: E731

_TABLE: Final[dict[int, tuple[int, Callable[[_Asked], int]]]] = {
    1: (UNSIGNED, lambda a: int(a.only_if(a.one.gpu.card.ecc).one.gpu.card.ecc)),
    2: (UNSIGNED, lambda a: int(a.only_if(a.one.gpu.card.ecc).one.gpu.card.ecc)),
    3: (LONG, lambda a: errors(a.one, 0, 0)),
    4: (LONG, lambda a: errors(a.one, 1, 0)),
    5: (LONG, lambda a: errors(a.one, 0, 1)),
    6: (LONG, lambda a: errors(a.one, 1, 1)),
    11: (LONG, lambda a: errors(a.one, 0, 0)),
    12: (LONG, lambda a: errors(a.one, 1, 0)),
    22: (LONG, lambda a: errors(a.one, 0, 1)),
    23: (LONG, lambda a: errors(a.one, 1, 1)),
    29: (LONG, lambda a: a.pages("single")),
    30: (LONG, lambda a: a.pages("double")),
    31: (LONG, lambda a: a.pages("pending")),
    38: (LONG, _no_link_errors),
    45: (LONG, _no_link_errors),
    52: (LONG, _no_link_errors),
    59: (LONG, _link_errors),
    74: (LONG, _none),
    75: (LONG, _none),
    82: (UNSIGNED, lambda a: figures.memory_temperature(a.only_if(a.one.gpu.card.memory_temperature).one)),
    83: (LONG, _Asked.energy),
    90: (UNSIGNED, lambda a: a.only_if(a.one.gpu.card.nvlinks > 0).one.gpu.card.nvlink_mbps),
    91: (UNSIGNED, lambda a: a.only_if(a.one.gpu.card.nvlinks > 0).one.gpu.card.nvlinks),
    94: (LONG, lambda a: a.one.replays),
    95: (LONG, _none),
    138: (LONG, _Asked.nvlink_kib),
    139: (LONG, _Asked.nvlink_kib),
    140: (LONG, lambda a: a.nvlink_kib() * 9 // 8),
    141: (LONG, lambda a: a.nvlink_kib() * 9 // 8),
    142: (UNSIGNED, lambda a: a.rows("correctable")),
    143: (UNSIGNED, lambda a: a.rows("uncorrectable")),
    144: (UNSIGNED, lambda a: a.rows("pending")),
    145: (UNSIGNED, lambda a: a.rows("failure")),
    147: (UNSIGNED, lambda a: fabric.counted_links(a.state, a.only_if(a.one.gpu.card.nvlinks > 0).one.number)),
    160: (LONG, _no_link_errors),
    161: (LONG, _no_link_errors),
    162: (LONG, _link_errors),
    163: (LONG, _no_link_errors),
    164: (UNSIGNED, lambda a: a.links() and a.one.gpu.card.nvlink_mbps),
    165: (UNSIGNED, lambda a: int(a.links() > 0)),
    166: (UNSIGNED, lambda a: a.only_if(a.one.gpu.card.nvlinks > 0).one.gpu.card.nvlink_version),
    173: (UNSIGNED, _none),
    185: (UNSIGNED, lambda a: round(figures.power(a.one) * 1000)),
    186: (UNSIGNED, lambda a: round(figures.power(a.one) * 1000)),
    187: (UNSIGNED, lambda a: a.limit(a.one.gpu.card.min_watts)),
    188: (UNSIGNED, lambda a: a.limit(a.one.gpu.card.limit_watts)),
    189: (UNSIGNED, lambda a: a.limit(a.one.gpu.card.limit_watts)),
    190: (UNSIGNED, lambda a: a.limit(a.one.gpu.card.limit_watts)),
    191: (LONG, _Asked.energy),
    197: (LONG, lambda a: figures.pcie_total(a.one, a.now)),
    198: (LONG, lambda a: figures.pcie_total(a.one, a.now)),
    202: (LONG, lambda a: a.nvlink_kib() * 1024),
    204: (LONG, lambda a: a.nvlink_kib() * 1024),
    208: (LONG, _no_link_errors),
    215: (LONG, _link_errors),
    226: (UNSIGNED, lambda a: int(a.one.recovery > 0)),
    227: (UNSIGNED, lambda a: int(a.one.recovery == pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET)),
    230: (UNSIGNED, lambda a: a.one.recovery),
}


class Fields(Calls):
    """Values by field id, a return code with each."""

    @call()
    def nvmlDeviceGetFieldValues(self, handle: GpuState, fieldIds: list[int | tuple[int, int]]) -> Any:
        """One structure per id (or pair of id and scope); ids it does not know say NOT_SUPPORTED."""
        if not fieldIds:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        values = (pynvml.c_nvmlFieldValue_t * len(fieldIds))()
        for value, wanted in zip(values, fieldIds, strict=True):
            value.fieldId, value.scopeId = wanted if isinstance(wanted, tuple) else (wanted, 0)
            self._read(handle, value)
        return values

    def _read(self, one: GpuState, value: Any) -> None:
        now = self.world.clock()
        value.timestamp, value.latencyUsec = int(now * 1e6), 20
        try:
            if not 0 < value.fieldId < pynvml.NVML_FI_MAX:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            if value.fieldId not in _TABLE or not since.has_field(value.fieldId, self.driver_major):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            self.endure_field(one, value.fieldId)
            value.valueType, read = _TABLE[value.fieldId]
            setattr(value.value, _SLOTS[value.valueType], read(_Asked(self.world.state, one, now, value.scopeId)))
        except pynvml.NVMLError as error:
            value.nvmlReturn = error.value

    def endure_field(self, one: GpuState, field: int) -> None:
        """Faults can be laid on one field: the call's name is then `field:<id>`."""
        self.endure(f"field:{field}", one.number)
