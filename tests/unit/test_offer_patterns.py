"""resources.gpus and resources.mig."""

import pytest

from deviceplugin.config.document import Config, Flags, MigStrategy, Pattern, Resources
from deviceplugin.model.inventory import Inventory, Policy
from deviceplugin.rules.offer import offer
from tests.strategies.nodes import card, cut_card, instance, node

MODELS = node(
    card(0),
    card(1, name="NVIDIA L40S", memory=46068 << 20),
    card(2, name="Tesla T4", memory=15360 << 20),
    card(3, name="NVIDIA GB10", memory=None),
)


def offered(inventory: Inventory) -> dict[str, list[str]]:
    return {name: [share.visible_index for share in r.shares] for name, r in inventory.resources.items()}


def by_patterns(*patterns: Pattern) -> Inventory:
    return offer(MODELS, Config(resources=Resources(gpus=patterns)))


def test_the_first_pattern_that_fits_wins_and_the_rest_is_gpu() -> None:
    inventory = by_patterns(
        Pattern("NVIDIA L40S", "gpu-l40s"),
        Pattern("NVIDIA *", "example.com/big"),
        Pattern("NVIDIA H100*", "gpu-h100"),
    )
    assert offered(inventory) == {"example.com/big": ["0", "3"], "nvidia.com/gpu-l40s": ["1"], "nvidia.com/gpu": ["2"]}


def test_an_empty_name_leaves_the_rest_out() -> None:
    inventory = by_patterns(Pattern("*H100*", "gpu"), Pattern("*", ""))
    assert offered(inventory) == {"nvidia.com/gpu": ["0"]}
    assert [(out.gpu_index, out.reason) for out in inventory.left_out] == [(n, "pattern") for n in (1, 2, 3)]
    assert "fits resources.gpus[1], whose empty name leaves it out" in inventory.left_out[0].detail


@pytest.mark.parametrize(
    ("bound", "large"),
    [
        (">=80Gi", ["0"]),
        (">=45Gi", ["0", "1"]),
        ("<24Gi", ["2"]),
        ("<=15Gi", ["2"]),
        (">80Gi", []),
        ("=45Gi", ["1"]),
        (">=81559Mi", ["0"]),
        (">81559Mi", []),
        ("<48G", ["2"]),
    ],
)
def test_memory_is_compared_in_gibibytes_rounded_up(bound: str, large: list[str]) -> None:
    assert offered(by_patterns(Pattern("*", "large", memory=bound))).get("nvidia.com/large", []) == large


def test_a_bus_id_is_a_condition_too() -> None:
    assert offered(by_patterns(Pattern("*", "first", pci="0000:10:00.0")))["nvidia.com/first"] == ["0"]
    assert offered(by_patterns(Pattern("*", "first", pci="*:1?:*"))) == {"nvidia.com/gpu": ["0", "1", "2", "3"]}


def test_all_conditions_must_hold() -> None:
    assert "nvidia.com/x" not in offered(by_patterns(Pattern("*L40S", "x", memory=">=80Gi")))
    assert "nvidia.com/x" not in offered(by_patterns(Pattern("*L40S", "x", pci="10:00.0", memory=">=1Gi")))


CUT = node(cut_card(0, "1g.10gb", "1g.10gb+me"), cut_card(1, "1g.10gb", "3g.40gb"))


def test_mig_patterns_are_over_the_profile() -> None:
    resources = Resources(
        gpus=(Pattern("*", "never"),),
        mig=(Pattern("1g*", "small", pci="11:00.0"), Pattern("3g*", ""), Pattern("*+me", "media", memory=">=9Gi")),
    )
    inventory = offer(CUT, Config(flags=Flags(mig_strategy=MigStrategy.MIXED), resources=resources))
    assert offered(inventory) == {
        "nvidia.com/mig-1g.10gb": ["0:0"],
        "nvidia.com/media": ["0:1"],
        "nvidia.com/small": ["1:0"],
    }
    assert inventory.left_out[0].reason == "pattern"
    assert "resources.mig[1]" in inventory.left_out[0].detail


def test_a_mig_pattern_needs_the_instance_s_own_memory() -> None:
    part = instance(0, 0, memory_mib=None)
    resources = Resources(mig=(Pattern("*", "known", memory=">=1Gi"),))
    flags = Flags(mig_strategy=MigStrategy.SINGLE)
    inventory = offer(node(cut_card(0, instances=(part,))), Config(flags=flags, resources=resources))
    assert offered(inventory) == {"nvidia.com/gpu": ["0:0"]}


def test_several_profiles_in_one_resource_have_no_profile_in_common() -> None:
    resources = Resources(mig=(Pattern("*", "slice"),))
    inventory = offer(CUT, Config(flags=Flags(mig_strategy=MigStrategy.MIXED), resources=resources))
    assert inventory.resources["nvidia.com/slice"].mig_profile is None
    assert len(inventory.resources["nvidia.com/slice"].shares) == 4


def test_a_pattern_can_set_the_policy() -> None:
    inventory = by_patterns(Pattern("*L40S", "l40s", allocation_policy=Policy.PACKED))
    assert inventory.resources["nvidia.com/l40s"].policy is Policy.PACKED
    assert inventory.resources["nvidia.com/gpu"].policy is Policy.DISTRIBUTED


def test_names_and_bounds_that_cannot_be_used_are_conflicts() -> None:
    inventory = by_patterns(Pattern("*L40S", "kubernetes.io/gpu"), Pattern("*T4", "t4", memory="much"))
    assert inventory.conflicts[0].startswith("resources.gpus[0].name: ")
    assert inventory.conflicts[1] == "resources.gpus[1].memory: 'much' is no bound; write >=80Gi or <24Gi"
    assert offered(inventory) == {"nvidia.com/gpu": ["0", "2", "3"]}
    assert [(out.gpu_index, out.reason) for out in inventory.left_out] == [(1, "bad-resource-name")]
