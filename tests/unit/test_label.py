"""Labels of nodes that are no catalogue machine: mixed models, selections, sharing in parts, facts that are missing."""

from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import (
    Config,
    Devices,
    Flags,
    GfdFlags,
    Labels,
    LabelSink,
    MigStrategy,
    Pattern,
    Replicas,
    Replicated,
    Resources,
    SharingSection,
)
from deviceplugin.model.health import Health, Sickness
from deviceplugin.model.hostfacts import HostDriver, HostFacts
from deviceplugin.model.node import DriverState, Engines, Fabric, FabricState, Node, Problem
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.label import PREFIXES, TIMESTAMP, is_ours, label, stamped, without_timestamp
from deviceplugin.rules.label.sink import sink
from deviceplugin.rules.offer import offer
from tests.strategies.nodes import card, cards, cut_card, instance, node

A100 = "NVIDIA A100-SXM4-40GB"
GPU = "nvidia.com/gpu"
SINGLE = Config(flags=Flags(mig_strategy=MigStrategy.SINGLE))
MIXED = Config(flags=Flags(mig_strategy=MigStrategy.MIXED))


def labels_of(what: Node, config: Config | None = None, facts: HostFacts | None = None, **rest: Any) -> dict[str, str]:
    """Labels without the domain."""
    config = config or Config()
    found = label(Snapshot(what, offer(what, config), **rest), config, facts or HostFacts())
    assert found is not None
    return {name.removeprefix("nvidia.com/"): value for name, value in found.items()}


def slicing(*entries: Replicas, **block: Any) -> Config:
    return Config(sharing=SharingSection(time_slicing=Replicated(resources=entries, **block)))


def sick(*uuids: str) -> Health:
    return Health(sick=MappingProxyType({uuid: (Sickness(uuid, "xid-79", "lost", 0),) for uuid in uuids}))


def test_several_models_are_told_by_the_most_numerous_and_counted_one_by_one() -> None:
    found = labels_of(node(card(0, name=A100), card(1), card(2)))
    assert found["gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert found["gpu.count"] == "3"
    assert found["gpu.mixed"] == "true"
    assert found["gpu.NVIDIA-H100-80GB-HBM3.count"] == "2"
    assert found["gpu.NVIDIA-A100-SXM4-40GB.count"] == "1"


def test_of_equally_many_the_first_by_alphabet_is_told() -> None:
    found = labels_of(node(card(0), card(1, name=A100, memory=40 << 30, compute_capability=(8, 0))))
    assert (found["gpu.product"], found["gpu.memory"], found["gpu.family"]) == (
        "NVIDIA-A100-SXM4-40GB",
        "40960",
        "ampere",
    )


def test_one_model_is_not_mixed() -> None:
    assert not {name for name in labels_of(cards(2)) if "mixed" in name or name.endswith("HBM3.count")}


def test_a_card_without_name_is_counted_and_makes_no_model() -> None:
    found = labels_of(node(card(0), card(1, name="")))
    assert (found["gpu.count"], found["gpu.product"]) == ("2", "NVIDIA-H100-80GB-HBM3")
    assert "gpu.mixed" not in found
    assert "gpu.product" not in labels_of(node(card(0, name="")))


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (Config(devices=Devices(exclude=("0",))), "2"),
        (Config(devices=Devices(include=("0",))), "1"),
        (Config(resources=Resources(gpus=(Pattern(pattern=A100, name=""),))), "2"),
    ],
)
def test_cards_left_to_others_are_not_described(config: Config, count: str) -> None:
    found = labels_of(node(card(0, name=A100), card(1), card(2)), config)
    assert found["gpu.count"] == count
    assert found["gpu.nvlink-domains"] == count
    assert "gpu.mixed" not in found


def test_nothing_of_ours_leaves_what_a_node_without_gpu_has() -> None:
    assert labels_of(cards(1), Config(devices=Devices(exclude=("0",)))) == {"vgpu.present": "false"}


def test_a_part_of_the_cards_shared() -> None:
    found = labels_of(cards(4), slicing(Replicas(name=GPU, replicas=3, devices=(0, 1, 2))))
    assert (found["gpu.replicas"], found["gpu.sharing-strategy"]) == ("3", "time-slicing")
    assert found["gpu.product"].endswith("-SHARED")


def test_of_equally_many_the_greater_number_of_replicas_is_told() -> None:
    entries = (Replicas(name=GPU, replicas=2, devices=(0,)), Replicas(name=GPU, replicas=5, devices=(1,)))
    assert labels_of(cards(2), slicing(*entries))["gpu.replicas"] == "5"


def test_most_cards_unshared_is_told_as_unshared() -> None:
    found = labels_of(cards(3), slicing(Replicas(name=GPU, replicas=3, devices=(2,))))
    assert (found["gpu.replicas"], found["gpu.sharing-strategy"]) == ("1", "none")
    assert not found["gpu.product"].endswith("-SHARED")


def test_a_resource_of_its_own_name_needs_no_mark_on_the_product() -> None:
    found = labels_of(cards(1), slicing(Replicas(name="gpu", replicas=2, rename="nvidia.com/half")))
    assert (found["gpu.replicas"], found["gpu.product"]) == ("2", "NVIDIA-H100-80GB-HBM3")


def test_mps_by_one_client_is_shared_all_the_same() -> None:
    config = Config(sharing=SharingSection(mps=Replicated(resources=(Replicas(name=GPU, replicas=1),))))
    found = labels_of(cards(1), config)
    assert (found["gpu.replicas"], found["gpu.sharing-strategy"], found["mps.capable"]) == ("1", "mps", "true")
    assert found["gpu.product"].endswith("-SHARED")


def test_healthy_counts_what_is_counted() -> None:
    assert labels_of(cards(3), health=sick(card(1).uuid))["gpu.healthy"] == "2"
    cut = node(cut_card(0, "1g.10gb", "1g.10gb"), cut_card(1, "1g.10gb"))
    assert labels_of(cut, SINGLE, health=sick(card(0).uuid))["gpu.healthy"] == "1"
    assert labels_of(cut, SINGLE, health=sick(instance(0, 1).uuid))["gpu.healthy"] == "2"


def test_a_card_cut_into_nothing_is_left_out_under_single() -> None:
    found = labels_of(node(cut_card(0, "1g.10gb"), cut_card(1)), SINGLE)
    assert (found["gpu.count"], found["gpu.product"]) == ("1", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb")
    assert labels_of(node(cut_card(0)), SINGLE)["gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-INVALID"


def test_instances_of_several_models_under_one_profile() -> None:
    parts = tuple(instance(1, slot, "1g.10gb", memory_mib=9728) for slot in range(2))
    found = labels_of(node(cut_card(0, "1g.10gb"), cut_card(1, name=A100, instances=parts)), MIXED)
    assert found["mig-1g.10gb.count"] == "3"
    assert found["mig-1g.10gb.product"] == "NVIDIA-A100-SXM4-40GB-MIG-1g.10gb"
    assert found["mig-1g.10gb.memory"] == "9728"


def test_attributes_that_could_not_be_read_are_absent() -> None:
    bare = instance(0, 0, memory_mib=None)
    found = labels_of(node(cut_card(0, instances=(bare,))), SINGLE)
    assert not {name for name in found if "engines" in name or "slices" in name}
    assert "gpu.memory" not in found
    told = replace(bare, gi_slices=1, ci_slices=1, multiprocessors=16, engines=Engines(copy=1))
    found = labels_of(node(cut_card(0, instances=(told,))), SINGLE)
    assert (found["gpu.engines.copy"], found["gpu.engines.ofa"], found["gpu.multiprocessors"]) == ("1", "0", "16")


@pytest.mark.parametrize(
    ("facts", "family"),
    [
        ({"architecture": 13, "compute_capability": (10, 7)}, "rubin"),
        ({"architecture": 99, "compute_capability": (9, 0)}, "hopper"),
        ({"compute_capability": (12, 1)}, "blackwell"),
        ({"compute_capability": (8, 9)}, "ada-lovelace"),
        ({"compute_capability": (8, 6)}, "ampere"),
        ({"compute_capability": (7, 5)}, "turing"),
        ({"compute_capability": (7, 2)}, "volta"),
        ({"compute_capability": (6, 1)}, "pascal"),
        ({"compute_capability": (5, 2)}, "maxwell"),
        ({"compute_capability": (3, 7)}, "kepler"),
        ({"compute_capability": (2, 1)}, "fermi"),
        ({"compute_capability": (1, 3)}, "tesla"),
        ({"compute_capability": (0, 1)}, "undefined"),
        ({"compute_capability": (13, 0)}, "undefined"),
        ({"compute_capability": None}, "undefined"),
    ],
)
def test_family(facts: dict[str, Any], family: str) -> None:
    found = labels_of(node(card(0, **facts)))
    assert found["gpu.family"] == family
    assert ("gpu.compute.major" in found) == (facts["compute_capability"] is not None)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("580.95.05", {"full": "580.95.05", "major": "580", "minor": "95", "revision": "05"}),
        ("576.88", {"full": "576.88", "major": "576", "minor": "88"}),
        ("dev build", {"full": "dev-build"}),
        (None, {}),
    ],
)
def test_driver_version(version: str | None, expected: dict[str, str]) -> None:
    found = labels_of(replace(cards(1), driver_version=version))
    assert {n.rpartition(".")[2]: v for n, v in found.items() if n.startswith("cuda.driver-version.")} == expected


def test_cuda_version() -> None:
    found = labels_of(replace(cards(1), cuda_version=(12, 8)))
    assert (found["cuda.runtime-version.full"], found["cuda.runtime.major"]) == ("12.8", "12")


@pytest.mark.parametrize(
    ("classes", "mode"),
    [((0x0302, 0x0302), "compute"), ((0x0300, 0x0300), "graphics"), ((0x0300, 0x0302), "unknown"), ((), "unknown")],
)
def test_mode_is_that_of_all_cards(classes: tuple[int, ...], mode: str) -> None:
    facts = HostFacts(MappingProxyType({card(n).pci: number for n, number in enumerate(classes)}))
    assert labels_of(cards(2), facts=facts)["gpu.mode"] == mode


def in_clique(clique: int, state: FabricState = FabricState.COMPLETED, cluster: str = "c0-ffee") -> Fabric:
    return Fabric(state, 0, cluster, clique)


@pytest.mark.parametrize(
    ("fabrics", "clique"),
    [
        ((in_clique(7), in_clique(7)), "c0-ffee.7"),
        ((in_clique(7), in_clique(8)), None),
        ((in_clique(7), None), None),
        ((in_clique(7, FabricState.IN_PROGRESS),), None),
        ((in_clique(0, cluster=""),), None),
        ((None,), None),
    ],
)
def test_clique_is_that_of_all_cards(fabrics: tuple[Fabric | None, ...], clique: str | None) -> None:
    found = labels_of(node(*(card(n, fabric=fabric) for n, fabric in enumerate(fabrics))))
    assert found.get("gpu.clique") == clique


def test_clique_of_whole_cards_beside_cut_ones() -> None:
    found = labels_of(node(card(0, fabric=in_clique(7)), cut_card(1, "1g.10gb")), MIXED)
    assert found["gpu.clique"] == "c0-ffee.7"


def test_vgpus_are_told_by_their_brand_or_by_the_hypervisor() -> None:
    assert labels_of(node(card(0, brand=8)))["vgpu.present"] == "true"
    assert labels_of(node(card(0, brand=6)))["vgpu.present"] == "false"
    found = labels_of(cards(1), facts=HostFacts(hypervisor=HostDriver("580.126.08", "r582_12")))
    assert found["vgpu.present"] == "true"
    assert found["vgpu.host-driver-version"] == "580.126.08"
    assert found["vgpu.host-driver-branch"] == "r582_12"


def test_machine() -> None:
    assert labels_of(replace(cards(1), machine="ProLiant (Gen11)  x"))["gpu.machine"] == "ProLiant-Gen11-x"
    assert labels_of(cards(1))["gpu.machine"] == "unknown"


@pytest.mark.parametrize("state", [s for s in DriverState if s not in {DriverState.READY, DriverState.NO_HARDWARE}])
def test_before_the_driver_has_shown_its_cards_there_is_nothing_to_say(state: DriverState) -> None:
    assert label(Snapshot(Node(state=state)), Config(), HostFacts()) is None
    seen = replace(cards(2), state=state)
    assert labels_of(seen) == labels_of(cards(2))


def test_a_driver_that_does_not_show_the_cards_of_sysfs_is_still_starting() -> None:
    starting = replace(node(), problems=(Problem("0000:1b:00.0", "nvmlDeviceGetCount", 0),))
    assert label(Snapshot(starting), Config(), HostFacts()) is None
    assert label(Snapshot(node()), Config(), HostFacts()) == {"nvidia.com/vgpu.present": "false"}


def test_long_names_are_shortened_by_hash_and_keep_their_ending() -> None:
    long = "NVIDIA " + "X" * 80
    found = labels_of(node(cut_card(0, "1g.10gb", name=long), cut_card(1, "1g.10gb", name=long + "Y")), SINGLE)
    assert found["gpu.product"].endswith("-MIG-1g.10gb")
    assert len(found["gpu.product"]) == 63
    counts = [name for name in found if name.startswith("gpu.NVIDIA") and name.endswith(".count")]
    assert len(counts) == 2
    assert all(len(name) <= 63 for name in counts)


def test_the_timestamp_is_the_only_thing_that_moves() -> None:
    plain = {f"{GPU}.count": "1"}
    later = stamped(plain, Config(), 1796098077.9)
    assert later == plain | {TIMESTAMP: "1796098077"}
    assert without_timestamp(later) == plain
    assert stamped(plain, Config(flags=Flags(gfd=GfdFlags(no_timestamp=True))), 5) == plain


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("nvidia.com/gpu.count", True),
        ("nvidia.com/mig-1g.10gb.count", True),
        ("nvidia.com/gfd.timestamp", True),
        ("nvidia.com/gpu.present", False),
        ("nvidia.com/gpu.deploy.driver", False),
        ("nvidia.com/mig.config", False),
        ("nvidia.com/mig.config.state", False),
        ("nvidia.com/device-plugin.config", False),
        ("feature.node.kubernetes.io/x", False),
    ],
)
def test_which_labels_are_ours(name: str, *, ours: bool) -> None:
    assert is_ours(name) is ours


def test_the_beginnings_are_in_order() -> None:
    assert list(PREFIXES) == sorted(PREFIXES)


@pytest.mark.parametrize(
    ("publish", "flags", "expected"),
    [
        (LabelSink.AUTO, Flags(), LabelSink.AUTO),
        (LabelSink.AUTO, Flags(use_node_feature_api=True), LabelSink.NODE_FEATURE),
        (LabelSink.AUTO, Flags(gfd=GfdFlags(output_file="")), LabelSink.OFF),
        (LabelSink.FILE, Flags(use_node_feature_api=True), LabelSink.FILE),
        (LabelSink.NODE, Flags(gfd=GfdFlags(output_file="")), LabelSink.NODE),
        (LabelSink.OFF, Flags(), LabelSink.OFF),
    ],
)
def test_where_labels_go(publish: LabelSink, flags: Flags, expected: LabelSink) -> None:
    assert sink(Config(flags=flags, labels=Labels(publish=publish))) is expected


def test_a_node_that_was_not_measured_has_no_blocks() -> None:
    found = label(Snapshot(cards(2)), Config(), HostFacts())
    assert found is not None
    assert f"{GPU}.count" in found
    assert not {name for name in found if "nvlink" in name}
