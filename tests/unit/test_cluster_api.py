"""The requests to the Kubernetes API and what becomes of failures, against the pretend server."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.cluster.api import Api, NodeView
from deviceplugin.cluster.labels import AsFeature, OnNode
from deviceplugin.cluster.pauses import Pauses
from deviceplugin.cluster.selection import LabelWatch
from deviceplugin.config.names import CONFIG_LABEL as LABEL
from deviceplugin.ledger import Ledger
from deviceplugin.model.errors import ClusterError, Trouble
from tests.fake_api import FakeApi

NODE = "worker-1"
COUNT, PRODUCT = "nvidia.com/gpu.count", "nvidia.com/gpu.product"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    with FakeApi() as server:
        server.books.add("nodes", NODE, metadata={"labels": {"a": "b"}})
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
        yield server


def ask(job: Callable[[Api], Awaitable[Any]], ledger: Ledger | None = None, deadline: float = 5) -> Any:
    async def run() -> Any:
        async with Api(NODE, ledger or Ledger(), deadline) as api:
            return await job(api)

    return asyncio.run(run())


def owners(server: FakeApi) -> dict[str, set[str]]:
    return server.books.owners("nodes", NODE)


def labels(server: FakeApi) -> dict[str, str]:
    return dict(server.books.get("nodes", NODE)["metadata"]["labels"])


@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        ({"code": 401}, Trouble.FORBIDDEN),
        ({"code": 403}, Trouble.FORBIDDEN),
        ({"code": 404}, Trouble.MISSING),
        ({"code": 409}, Trouble.CONFLICT),
        ({"code": 410}, Trouble.GONE),
        ({"code": 422}, Trouble.REFUSED),
        ({"code": 429}, Trouble.BUSY),
        ({"code": 500}, Trouble.ABSENT),
        ({"code": 503}, Trouble.ABSENT),
        ({"silent": True}, Trouble.SLOW),
        ({"garbage": True}, Trouble.GARBAGE),
    ],
    ids=str,
)
def test_failures_are_told_apart_and_counted(server: FakeApi, fault: dict[str, Any], trouble: Trouble) -> None:
    server.fail("get", "nodes", **fault)
    ledger = Ledger()
    with pytest.raises(ClusterError, match="get node: ") as caught:
        ask(lambda api: api.read_node(), ledger, deadline=0.3)
    assert caught.value.trouble is trouble
    assert ledger.counts == {("cluster_requests", ("get node", trouble.value)): 1}


def test_a_server_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeApi() as gone:
        monkeypatch.setenv("KUBECONFIG", str(gone.kubeconfig(tmp_path)))
    with pytest.raises(ClusterError, match="cannot be reached") as caught:
        ask(lambda api: api.read_node())
    assert caught.value.trouble is Trouble.ABSENT


def test_without_credentials_there_is_no_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ClusterError, match="no credentials for the Kubernetes API"):
        Api(NODE, Ledger())


def test_what_is_read_of_a_node(server: FakeApi) -> None:
    server.books.merge_status(NODE, {"status": {"conditions": [{"type": "GPUHealthy", "status": "True"}]}})
    ledger = Ledger()
    view = ask(lambda api: api.read_node(), ledger)
    assert view.labels == {"a": "b"}
    assert view.conditions["GPUHealthy"]["status"] == "True"
    assert view.version == server.books.get("nodes", NODE)["metadata"]["resourceVersion"]
    assert ledger.counts == {("cluster_requests", ("get node", "success")): 1}


def test_requests_are_not_logged(server: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ask(lambda api: api.read_node())
    assert caplog.records == []


def test_labels_of_others_are_left_alone_and_ours_go_when_no_longer_wanted(server: FakeApi) -> None:
    server.books.label(NODE, "nvidia.com/gpu.present", "true", "gpu-operator")

    async def job(api: Api) -> None:
        way = OnNode(api)
        await way.publish({COUNT: "8", PRODUCT: "NVIDIA-L40S", "nvidia.com/gpu.present": "no", "a": "mine"})
        assert labels(server) == {"a": "b", "nvidia.com/gpu.present": "true", COUNT: "8", PRODUCT: "NVIDIA-L40S"}
        await way.publish({COUNT: "7"})
        assert labels(server) == {"a": "b", "nvidia.com/gpu.present": "true", COUNT: "7"}

    ask(job)
    assert owners(server)["gpu-device-plugin-labels"] == {f".metadata.labels.{COUNT}"}


def test_a_label_that_another_holds_is_left_to_it_and_said_once(
    server: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    server.books.label(NODE, PRODUCT, "theirs", "nfd-master")

    async def job(api: Api) -> None:
        way = OnNode(api)
        for count in ("8", "7"):
            await way.publish({COUNT: count, PRODUCT: "ours"})

    ask(job)
    assert labels(server) == {"a": "b", COUNT: "7", PRODUCT: "theirs"}
    [record] = [one for one in caplog.records if "left to its owner" in one.message]
    assert PRODUCT in record.message
    assert "nfd-master" in record.message


def test_a_conflict_about_something_else_is_a_failure(server: FakeApi) -> None:
    server.fail("patch", "nodes", code=409)
    with pytest.raises(ClusterError) as caught:
        ask(lambda api: OnNode(api).publish({COUNT: "8"}))
    assert caught.value.trouble is Trouble.CONFLICT


class EverNewOwners:
    """An API in which each label that is left finds another one in conflict."""

    def __init__(self) -> None:
        self.asked = 0

    async def apply_node(self, metadata: dict[str, dict[str, str]], manager: str) -> None:
        self.asked += 1
        name = next(iter(metadata["labels"]))
        raise ClusterError("patch node", Trouble.CONFLICT, {f".metadata.labels.{name}": "held"})


def test_conflicts_without_end_are_given_up() -> None:
    api: Any = EverNewOwners()
    with pytest.raises(ClusterError, match="ever new managers"):
        asyncio.run(OnNode(api).publish({f"nvidia.com/gpu.{n}": "1" for n in range(9)}))
    assert api.asked == 3


def test_a_node_feature_object_replaces_a_leftover(server: FakeApi) -> None:
    name = f"nvidia-features-for-{NODE}"
    server.books.apply(
        ("nodefeatures", "gpu-system", name),
        {
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeature",
            "metadata": {"name": name},
            "spec": {"features": {"attributes": {}, "flags": {}, "instances": {}}, "labels": {"old": "1"}},
        },
        "gpu-feature-discovery",
        force=True,
    )
    ask(lambda api: AsFeature(api).publish({COUNT: "8", "a": "not-ours"}))
    found = server.books.get("nodefeatures", name, "gpu-system")
    assert found["spec"]["labels"] == {COUNT: "8"}
    assert found["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": NODE}


def follow(server: FakeApi, enough: int, between: Callable[[list[str]], None]) -> list[str]:
    """The values that a label watch tells; `between` acts after each."""
    told: list[str] = []

    async def job(api: Api) -> None:
        done = asyncio.Event()

        def chosen(value: str) -> None:
            told.append(value)
            between(told)
            if len(told) == enough:
                done.set()

        task = asyncio.create_task(LabelWatch(api, chosen, Pauses("choosing", first=0.01)).run())
        async with asyncio.timeout(10):
            await done.wait()
        task.cancel()
        await asyncio.wait([task])

    ask(job)
    return told


def test_the_label_is_told_at_first_and_then_when_it_changes(server: FakeApi) -> None:
    def act(told: list[str]) -> None:
        server.books.label(NODE, "unrelated", str(len(told)))
        server.books.label(NODE, LABEL, ["one", "two", None, None][len(told) - 1])

    assert follow(server, 4, act) == ["", "one", "two", ""]


@pytest.mark.parametrize("how", [{"code": 410}, {"code": 500}, {"garbage": True}])
def test_a_watch_that_cannot_be_had_is_tried_again(server: FakeApi, how: dict[str, Any]) -> None:
    server.fail("watch", "nodes", times=2, **how)

    def act(told: list[str]) -> None:
        if len(told) == 1:
            server.books.label(NODE, LABEL, "one")

    assert follow(server, 2, act) == ["", "one"]


def test_a_version_too_old_in_the_stream_begins_anew(server: FakeApi) -> None:
    def act(told: list[str]) -> None:
        if len(told) == 1:
            server.books.label(NODE, LABEL, "one")
        elif len(told) == 2:
            server.books.forget_history()
            server.books.label(NODE, LABEL, "two")

    assert follow(server, 3, act) == ["", "one", "two"]


def test_a_watch_is_not_trusted_beyond_its_period(server: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deviceplugin.cluster.api.WATCH_PERIOD", 0)
    monkeypatch.setattr("deviceplugin.cluster.api._GRACE", 0.2)
    server.fail("watch", "nodes", silent=True)
    views: list[NodeView] = []

    async def job(api: Api) -> None:
        first = await api.read_node()
        async for view in api.watch_node(first.version):
            views.append(view)  # noqa: PERF401 - the end is what is tested

    ask(job)
    assert views == []
