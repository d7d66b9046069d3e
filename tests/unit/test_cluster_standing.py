"""Condition, annotation and events: what is said about health in the cluster, and how often it is tried."""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import replace

from deviceplugin.cluster.api import Api
from deviceplugin.cluster.events import PATIENCE, WAITING, EventReporter, Target, event
from deviceplugin.cluster.keep import Keeper
from deviceplugin.cluster.pauses import LONGEST, LONGEST_FORBIDDEN, Pauses
from deviceplugin.cluster.standing import ANNOTATION, CONDITION, Standing, condition, standing, write
from deviceplugin.ledger import Ledger
from deviceplugin.model.errors import ClusterError, Trouble
from deviceplugin.model.health import Health, Sickness, Transition, Verdict
from deviceplugin.model.node import Node
from deviceplugin.model.snapshot import Snapshot
from tests.fake_api import FakeApi
from tests.strategies.nodes import card, cards

NODE = "worker-1"
UUID = card(3).uuid
BAD = Transition(
    at=1796098077.5,
    uuid=UUID,
    pci=card(3).pci,
    gpu_index=3,
    before=Verdict.HEALTHY,
    to=Verdict.UNHEALTHY,
    reason="xid-79",
    rule="health.fatal",
    detail="Xid 79 (GPU has fallen off the bus).",
)


def sick(**reasons: Sequence[str]) -> Health:
    return Health(
        sick=MappingProxyType(
            {u: tuple(Sickness(u, r, "lost", 0) for r in reasons[u]) for u in reversed(list(reasons))}
        )
    )


def test_standing_of_healthy_sick_and_unchecked_nodes() -> None:
    node = cards(2)
    assert standing(Snapshot(node)) == Standing("True", "AllGPUsHealthy", "all 2 GPUs are healthy", "")
    found = standing(Snapshot(node, health=sick(b=["xid-79", "lost", "lost"], a=["cordoned"], c=[])))
    assert found == Standing(
        "False", "GPUsUnhealthy", "a: cordoned; b: xid-79, lost, lost", '{"a": ["cordoned"], "b": ["xid-79", "lost"]}'
    )
    assert standing(Snapshot(node, health=Health(checked=False))) == Standing(
        "Unknown", "HealthNotChecked", "no source of GPU health can be read", ""
    )
    assert standing(Snapshot(Node())) is None


def test_a_long_list_is_cut_in_the_message_and_whole_in_the_annotation() -> None:
    health = sick(**{f"GPU-{n:032d}": ["xid-79"] for n in range(64)})
    found = standing(Snapshot(cards(1), health=health))
    assert found is not None
    assert len(found.message) == 1024
    assert found.message.endswith("...")
    assert found.sick.count("xid-79") == 64


def test_the_transition_time_stays_while_the_status_does() -> None:
    now = Standing("False", "GPUsUnhealthy", "a: lost", "")
    first = condition(now, None, 1796098077)
    assert first["lastTransitionTime"] == first["lastHeartbeatTime"] == "2026-12-01T04:07:57Z"
    later = condition(now, first, 1796098100)
    assert (later["lastTransitionTime"], later["lastHeartbeatTime"]) == (
        first["lastTransitionTime"],
        "2026-12-01T04:08:20Z",
    )
    assert condition(replace(now, status="True"), later, 1796098200)["lastTransitionTime"] == "2026-12-01T04:10:00Z"


def test_an_event_about_the_node() -> None:
    found = event(BAD, Target("Node", NODE, NODE), NODE)
    assert found["metadata"]["namespace"] == "default"
    assert found["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE}
    assert (found["type"], found["reason"]) == ("Warning", "GPUUnhealthy")
    assert found["message"] == f"GPU 3 ({UUID}, {card(3).pci}): xid-79: Xid 79 (GPU has fallen off the bus)."
    assert found["firstTimestamp"] == "2026-12-01T04:07:57Z"


def test_an_event_about_a_pod_and_a_long_story() -> None:
    back = replace(BAD, to=Verdict.HEALTHY, detail="x" * 2000)
    found = event(back, Target("Pod", "training-0", "1234", "ml"), NODE)
    assert found["metadata"]["namespace"] == found["involvedObject"]["namespace"] == "ml"
    assert (found["type"], found["reason"], len(found["message"])) == ("Normal", "GPUHealthy", 1024)
    other = event(back, Target("Pod", "training-0", "1234", "ml"), NODE)
    assert other["metadata"]["name"] != found["metadata"]["name"]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    with FakeApi() as server:
        server.books.add("nodes", NODE)
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
        yield server


def test_condition_and_annotation_are_written_beside_those_of_others(server: FakeApi) -> None:
    server.books.merge_status(NODE, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    async def job() -> None:
        async with Api(NODE, Ledger()) as api:
            await write(api, Standing("False", "GPUsUnhealthy", "a: lost", '{"a": ["lost"]}'), 1796098077)
            node = server.books.get("nodes", NODE)
            assert [one["type"] for one in node["status"]["conditions"]] == ["Ready", CONDITION]
            assert node["metadata"]["annotations"] == {ANNOTATION: '{"a": ["lost"]}'}
            await write(api, Standing("True", "AllGPUsHealthy", "all well", ""), 1796098078)

    asyncio.run(job())
    node = server.books.get("nodes", NODE)
    assert node["metadata"]["annotations"] == {}
    assert node["status"]["conditions"][1]["status"] == "True"


def report(
    server: FakeApi, *transitions: Transition, outcomes: int, holders: Sequence[tuple[str, str]] = ()
) -> dict[str, float]:
    """Has transitions told until so many outcomes are in the ledger; counts by outcome."""
    ledger = Ledger()

    async def nobody(uuid: str) -> Sequence[tuple[str, str]]:
        return holders

    def outcome() -> dict[str, float]:
        return {labels[0]: count for (name, labels), count in ledger.counts.items() if name == "cluster_events"}

    async def job() -> None:
        async with Api(NODE, ledger) as api:
            reporter = EventReporter(api, nobody, ledger, Pauses("events", first=0.01))
            for transition in transitions:
                reporter.tell(transition)
            task = asyncio.create_task(reporter.run())
            async with asyncio.timeout(20):
                while sum(outcome().values()) < outcomes:  # noqa: ASYNC110 - a ledger has nothing to wait for
                    await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(job())
    return outcome()


def now(transition: Transition) -> Transition:
    return replace(transition, at=time.time())


def test_a_pod_that_is_gone_needs_no_event(server: FakeApi) -> None:
    assert report(server, now(BAD), outcomes=2, holders=[("ml", "gone-0")]) == {"sent": 1, "dropped": 1}


def test_a_further_cause_is_no_news(server: FakeApi) -> None:
    again = replace(now(BAD), before=Verdict.UNHEALTHY)
    assert report(server, again, now(BAD), outcomes=1) == {"sent": 1}
    assert len(server.books.all("events")) == 1


def test_an_api_that_is_back_soon_gets_the_event(server: FakeApi) -> None:
    server.fail("create", "events", code=500, times=3)
    assert report(server, now(BAD), outcomes=1) == {"sent": 1}


@pytest.mark.parametrize("code", [403, 422])
def test_what_is_refused_is_not_sent_again(server: FakeApi, code: int) -> None:
    server.fail("create", "events", code=code)
    assert report(server, now(BAD), outcomes=1) == {"dropped": 1}
    assert server.count("create", "events") == 1


def test_old_news_is_no_news(server: FakeApi) -> None:
    server.fail("create", "events", code=500)
    old = replace(now(BAD), at=now(BAD).at - PATIENCE - 1)
    assert report(server, old, outcomes=1) == {"dropped": 1}


def test_of_a_flood_the_newest_are_told(server: FakeApi) -> None:
    flood = [replace(now(BAD), gpu_index=n) for n in range(WAITING + 5)]
    assert report(server, *flood, outcomes=WAITING + 5) == {"sent": WAITING, "dropped": 5}
    assert "GPU 5 " in server.books.all("events")[0]["message"]


def test_pauses_grow_to_a_cap_and_begin_anew_after_a_success() -> None:
    pauses = Pauses("x", chance=lambda: 1.0)
    absent = ClusterError("gone", Trouble.ABSENT)
    assert [pauses.failed(absent) for _ in range(8)] == [1, 2, 4, 8, 16, 32, LONGEST, LONGEST]
    assert pauses.failed(ClusterError("no", Trouble.FORBIDDEN)) == 256
    assert pauses.failed(ClusterError("no", Trouble.FORBIDDEN)) == LONGEST_FORBIDDEN
    pauses.worked()
    assert pauses.failed(absent) == 1
    assert Pauses("x", chance=lambda: 0.0).failed(absent) == 0.5


def test_each_kind_of_trouble_is_said_once_in_a_row(caplog: pytest.LogCaptureFixture) -> None:
    pauses = Pauses("publishing")
    with caplog.at_level(logging.INFO):
        for trouble in (Trouble.GONE, Trouble.ABSENT, Trouble.ABSENT, Trouble.FORBIDDEN, Trouble.GONE):
            pauses.failed(ClusterError("why", trouble))
        pauses.worked()
        pauses.worked()
        pauses.failed(ClusterError("why", Trouble.GONE))
        pauses.worked()
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "publishing is held up",
        "publishing is held up",
        "publishing works again",
    ]


def keep(wishes: list[Any], failures: list[ClusterError], **settings: Any) -> list[Any]:
    """What a keeper writes while the wishes come one after the other, the last one for good."""
    written: list[Any] = []

    async def job() -> None:
        done = asyncio.Event()

        async def apply(wish: Any) -> None:
            if failures:
                raise failures.pop(0)
            written.append(wish)

        def wanted() -> Any:
            if len(wishes) == 1:
                loop.call_soon_threadsafe(done.set)
                return wishes[0]
            return wishes.pop(0)

        loop = asyncio.get_running_loop()
        keeper = Keeper(wanted, apply, Pauses("keeping", first=0.01), **settings)
        task = asyncio.create_task(keeper.run())
        async with asyncio.timeout(10):
            while not done.is_set():
                keeper.changed()
                await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(job())
    return written


def test_only_what_changes_is_written_again() -> None:
    assert keep(["a", "a", None, "a", "b", "b", "end"], [])[:2] == ["a", "b"]


def test_a_change_that_does_not_count_is_not_written() -> None:
    assert keep([(1, 0), (1, 5), (2, 6), "end"], [], mark=lambda wish: wish[0])[:2] == [(1, 0), (2, 6)]


def test_a_failure_is_tried_again_with_what_is_wanted_then() -> None:
    failures = [ClusterError("gone", Trouble.ABSENT)]
    assert keep(["a", "b", "b", "end"], failures)[0] == "b"


def test_what_stands_is_written_again_from_time_to_time() -> None:
    assert keep(["a"] * 50 + ["end"], [], resync=0.005).count("a") >= 2
