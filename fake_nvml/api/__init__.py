"""pynvml's functions over a pretend machine: same names, parameters, answers and errors."""

from fake_nvml.api.nvml import Nvml

__all__ = ["Nvml"]
