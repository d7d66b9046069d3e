"""L1 and L2 of the faults: labels that flap, and labels of other owners."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Config
from deviceplugin.files.labels import parse
from deviceplugin.files.watch import identity
from deviceplugin.model.hostfacts import HostFacts
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.label import is_ours, label
from deviceplugin.rules.offer import offer
from tests.node import FakeNode
from tests.strategies.nodes import card, node
from tests.waiting import wait_until


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeNode]:
    with FakeNode(tmp_path, "dgx-a100-8-mig-mixed", ["--mig-strategy=mixed", "--sleep-interval=100ms"]) as machine:
        machine.labels_file.parent.mkdir()
        yield machine


def test_L1_labels_do_not_flap_at_a_restart(machine: FakeNode) -> None:
    machine.plugin.start()
    wait_until(machine.labels_file.exists, what="the feature file")
    before = identity(machine.labels_file)
    labels = parse(machine.labels_file.read_text())
    watched: list[bool] = []
    for way in (machine.plugin.stop, machine.plugin.kill):
        way()
        watched.append(machine.labels_file.exists())
        machine.plugin.start()
        machine.wait_healthy(19, resource="nvidia.com/mig-1g.5gb")
        watched.append(identity(machine.labels_file) == before)
    # Something that changes the labels shows that labelling has run since: one rewrite, with everything else as it was.
    machine.control("xid", "0", "79")
    wait_until(lambda: identity(machine.labels_file) != before, what="labels after an Xid")
    now = parse(machine.labels_file.read_text())
    assert watched == [True] * 4
    assert {name for name in labels if now[name] != labels[name]} - {"nvidia.com/gfd.timestamp"} == {
        "nvidia.com/gpu.healthy"
    }
    machine.plugin.wait_for_log("node labels written", count=2)
    assert machine.plugin.log.count("node labels written") == 2


def test_L1_labels_do_not_hang_on_the_order_of_cards() -> None:
    models = ["NVIDIA L40S", "Tesla T4", "NVIDIA L40S", "Tesla T4", "NVIDIA A10"]
    gpus = [card(index, name=name) for index, name in enumerate(models)]
    found = set()
    for seed in range(20):
        random.Random(seed).shuffle(gpus)
        turned = node(*(replace(gpu, index=index) for index, gpu in enumerate(gpus)))
        labels = label(Snapshot(turned, offer(turned, Config())), Config(), HostFacts())
        assert labels is not None
        found.add(tuple(labels.items()))
    assert len(found) == 1


def test_L1_several_models_are_all_told() -> None:
    mixed = node(card(0, name="Tesla T4"), card(1, name="NVIDIA L40S"), card(2, name="Tesla T4"))
    labels = label(Snapshot(mixed, offer(mixed, Config())), Config(), HostFacts())
    assert labels is not None
    assert labels["nvidia.com/gpu.product"] == "Tesla-T4"
    assert labels["nvidia.com/gpu.mixed"] == "true"
    assert labels["nvidia.com/gpu.Tesla-T4.count"] == "2"
    assert labels["nvidia.com/gpu.NVIDIA-L40S.count"] == "1"


def test_L2_labels_of_other_owners_are_neither_written_nor_files_of_theirs_touched(machine: FakeNode) -> None:
    theirs = machine.labels_file.with_name("of-somebody-else")
    theirs.write_text("nvidia.com/gpu.present=true\n")
    before = identity(theirs)
    machine.plugin.start()
    wait_until(machine.labels_file.exists, what="the feature file")
    machine.plugin.stop()
    assert identity(theirs) == before
    assert sorted(path.name for path in theirs.parent.iterdir()) == ["gfd", "of-somebody-else"]
    labels = parse(machine.labels_file.read_text())
    assert "nvidia.com/gpu.present" not in labels
    assert all(map(is_ours, labels))
