"""A node whose plugin shows itself on a port, and how a test looks at it."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.node import FakeNode
from tests.ports import free_port
from tests.waiting import wait_until


class Seen:
    """A node whose plugin shows itself on a port."""

    def __init__(self, node: FakeNode, address: str) -> None:
        self.node = node
        self.root = f"http://{address}"

    def get(self, path: str) -> str:
        """What is at a path, whatever its status."""
        try:
            with urllib.request.urlopen(self.root + path, timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()

    def samples(self, name: str, **labels: str) -> dict[str, float]:
        """Samples of a metric with these labels: label text -> value."""
        lines = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", self.get("/metrics"), re.MULTILINE)
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return {text: float(value) for text, value in lines if all(one in text for one in wanted)}

    def value(self, name: str) -> float:
        """The value of a metric without labels."""
        match = re.search(rf"^{name} (\S+)$", self.get("/metrics"), re.MULTILINE)
        assert match, name
        return float(match[1])

    def status(self) -> dict[str, Any]:
        """The status document."""
        return dict(json.loads(self.get("/status")))

    def wait(self, predicate: Callable[[], Any], what: str) -> None:
        """Waits for something to be seen."""
        wait_until(predicate, timeout=20, what=what, interval=0.05)


@contextmanager
def seeing(home: Path, machine: str = "hgx-h100-8", options: Sequence[str] = ()) -> Iterator[Seen]:
    """Starts a plugin that shows itself, and waits until it has offered and sampled."""
    address = f"127.0.0.1:{free_port()}"
    arguments = [f"--metrics-address={address}", "--metrics-interval=0.2s", *options]
    with FakeNode(home, machine, arguments) as node:
        node.plugin.start()
        node.plugin.wait_for_log("metrics and status page", timeout=30)
        one = Seen(node, address)
        one.wait(lambda: 'state="serving"} 1' in one.get("/metrics"), "the node's state")
        one.wait(lambda: one.status()["sample"]["at"], "the first sample")
        yield one
