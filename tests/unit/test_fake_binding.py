"""The pretend driver has the vendor's function set: what differs here would be our own invention."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

import fake_nvml
from fake_nvml.api import Nvml
from fake_nvml.api.nvml import pretended

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def fake() -> Iterator[fake_nvml.Fake]:
    with fake_nvml.open("hgx-h100-8") as opened:
        yield opened


def _parameters(function: Any) -> list[tuple[str, Any]]:
    found = inspect.signature(inspect.unwrap(function)).parameters.values()
    return [(one.name, one.default) for one in found if one.name != "self"]


@pytest.mark.parametrize("name", pretended())
def test_every_call_is_one_of_the_bindings_with_its_parameters(name: str) -> None:
    assert _parameters(getattr(Nvml, name)) == _parameters(getattr(pynvml, name))


_HANDLES = ("handle", "device", "device1", "handle1", "migDevice", "eventSet", "gpmSample")


def _takes_handle(name: str) -> bool:
    parameters = _parameters(getattr(pynvml, name))
    return bool(parameters) and parameters[0][0] in _HANDLES


@pytest.mark.parametrize("name", [name for name in pretended() if _takes_handle(name)])
def test_calls_on_devices_refuse_what_is_no_handle(fake: fake_nvml.Fake, name: str) -> None:
    parameters = _parameters(getattr(pynvml, name))
    fake.nvml.nvmlInit()
    for wrong in (None, 7, "GPU-0", object()):
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            getattr(fake.nvml, name)(wrong, *[0] * (len(parameters) - 1))


def test_calls_that_are_not_pretended_are_absent_symbols(fake: fake_nvml.Fake) -> None:
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        fake.nvml.nvmlUnitGetCount()
    fake.nvml.nvmlInit()
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        fake.nvml.nvmlUnitGetCount()
    assert fake.calls["nvmlUnitGetCount"] == 2


def test_what_the_binding_does_not_have_is_no_attribute(fake: fake_nvml.Fake) -> None:
    with pytest.raises(AttributeError):
        _ = fake.nvml.nvmlDeviceGetGoodMood
    with pytest.raises(AttributeError):
        _ = fake.nvml.nvmlEventTypeXidCriticalError  # a constant, which the module has and the driver has not


def test_a_missing_argument_is_pythons_error_as_in_the_binding(fake: fake_nvml.Fake) -> None:
    fake.nvml.nvmlInit()
    with pytest.raises(TypeError):
        fake.nvml.nvmlDeviceGetName()  # type: ignore[call-arg]


def test_every_call_is_counted_by_its_name(fake: fake_nvml.Fake) -> None:
    fake.nvml.nvmlInit()
    fake.nvml.nvmlDeviceGetCount()
    fake.nvml.nvmlDeviceGetCount()
    assert fake.calls["nvmlDeviceGetCount"] == 2
    assert fake.calls["nvmlDeviceGetName"] == 0


def test_a_device_can_be_given_by_name(fake: fake_nvml.Fake) -> None:
    fake.nvml.nvmlInit()
    handle = fake.nvml.nvmlDeviceGetHandleByIndex(index=0)
    assert fake.nvml.nvmlDeviceGetName(handle=handle) == "NVIDIA H100 80GB HBM3"
