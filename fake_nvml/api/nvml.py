"""The whole function set, as one object that stands where the module `pynvml` would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pynvml

from fake_nvml.api.events import Events
from fake_nvml.api.fields import Fields
from fake_nvml.api.gpm import Gpm
from fake_nvml.api.health import Health
from fake_nvml.api.identity import Identity
from fake_nvml.api.life import Life
from fake_nvml.api.links import Links
from fake_nvml.api.load import Load
from fake_nvml.api.migs import Migs
from fake_nvml.api.power import Power

if TYPE_CHECKING:
    from collections.abc import Callable


class Nvml(Events, Life, Identity, Migs, Links, Load, Power, Health, Fields, Gpm):
    """pynvml's functions as methods.

    Those of pynvml that are not pretended exist too and answer FUNCTION_NOT_FOUND, as they would on a driver
    that lacks the symbol.
    """

    def __getattr__(self, name: str) -> Callable[..., object]:
        if not (name.startswith("nvml") and callable(getattr(pynvml, name, None))):
            raise AttributeError(name)

        def absent(*_args: object, **_kwargs: object) -> object:
            self.calls[name] += 1
            raise pynvml.NVMLError(
                pynvml.NVML_ERROR_FUNCTION_NOT_FOUND if self.users else pynvml.NVML_ERROR_UNINITIALIZED
            )

        return absent


def pretended() -> list[str]:
    """The names of the calls that are really answered, sorted."""
    return sorted(name for name in dir(Nvml) if name.startswith("nvml"))
