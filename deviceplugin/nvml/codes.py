"""NVML's return codes, and what each kind of them means for us."""

from __future__ import annotations

from enum import IntEnum

from deviceplugin.model.errors import NvmlError


class Code(IntEnum):
    """nvmlReturn_t, as far as it is met in the field."""

    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    MEMORY = 20
    NO_DATA = 21
    VGPU_ECC_NOT_SUPPORTED = 22
    INSUFFICIENT_RESOURCES = 23
    FREQ_NOT_SUPPORTED = 24
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    INVALID_STATE = 29
    UNKNOWN = 999


ABSENT = frozenset(
    {
        Code.NOT_SUPPORTED,
        Code.FUNCTION_NOT_FOUND,
        Code.VGPU_ECC_NOT_SUPPORTED,
        Code.FREQ_NOT_SUPPORTED,
        Code.ARGUMENT_VERSION_MISMATCH,
        Code.DEPRECATED,
    }
)
"""This hardware or driver has no such thing, and will not have it until it is loaded anew."""

DOWN = frozenset({Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.LIBRARY_NOT_FOUND, Code.LIB_RM_VERSION_MISMATCH})
"""Nothing can be asked of any card: the driver as a whole is at fault."""


def name(code: int) -> str:
    """`GPU_IS_LOST (15)`; a code unknown here is shown by its number."""
    try:
        return f"{Code(code).name} ({code})"
    except ValueError:
        return f"code {code}"


def failure(call: str, code: int) -> NvmlError:
    """The error to raise for a call that answered `code`."""
    return NvmlError(f"{call} answered {name(code)}", code=code, call=call)
