"""Cards under MPS: Unhealthy until their control daemon is known to run as the configuration wants it."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Config, Replicas, Replicated, SharingSection
from deviceplugin.model.health import Health, Sickness
from deviceplugin.model.mps import MpsPlan, MpsStanding
from deviceplugin.rules.confirm import confirm, missing, plans
from deviceplugin.rules.offer import offer
from tests.strategies.nodes import card, cards

NAME = "nvidia.com/gpu"
MPS = offer(
    cards(2), Config(sharing=SharingSection(mps=Replicated(resources=(Replicas(name=NAME, replicas=4, devices=(1,)),))))
)
WANTED = plans(MPS)[NAME]
ONE = WANTED.devices[0]


def details(standings: Mapping[str, MpsStanding]) -> list[str]:
    health = confirm(Health(), MPS, standings)
    assert set(health.sick) <= {card(1).uuid}, "the card that is not shared is nobody's business"
    return [cause.detail for causes in health.sick.values() for cause in causes]


def test_without_mps_health_is_as_it_was() -> None:
    health = Health(checked=False)
    assert confirm(health, offer(cards(1), Config()), {}) is health
    assert missing(offer(cards(1), Config()), {}) == []


def test_a_daemon_that_answers_as_planned_is_ready() -> None:
    standings = {NAME: MpsStanding(WANTED, "")}
    assert details(standings) == []
    assert missing(MPS, standings) == []


@pytest.mark.parametrize(
    ("standings", "words"),
    [
        ({}, "its control daemon has not been asked yet"),
        ({NAME: MpsStanding(missing="no pipe")}, "no pipe"),
        ({"nvidia.com/other": MpsStanding(WANTED, "")}, "has not been asked yet"),
        ({NAME: MpsStanding(MpsPlan((), 25))}, "was not told of GPU 1"),
        ({NAME: MpsStanding(MpsPlan((replace(ONE, memory_mib=7),), 25))}, "limits GPU 1 to 7 MiB, 20389 MiB"),
        ({NAME: MpsStanding(MpsPlan((replace(ONE, memory_mib=None),), 25))}, "to no amount of memory, 20389 MiB is"),
        ({NAME: MpsStanding(MpsPlan(WANTED.devices, 50))}, "gives 50 % of the threads, 25 % is configured"),
    ],
)
def test_the_missing_piece_is_named(standings: Mapping[str, MpsStanding], words: str) -> None:
    (detail,) = details(standings)
    assert words in detail
    assert missing(MPS, standings) == [detail]


def test_a_cause_says_since_when_and_by_which_rule_and_joins_those_that_are_there() -> None:
    fault = Sickness(card(1).uuid, "xid-79", "lost", 3.0)
    health = confirm(Health(sick={card(1).uuid: (fault,)}), MPS, {NAME: MpsStanding(missing="no pipe", since=7.0)})
    first, second = health.sick[card(1).uuid]
    assert first is fault
    assert second == Sickness(
        card(1).uuid, "mps-not-ready", "unready", 7.0, f"MPS of {NAME}: no pipe", rule="sharing.mps", gpu_index=1
    )
