"""Labels of every catalogue machine under every MIG strategy and sharing, against sets written out from the contract.

A golden file has sections of `key=value` lines, without the domain. A section counts where all words of its head hold
(a strategy, a kind of sharing), a later one over an earlier one. MPS together with MIG is refused when the
configuration is loaded, so there are no labels of it.
"""

from functools import cache
from pathlib import Path

import pytest

import fake_nvml
from deviceplugin.config.document import Config, Flags, MigStrategy, Replicas, Replicated, SharingSection
from deviceplugin.files.pcifacts import read_facts
from deviceplugin.model.hostfacts import HostFacts
from deviceplugin.model.node import Node
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.label import label
from deviceplugin.rules.offer import offer
from tests.drivers import opened

GOLDEN = Path(__file__).parents[1] / "golden" / "labels"
ENTRIES = (
    Replicas(name="nvidia.com/gpu", replicas=4),
    Replicas(name="nvidia.com/mig-1g.10gb", replicas=2),
    Replicas(name="nvidia.com/mig-1g.5gb", replicas=2),
)
SHARINGS = {
    "unshared": SharingSection(),
    "time-slicing": SharingSection(time_slicing=Replicated(resources=ENTRIES)),
    "renamed": SharingSection(time_slicing=Replicated(resources=ENTRIES, rename_by_default=True)),
    "mps": SharingSection(mps=Replicated(resources=ENTRIES[:1])),
}
CASES = [
    (machine, strategy, sharing)
    for machine in fake_nvml.names()
    for strategy in MigStrategy
    for sharing in SHARINGS
    if sharing != "mps" or strategy is MigStrategy.NONE
]


@cache
def seen(machine: str) -> tuple[Node, HostFacts]:
    with opened(machine) as here:
        node = here.scan()
        return node, read_facts(here.driver.host_root, (gpu.pci for gpu in node.gpus))


@cache
def sections(machine: str) -> list[tuple[frozenset[str], dict[str, str]]]:
    found: list[tuple[frozenset[str], dict[str, str]]] = []
    for line in (GOLDEN / f"{machine}.txt").read_text().splitlines():
        if line.startswith("["):
            found.append((frozenset(line.strip("[]").split()) - {"always"}, {}))
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[-1][1][f"nvidia.com/{key}"] = value
    return found


def golden(machine: str, strategy: str, sharing: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for words, section in sections(machine):
        if words <= {strategy, sharing}:
            labels |= section
    return labels


def test_every_machine_of_the_catalogue_has_a_golden_file() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(fake_nvml.names())


@pytest.mark.parametrize(("machine", "strategy", "sharing"), CASES)
def test_labels(machine: str, strategy: MigStrategy, sharing: str) -> None:
    node, facts = seen(machine)
    config = Config(flags=Flags(mig_strategy=strategy), sharing=SHARINGS[sharing])
    labels = label(Snapshot(node, offer(node, config)), config, facts)
    assert labels == golden(machine, strategy.value, sharing)
    assert list(labels) == sorted(labels)
