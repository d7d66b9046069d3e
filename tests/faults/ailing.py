"""A pretend node to make ill: short periods, its driver in hand, and everything an operator reads of it.

with AilingNode(tmp_path) as node:
    node.plugin.start()
    node.wait_healthy(8)
    node.driver.xid(3, 79)
    node.wait_sick(node.uuid(3))
"""

import json
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import fake_nvml
from deviceplugin.web.local import ask
from tests.fake_kubelet import Pod
from tests.fake_kubelet.model import Frame, Grant
from tests.node import GPU, FakeNode
from tests.ports import free_port, scrape
from tests.waiting import wait_until

QUICK = (
    "--fail-on-init-error=false",
    "--health-quiet-period=300ms",
    "--health-interval=100ms",
    "--rescan-interval=300ms",
    "--vanished-grace=1s",
    "--log-format=json",
    "--metrics-interval=200ms",
    "--metrics-pods=off",
)


class AilingNode(FakeNode):
    """A `FakeNode` with a configuration file, a port for metrics, and the driver's faults as methods of `driver`."""

    def __init__(self, home: Path, machine: str, arguments: Iterable[str] = (), config: str = "") -> None:
        self.port = free_port()
        own = (f"--config-file={home / 'config.yaml'}", f"--metrics-address=127.0.0.1:{self.port}")
        super().__init__(home, machine, (*own, *QUICK, *arguments))
        self.configure(f"version: v1\n{config}")

    def __enter__(self) -> Self:
        super().__enter__()
        self.driver = fake_nvml.attach(self.root)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.driver.close()
        super().__exit__(kind, error, trace)

    def uuid(self, number: int) -> str:
        """UUID of a card by its number in PCI order."""
        return self.driver.uuids()[number]

    def lines(self, **facts: object) -> list[dict[str, Any]]:
        """Log lines that carry these facts; `message` need only be contained."""
        part = str(facts.pop("message", ""))
        # The last line may not be written to its end yet.
        whole = self.plugin.log.rpartition("\n")[0]
        every = (json.loads(line) for line in whole.splitlines() if line.startswith("{"))
        return [one for one in every if part in one["message"] and facts.items() <= one.items()]

    def said(self, message: str, **facts: object) -> dict[str, Any]:
        """Waits for a log line, and gives the newest one."""
        found = wait_until(lambda: self.lines(message=message, **facts), what=f"a line {message!r} {facts}")
        return found[-1]

    def wait_ids(self, sick: Iterable[str], healthy: Iterable[str] | None = None, resource: str = GPU) -> None:
        """Waits until the kubelet holds exactly these ids for unhealthy (and exactly those for healthy)."""
        wanted = frozenset(sick)
        well = None if healthy is None else frozenset(healthy)

        def fits() -> bool:
            seen = self.health(resource)
            return seen[1] == wanted and (seen[0] == well if well is not None else bool(seen[0] or wanted))

        try:
            wait_until(fits, what=f"unhealthy {sorted(wanted)} of {resource}")
        except AssertionError as error:
            raise AssertionError(f"{error}\nseen: {self.health(resource)}\n{self.plugin.log}") from None

    def frames(self, resource: str = GPU) -> tuple[Frame, ...]:
        """All lists of a resource since the kubelet started."""
        return self.kubelet.resources[resource].frames

    def status(self) -> dict[str, Any]:
        """The status document."""
        return wait_until(self._status, what="a status document")

    def _status(self) -> dict[str, Any]:
        document = ask(str(self.control_socket()), {"ask": "status"})
        return document if "error" not in document else {}

    def is_(self, question: str) -> bool:
        """The answer to `live` or `ready`; no answer is a no."""
        try:
            return bool(ask(str(self.control_socket()), {"ask": question})["ok"])
        except OSError:
            return False

    def metrics(self) -> str:
        """A scrape."""
        return scrape(f"127.0.0.1:{self.port}")

    def metric(self, name: str, **labels: str) -> float | None:
        """One sample of this plugin's metrics by all or some of its labels; None where there is none."""
        for line in self.metrics().splitlines():
            if line.startswith((f"gpu_device_plugin_{name}{{", f"gpu_device_plugin_{name} ")) and all(
                f'{key}="{value}"' in line for key, value in labels.items()
            ):
                return float(line.rpartition(" ")[2])
        return None

    def wait_metric(self, name: str, value: float, **labels: str) -> None:
        """Waits until a sample has a value."""
        wait_until(
            lambda: self.metric(name, **labels) == value,
            what=f"{name}{labels} to be {value}, not {self.metric(name, **labels)}\n{self.plugin.log}",
        )

    def admit(self, name: str, count: int = 1, resource: str = GPU) -> Grant:
        """A pod of one container, admitted."""
        return self.kubelet.admit(Pod(name, containers={"main": {resource: count}}))["main"]
