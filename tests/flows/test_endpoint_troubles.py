"""One endpoint in trouble: what is tried, what is said, and how it comes back."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from deviceplugin.config.document import Registration
from deviceplugin.kubelet import server, sockets
from deviceplugin.kubelet.registration import Failure
from deviceplugin.ledger import Phase
from deviceplugin.model.errors import KubeletError
from tests.fake_kubelet import FakeKubelet
from tests.flows.running import GPU, QUICK, Plugin, another_stream, offering, shares
from tests.waiting import wait_until

OFFER = offering(gpu=shares())
BY_WATCHER = replace(QUICK, registration=Registration.WATCHER, kubelet_socket=None)


def streaming(kubelet: FakeKubelet, plugin: Plugin) -> None:
    kubelet.wait_for(GPU, healthy=8, streams=1)
    wait_until(lambda: plugin.endpoint().phase is Phase.STREAMING, what="the endpoint to see its stream")


def test_an_own_socket_that_vanishes_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, OFFER) as plugin:
        streaming(kubelet, plugin)
        before = plugin.socket()
        before.unlink()
        wait_until(lambda: plugin.endpoint().socket_path not in {None, before}, what="another socket")
        streaming(kubelet, plugin)
        assert kubelet.resources[GPU].endpoint == plugin.socket().name


def test_a_server_that_fails_its_self_check_twice_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answer = server.Server.ping
    failing: list[str] = []

    async def ping(self: server.Server, timeout: float) -> None:  # noqa: ASYNC109 - as the original
        if failing:
            raise KubeletError(failing.pop())
        await answer(self, timeout)

    monkeypatch.setattr(server.Server, "ping", ping)
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, OFFER, replace(QUICK, check_interval=0.05)) as plugin:
        streaming(kubelet, plugin)
        before = plugin.socket()
        failing.append("held up for a moment")
        wait_until(lambda: not failing, what="the check")
        streaming(kubelet, plugin)
        assert plugin.socket() == before
        failing.extend(["it does not answer"] * 3)
        wait_until(lambda: plugin.endpoint().socket_path not in {None, before}, what="another socket")
        streaming(kubelet, plugin)
    assert "it does not answer" in caplog.text


def test_a_socket_that_cannot_be_bound_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fresh = sockets.fresh_path
    wrong = [tmp_path / "absent" / "nvidia-gpu-00000000.sock"] * 2
    monkeypatch.setattr(sockets, "fresh_path", lambda *words: wrong.pop() if wrong else fresh(*words))
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, OFFER) as plugin:
        streaming(kubelet, plugin)
        assert plugin.notes.count("failed", GPU, Failure.NOT_SERVED) == 2
    assert "nvidia-gpu-00000000.sock: cannot listen" in caplog.text


def test_a_name_that_the_kubelet_refuses_is_said_in_its_words(tmp_path: Path) -> None:
    wrong = offering(**{"no/name": shares()})
    with FakeKubelet(tmp_path), Plugin(tmp_path, wrong) as plugin:
        wait_until(lambda: plugin.notes.count("failed", "nvidia.com/no/name", Failure.REFUSED), what="the refusal")
        assert "is not an extended resource name" in plugin.endpoint("nvidia.com/no/name").trouble


def test_a_stream_that_does_not_end_when_asked_costs_its_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeKubelet(tmp_path) as kubelet, Plugin(tmp_path, offering(gpu=shares(8, 400))) as plugin:
        kubelet.wait_for(GPU, healthy=3200, streams=1)
        before = plugin.socket()
        with another_stream(before):
            wait_until(lambda: plugin.notes.count("opened", GPU) == 2, what="a stream that nobody reads")
            for _ in range(3):
                plugin.publish(offering(gpu=shares(7, 400)))
                plugin.publish(offering(gpu=shares(8, 400)))
            kubelet.cut_stream(GPU)
            wait_until(lambda: plugin.endpoint().socket_path not in {None, before}, what="another socket")
            kubelet.wait_for(GPU, healthy=3200, streams=1)
    assert "Traceback" not in caplog.text


def test_a_long_absence_is_said_again_now_and_then(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Plugin(tmp_path, OFFER, replace(QUICK, check_interval=0.02)) as plugin:
        wait_until(lambda: plugin.notes.count("failed", GPU, Failure.ABSENT) >= 8, what="reminders")
        said = caplog.text.count("the kubelet is absent")
        assert said <= 4
        assert "no socket at" in plugin.endpoint().trouble


def test_the_plugin_watcher_that_never_asks_and_the_one_that_refuses(tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    registry.mkdir()
    kubelet = FakeKubelet(tmp_path / "dp", plugins_registry=registry)
    kubelet.faults.refuse_version = True
    with Plugin(registry, OFFER, replace(BY_WATCHER, check_interval=0.05)) as plugin:
        wait_until(lambda: plugin.notes.count("failed", GPU, Failure.SILENT) >= 2, what="the silence")
        assert f"it has not asked for the socket in {registry}" in plugin.endpoint().trouble
        with kubelet:
            wait_until(lambda: plugin.notes.count("failed", GPU, Failure.REFUSED), what="the refusal")
            kubelet.faults.refuse_version = False
            kubelet.restart()
            kubelet.wait_for(GPU, healthy=8, streams=1)


def test_the_plugin_watcher_that_never_opens_the_stream_finds_another_socket(tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    registry.mkdir()
    kubelet = FakeKubelet(tmp_path / "dp", plugins_registry=registry)
    kubelet.faults.never_watch = True
    with kubelet, Plugin(registry, OFFER, BY_WATCHER) as plugin:
        wait_until(lambda: len({r.endpoint for r in kubelet.registrations}) >= 2, what="another socket")
        kubelet.faults.never_watch = False
        kubelet.wait_for(GPU, healthy=8, streams=1)
        assert len(list(registry.iterdir())) == 1
        assert plugin.endpoint().trouble == ""
