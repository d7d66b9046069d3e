"""Nodes to make ill; after each test their logs must hold no traceback, and the kubelet nothing against the plugin."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.ailing import AilingNode

Make = Callable[..., AilingNode]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes the node of a test: machine, arguments of the plugin, text of its configuration. No plugin is started."""
    with ExitStack() as stack:
        made: list[AilingNode] = []

        def one(machine: str = "hgx-a100-4", *arguments: str, config: str = "") -> AilingNode:
            made.append(stack.enter_context(AilingNode(tmp_path, machine, arguments, config)))
            return made[-1]

        yield one
        for node in made:
            assert "Traceback" not in node.plugin.log, node.plugin.log
            assert node.kubelet.violations == []
