"""Compute mode: whether any process may use a card, or only one, which MPS makes its server."""

from __future__ import annotations

from collections.abc import Iterable

import pynvml

from deviceplugin.model.errors import NvmlError
from deviceplugin.nvml.codes import name
from deviceplugin.nvml.driver import Driver

DEFAULT: int = pynvml.NVML_COMPUTEMODE_DEFAULT
EXCLUSIVE: int = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS


def set_compute_mode(driver: Driver, uuids: Iterable[str], mode: int) -> None:
    """Sets the mode of cards that have another (nvmlDeviceSetComputeMode; needs root).

    Raises:
        NvmlError: A card cannot be set; the others before it are.
    """
    with driver.session() as api:
        for uuid in uuids:
            try:
                handle = api.nvmlDeviceGetHandleByUUID(uuid)
                if api.nvmlDeviceGetComputeMode(handle) != mode:
                    api.nvmlDeviceSetComputeMode(handle, mode)
            except pynvml.NVMLError as error:
                code = int(error.value)
                raise NvmlError(
                    f"the compute mode of {uuid} cannot be set: {name(code)}; run this container privileged, as root",
                    code=code,
                    call="nvmlDeviceSetComputeMode",
                ) from error
