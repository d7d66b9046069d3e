"""States count by policy (H5), and what cannot be read changes nothing (H9)."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as changed

from deviceplugin.config.document import HealthPolicy
from deviceplugin.model.evidence import DriverReloaded
from deviceplugin.model.node import Fabric, FabricState
from deviceplugin.model.vitals import Reading
from deviceplugin.rules.judge.states import fabric_faults
from tests.unit.judge_ward import POLICY, A, Ward, good, old

FABRIC_DOWN = Fabric(FabricState.IN_PROGRESS)


@dataclass(frozen=True)
class Bad:
    """A reading that shows one bad state, and what must be said of it."""

    policy: str
    well: Reading
    facts: dict[str, object]
    reason: str
    sentence: str

    @property
    def reading(self) -> Reading:
        return replace(self.well, **self.facts)


STATES = [
    Bad("recovery_action", good(), {"recovery_action": 1}, "recovery-action", "a GPU reset"),
    Bad("recovery_action", good(), {"recovery_action": 77}, "recovery-action", "recovery action 77"),
    Bad("remap_failure", good(), {"remap_failure": True}, "remap-failure", "a row remap failed"),
    Bad("remap_pending", good(), {"remap_pending": True}, "remap-pending", "waits for a GPU reset"),
    Bad("remap_pending", old(), {"retired_pending": True}, "retired-pages-pending", "pages wait"),
    Bad("ecc", old(), {"volatile_uncorrectable": 2}, "ecc-uncorrectable", "2 uncorrectable ECC errors"),
    Bad("fabric", good(), {"fabric": FABRIC_DOWN}, "fabric", "the NVLink fabric is in progress"),
    Bad("fabric", good(), {"fabric": Fabric(FabricState.COMPLETED, 23)}, "fabric", "completed with status 23"),
    Bad("fabric", good(), {"fabric": Fabric(FabricState.COMPLETED, 0, health_mask=1)}, "fabric", "degraded bandwidth"),
    Bad("nvlink", good(), {"links_down": (3, 4)}, "nvlink-down", "NVLinks are down: 3, 4"),
]


@pytest.mark.parametrize("bad", STATES, ids=lambda bad: f"{bad.reason} {bad.facts}")
@pytest.mark.parametrize("policy", HealthPolicy)
def test_h5_a_state_does_what_its_policy_says(bad: Bad, policy: HealthPolicy) -> None:
    ward = Ward(policy=changed(POLICY, **{bad.policy: policy}))
    told = ward.hear(bad.reading)
    assert (A in ward.sick) is (policy is HealthPolicy.UNHEALTHY)
    assert (A in ward.last) is (policy is HealthPolicy.RANK_LAST)
    for one in told:
        assert one.reason == bad.reason
        assert bad.sentence.lower() in one.detail.lower()
        assert "comes back" in one.detail or "That ends" in one.detail
    assert len(told) == (policy is not HealthPolicy.IGNORE)
    ward.hear(replace(bad.well, fabric=Fabric(FabricState.COMPLETED), links_down=()))
    assert (ward.sick, ward.last) == ({}, {})


@pytest.mark.parametrize("bad", STATES, ids=lambda bad: f"{bad.reason} {bad.facts}")
def test_h9_a_state_that_cannot_be_read_stays_as_it_was(bad: Bad) -> None:
    ward = Ward(policy=changed(POLICY, **{bad.policy: HealthPolicy.UNHEALTHY}))
    ward.hear(bad.reading)
    ward.hear(Reading(A, 0), 1000)
    ward.hear(Reading(A, 0, alive=False), 1)
    assert bad.reason in ward.sick[A]


@pytest.mark.parametrize(
    "odd",
    [
        {"recovery_action": -3},
        {"volatile_uncorrectable": -1},
        {"volatile_uncorrectable": 5, "remap_supported": True},
        {"volatile_uncorrectable": 5, "remap_supported": None},
        {"fabric": Fabric(FabricState.NOT_SUPPORTED)},
        {"fabric": None},
        {"links_down": ()},
        {"fabric": Fabric(FabricState.COMPLETED, 0, health_mask=0b10_0001_10101010)},
    ],
)
def test_h9_what_makes_no_sense_or_does_not_count_is_not_bad(odd: dict[str, object]) -> None:
    ward = Ward()
    ward.hear(replace(old(), **odd))
    assert (ward.sick, ward.last) == ({}, {})


def test_h9_negative_counts_do_not_end_what_was_bad() -> None:
    ward = Ward()
    ward.hear(replace(old(), volatile_uncorrectable=3))
    ward.hear(replace(old(), volatile_uncorrectable=-3))
    ward.hear(replace(old(), volatile_uncorrectable=None))
    assert ward.sick == {A: ("ecc-uncorrectable",)}
    ward.hear(old())
    assert ward.sick == {}


def test_links_and_fabric_that_a_card_has_no_more_are_not_bad() -> None:
    ward = Ward()
    ward.hear(replace(good(), links_down=(1,), fabric=FABRIC_DOWN))
    assert ward.last == {A: ("fabric", "nvlink-down")}
    ward.hear(good())
    assert ward.last == {}


def test_the_health_mask_of_the_fabric_is_read_by_its_two_bit_fields() -> None:
    assert fabric_faults(0b10_10_10_10) == ()
    assert fabric_faults(0b01_01_01_01) == (
        "degraded bandwidth",
        "route recovery",
        "unhealthy route",
        "access time-out",
    )
    assert fabric_faults(0b0001_00_00_00_00) == ()
    assert fabric_faults(0b0010_00_00_00_00) == ("wrong configuration",)
    assert fabric_faults(0b0101_00_00_00_00) == ("wrong configuration",)


def test_after_a_reset_a_count_that_the_card_does_not_keep_is_not_waited_for() -> None:
    ward = Ward()
    ward.hear(replace(old(), volatile_uncorrectable=3))
    ward.hear(DriverReloaded())
    ward.hear(replace(old(), volatile_uncorrectable=None))
    assert ward.sick == {}


def test_h5_a_state_that_stands_counts_as_soon_as_its_policy_says_so() -> None:
    ward = Ward(policy=changed(POLICY, nvlink=HealthPolicy.IGNORE))
    ward.hear(replace(good(), links_down=(1,)))
    (told,) = ward.configure(nvlink=HealthPolicy.UNHEALTHY)
    assert (told.to, told.reason) == ("unhealthy", "nvlink-down")
