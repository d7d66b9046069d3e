"""Which driver version brought which symbol and field, so that an older driver can be pretended."""

from __future__ import annotations

from typing import Final

# major version that first had the symbol; what is not listed was always there
CALLS: Final = {
    "nvmlDeviceGetArchitecture": 455,
    "nvmlDeviceGetAttributes": 450,
    "nvmlDeviceGetAttributes_v2": 450,
    "nvmlDeviceGetComputeInstanceId": 450,
    "nvmlDeviceGetComputeRunningProcesses_v3": 510,
    "nvmlDeviceGetCurrentClocksEventReasons": 535,
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": 450,
    "nvmlDeviceGetGpuFabricInfo": 530,
    "nvmlDeviceGetGpuFabricInfoV": 545,
    "nvmlDeviceGetGpuInstanceId": 450,
    "nvmlDeviceGetGpuInstanceProfileInfo": 450,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 510,
    "nvmlDeviceGetMaxMigDeviceCount": 450,
    "nvmlDeviceGetMigDeviceHandleByIndex": 450,
    "nvmlDeviceGetMigMode": 450,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": 510,
    "nvmlDeviceGetNumaNodeId": 535,
    "nvmlDeviceGetNvLinkRemoteDeviceType": 470,
    "nvmlDeviceGetRemappedRows": 450,
    "nvmlDeviceGetRowRemapperHistogram": 460,
    "nvmlDeviceGetTemperatureV": 565,
    "nvmlDeviceGetTemperatureV1": 565,
    "nvmlDeviceIsMigDeviceHandle": 450,
    "nvmlDeviceSetMigMode": 450,
    "nvmlEventSetWait": 450,
    "nvmlEventSetWait_v2": 450,
    "nvmlGpmMetricsGet": 520,
    "nvmlGpmMigSampleGet": 520,
    "nvmlGpmQueryDeviceSupport": 520,
    "nvmlGpmSampleAlloc": 520,
    "nvmlGpmSampleFree": 520,
    "nvmlGpmSampleGet": 520,
}
MEMORY_V2: Final = 510
PROFILE_NAMES: Final = 520
RECOVERY_ACTION: Final = 570
OPAQUE_MIG_UUID: Final = 470

# first field id of a range -> major version
_FIELDS: Final = ((230, 570), (226, 555), (201, 565), (185, 530), (161, 525), (147, 470), (138, 450), (0, 0))


def has_call(name: str, driver: int) -> bool:
    """Whether a driver of that major version has the symbol."""
    return CALLS.get(name, 0) <= driver


def has_field(field: int, driver: int) -> bool:
    """Whether a driver of that major version knows the field id."""
    return next(version for first, version in _FIELDS if field >= first) <= driver


def major(version: str) -> int:
    """The major number of a driver version."""
    return int(version.partition(".")[0])
