"""A pretend machine and the plugin's door to it, for tests below the process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fake_nvml
from deviceplugin.model.node import Gpu, Node, Problem
from deviceplugin.nvml.driver import Driver


@dataclass
class Machine:
    """A pretend machine under a driver."""

    fake: fake_nvml.Fake
    driver: Driver

    def scan(self, previous: Node | None = None) -> Node:
        """A scan without the renewals that a daemon's clock brings."""
        return self.driver.scan(previous)

    @property
    def uuids(self) -> list[str]:
        """UUIDs of the machine's cards by number, whether they answer or not."""
        return self.fake.uuids()

    def calls(self, name: str) -> int:
        """How often a function was called since the last `forget_calls`."""
        return self.fake.calls[name]

    def forget_calls(self) -> None:
        """Starts counting anew."""
        self.fake.calls.clear()


class Altered:
    """A pretend driver some of whose functions answer otherwise: each is given the function it stands for."""

    def __init__(self, nvml: Any, **functions: Callable[..., Any]) -> None:
        self._nvml = nvml
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._nvml, name)
        if name not in self._functions:
            return function
        answer = functools.partial(self._functions[name], function)
        return functools.update_wrapper(answer, function)


@contextmanager
def altered(spec: str, **functions: Callable[..., Any]) -> Iterator[Machine]:
    """A machine of the catalogue under a driver that answers some questions otherwise."""
    with fake_nvml.open(spec) as fake:
        nvml: Any = Altered(fake.nvml, **functions)
        yield Machine(fake, Driver(nvml, str(fake.root)))


@contextmanager
def opened_without_driver(spec: str) -> Iterator[Machine]:
    """A machine whose driver is not installed yet, as a process sees it that starts then."""
    with fake_nvml.open(spec) as installer:
        installer.driver("absent", force=True)
        with fake_nvml.attach(installer.root) as fake:
            yield Machine(fake, Driver(fake.nvml, str(fake.root)))


@contextmanager
def opened(spec: str) -> Iterator[Machine]:
    """A machine of the catalogue, closed at the end."""
    with fake_nvml.open(spec) as fake:
        yield Machine(fake, Driver(fake.nvml, str(fake.root)))


def card(node: Node, uuid: str) -> Gpu:
    """The card of that UUID, which must be there."""
    return next(gpu for gpu in node.gpus if gpu.uuid == uuid)


def problems_of(node: Node, query: str) -> list[Problem]:
    """Problems that a query left behind."""
    return [problem for problem in node.problems if problem.query == query]
