"""Every catalogue machine under every MIG strategy, against a table worked out from the meaning of the strategies."""

import tomllib
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fake_nvml
from deviceplugin.config.document import Config, Flags, MigStrategy
from deviceplugin.model.errors import NvmlError
from deviceplugin.model.inventory import Inventory
from deviceplugin.model.node import Node
from deviceplugin.nvml.driver import Driver
from deviceplugin.nvml.probe import probe
from deviceplugin.rules.offer import offer

TABLE: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[1] / "golden" / "resources" / "catalogue.toml").read_text(),
)
CASES = [(machine, strategy) for machine in TABLE for strategy in MigStrategy]


@cache
def scan(machine: str) -> Node:
    with closing(fake_nvml.open(machine)) as fake:
        api: Any = fake.nvml
        driver = Driver(api, str(fake.root))
        try:
            driver.initialise()
        except NvmlError:
            return Node()
        try:
            return probe(driver.api, driver.host_root)
        finally:
            driver.shutdown()


def run_of(text: str) -> Iterator[str]:
    """`0-2` is 0, 1, 2; `3:0-1` is 3:0, 3:1."""
    head, colon, tail = text.rpartition(":")
    first, _, last = tail.partition("-")
    for number in range(int(first), int(last or first) + 1):
        yield f"{head}{colon}{number}"


def listed(runs: list[str]) -> list[str]:
    return [index for text in runs for index in run_of(text)]


def indices(node: Node) -> dict[str, str]:
    """Index of every device by its UUID."""
    return {gpu.uuid: str(gpu.index) for gpu in node.gpus} | {
        part.uuid: f"{gpu.index}:{part.slot}" for gpu in node.gpus for part in gpu.instances
    }


def offered(machine: str, strategy: MigStrategy) -> tuple[dict[str, Any], Inventory]:
    row = TABLE[machine]
    inventory = offer(scan(machine), Config(flags=Flags(mig_strategy=strategy)), "/fake")
    return row.get("any") or row[strategy.value], inventory


def test_the_table_has_every_machine_of_the_catalogue() -> None:
    assert set(TABLE) == set(fake_nvml.names())


@pytest.mark.parametrize(("machine", "strategy"), CASES)
def test_resources_and_their_devices(machine: str, strategy: MigStrategy) -> None:
    expected, inventory = offered(machine, strategy)
    assert {name: [s.visible_index for s in r.shares] for name, r in inventory.resources.items()} == {
        name: listed(runs) for name, runs in expected["resources"].items()
    }
    assert inventory.state.value == expected["state"]
    assert inventory.conflicts == ()


@pytest.mark.parametrize(("machine", "strategy"), CASES)
def test_ids_are_the_uuids_of_the_hardware(machine: str, strategy: MigStrategy) -> None:
    _, inventory = offered(machine, strategy)
    by_uuid = indices(scan(machine))
    for resource in inventory.resources.values():
        for share in resource.shares:
            assert share.id == share.device
            assert by_uuid[share.device] == share.visible_index
            assert by_uuid[share.gpu] == str(share.gpu_index)
            assert share.replica is None


@pytest.mark.parametrize(("machine", "strategy"), CASES)
def test_numa_nodes_are_those_of_the_card(machine: str, strategy: MigStrategy) -> None:
    _, inventory = offered(machine, strategy)
    numa = TABLE[machine]["numa"]
    assert len(numa) == len(scan(machine).gpus)
    for resource in inventory.resources.values():
        for share in resource.shares:
            assert (-1 if share.numa is None else share.numa) == numa[share.gpu_index]


@pytest.mark.parametrize(("machine", "strategy"), CASES)
def test_what_is_not_offered_is_named_with_its_reason(machine: str, strategy: MigStrategy) -> None:
    expected, inventory = offered(machine, strategy)
    by_uuid = indices(scan(machine))
    left_out: dict[str, list[str]] = {}
    for out in inventory.left_out:
        left_out.setdefault(out.reason, []).append(by_uuid[out.device])
        assert out.device in out.detail
    assert left_out == {reason: listed(runs) for reason, runs in expected.get("left_out", {}).items()}


@pytest.mark.parametrize(("machine", "strategy"), CASES)
def test_cards_whose_mig_mode_is_ignored_are_warned_about(machine: str, strategy: MigStrategy) -> None:
    expected, inventory = offered(machine, strategy)
    warned = listed(expected.get("warned", []))
    assert len(inventory.warnings) == len(warned)
    for index, warning in zip(warned, inventory.warnings, strict=True):
        assert warning.startswith(f"GPU {index} ")
        assert "is in MIG mode, which flags.migStrategy none ignores" in warning
