"""An API server that is silent, absent, forbidding or out of its mind: the plugin's main job does not notice."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.fake_api import FakeApi
from tests.fake_kubelet import Pod
from tests.node import GPU, FakeNode
from tests.ports import free_port, scrape
from tests.waiting import wait_until

NODE = "worker-1"
EVERYTHING = (
    "--cluster-config-label=true",
    "--cluster-events=true",
    "--cluster-condition=true",
    "--labels-publish=node",
)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as api:
        api.books.add("nodes", NODE)
        yield api


@contextmanager
def plugin(home: Path, kubeconfig: Path, *arguments: str) -> Iterator[FakeNode]:
    metrics = f"--metrics-address=127.0.0.1:{free_port()}"
    configs = home / "configs"
    configs.mkdir()
    (configs / "default").write_text("version: v1\n")
    environment = {"KUBECONFIG": str(kubeconfig), "NODE_NAME": NODE}
    options = [*EVERYTHING, f"--config-dir={configs}", "--health-interval=200ms", metrics, *arguments]
    with FakeNode(home, arguments=options, environment=environment) as node:
        yield node


def works(node: FakeNode) -> None:
    """The plugin's main job: a list, an allocation, a fault, an end in good time."""
    node.wait_healthy(8)
    node.kubelet.admit(Pod("training-0", containers={"main": {GPU: 4}}))
    node.control("xid", "7", "79")
    node.wait_healthy(7, 1)
    began = time.monotonic()
    assert node.plugin.stop() == 0
    assert time.monotonic() - began < 5
    assert "Traceback" not in node.plugin.log


TROUBLES: dict[str, dict[str, Any]] = {
    "silent": {"silent": True},
    "forbidding": {"code": 403},
    "overloaded": {"code": 429},
    "broken": {"code": 500},
    "confused": {"garbage": True},
    "in conflict": {"code": 409},
    "forgetful": {"code": 410},
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_the_main_job_does_not_notice(tmp_path: Path, api: FakeApi, trouble: str) -> None:
    api.fail("*", "*", **TROUBLES[trouble])
    with plugin(tmp_path, api.kubeconfig(tmp_path)) as node:
        node.plugin.start()
        wait_until(lambda: api.count("patch", "nodes"), what="a first request")
        works(node)


def test_an_api_that_is_not_there(tmp_path: Path) -> None:
    with FakeApi() as gone:
        kubeconfig = gone.kubeconfig(tmp_path)
    with plugin(tmp_path, kubeconfig) as node:
        node.plugin.start()
        node.plugin.wait_for_log("publishing node labels is held up: patch node: the Kubernetes API cannot be reached")
        works(node)


def test_no_credentials(tmp_path: Path) -> None:
    with plugin(tmp_path, tmp_path / "no-such-file") as node:
        node.plugin.start()
        node.plugin.wait_for_log("the door to the cluster stays closed for now: no credentials")
        works(node)


def test_a_token_that_is_refused(tmp_path: Path, api: FakeApi) -> None:
    with plugin(tmp_path, api.kubeconfig(tmp_path, token="expired")) as node:
        node.plugin.start()
        node.plugin.wait_for_log("give this service account the right to it")
        works(node)


def test_missing_rights_are_named_once_for_each_thing_and_asked_for_less_and_less(tmp_path: Path, api: FakeApi) -> None:
    api.fail("*", "*", code=403)
    with plugin(tmp_path, api.kubeconfig(tmp_path)) as node:
        node.plugin.start()
        wait_until(lambda: api.count("patch", "nodes") >= 4, timeout=20, what="four attempts")
        times = [one.at for one in api.requests if (one.verb, one.resource) == ("patch", "nodes")]
        pauses = [after - before for before, after in pairwise(times)]
        for pause, least in zip(pauses, (0.5, 1, 2), strict=False):
            assert pause >= least * 0.95
        lines = [line for line in node.plugin.log.splitlines() if "publishing node labels is held up" in line]
        assert len(lines) == 1
        assert 'cannot patch resource "nodes"' in lines[0]


def test_everything_comes_to_pass_when_the_api_is_back(tmp_path: Path, api: FakeApi) -> None:
    api.fail("*", "*", code=500)
    with plugin(tmp_path, api.kubeconfig(tmp_path)) as node:
        node.plugin.start()
        node.wait_healthy(8)
        node.control("xid", "3", "79")
        node.plugin.wait_for_log("telling events is held up")
        node.plugin.wait_for_log("publishing node labels is held up")
        api.mend()
        wait_until(lambda: api.books.all("events"), timeout=20, what="the event")
        wait_until(
            lambda: api.books.get("nodes", NODE)["metadata"].get("labels", {}).get("nvidia.com/gpu.healthy") == "7",
            timeout=20,
            what="the labels",
        )
        node.plugin.wait_for_log("publishing node labels works again")


def test_a_watch_that_breaks_or_grows_too_old_is_taken_up_again(tmp_path: Path, api: FakeApi) -> None:
    with plugin(tmp_path, api.kubeconfig(tmp_path)) as node:
        (tmp_path / "configs" / "shared").write_text(
            "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n"
        )
        node.plugin.start()
        node.wait_healthy(8)
        wait_until(lambda: api.count("watch", "nodes"), what="a watch")
        api.fail("streams", "nodes", times=1)
        api.books.forget_history()
        wait_until(lambda: api.count("watch", "nodes") >= 2, what="another watch")
        api.books.label(NODE, "nvidia.com/device-plugin.config", "shared")
        node.wait_healthy(16)


def test_requests_are_counted_by_result(tmp_path: Path, api: FakeApi) -> None:
    api.fail("patch", "nodes/status", code=403)
    with plugin(tmp_path, api.kubeconfig(tmp_path), "--metrics-interval=200ms") as node:
        node.plugin.start()
        node.plugin.wait_for_log("writing the node condition is held up")
        address = next(one for one in node.arguments if one.startswith("--metrics-address=")).partition("=")[2]
        refused = 'gpu_device_plugin_cluster_requests_total{request="patch node status",result="forbidden"} 1'
        wait_until(lambda: refused in scrape(address), what="the count")
        assert 'gpu_device_plugin_cluster_requests_total{request="patch node",result="success"}' in scrape(address)


def test_a_flood_of_faults_is_no_flood_of_requests(tmp_path: Path, api: FakeApi) -> None:
    api.fail("create", "events", code=403)
    with plugin(tmp_path, api.kubeconfig(tmp_path)) as node:
        node.plugin.start()
        node.wait_healthy(8)
        for gpu in range(8):
            node.control("xid", str(gpu), "79")
        node.wait_healthy(0, 8)
        node.plugin.wait_for_log("telling events is held up")
        # One that is refused is dropped and costs the pause; the others wait, and are not sent all the same.
        wait_until(lambda: api.count("create", "events") >= 2, what="two attempts")
        times = [one.at for one in api.requests if one.verb == "create"]
        assert times[1] - times[0] >= 0.45


def test_watches_that_end_at_once_are_begun_ever_more_seldom(tmp_path: Path, api: FakeApi) -> None:
    api.fail("watch", "nodes", empty=True)
    with plugin(tmp_path, api.kubeconfig(tmp_path)) as node:
        node.plugin.start()
        wait_until(lambda: api.count("watch", "nodes") >= 3, what="three watches")
        times = [request.at for request in api.requests if request.verb == "watch"]
        pauses = [after - before for before, after in pairwise(times)]
        assert pauses[0] > 0.9
        assert pauses[1] > 1.8
        works(node)
