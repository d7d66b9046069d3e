"""Faults of registration, one test per line R1 to R14: what operators have seen, and what must happen instead."""

import contextlib
import itertools
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from deviceplugin.files import watch
from deviceplugin.kubelet.registration import Failure
from deviceplugin.ledger import Phase
from tests.fake_kubelet import FakeKubelet
from tests.fake_kubelet.scripted_plugin import ScriptedPlugin, listed
from tests.flows.running import GPU, QUICK, Plugin, another_stream, descriptors, offering, shares, with_sick
from tests.node import FakeNode
from tests.waiting import wait_until

OFFER = offering(gpu=shares())


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakeKubelet]:
    with FakeKubelet(tmp_path / "dp") as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "dp"


def streaming(kubelet: FakeKubelet, plugin: Plugin, resource: str = GPU) -> None:
    """Waits until both sides agree that there is exactly one stream, with the newest list."""
    wanted = len(plugin.snapshot.inventory.resources[resource].shares)
    sick = len(plugin.snapshot.health.sick)
    kubelet.wait_for(resource, healthy=wanted - sick, unhealthy=sick, streams=1)
    wait_until(lambda: plugin.endpoint(resource).phase is Phase.STREAMING, what="the endpoint to see its stream")


def test_R1_a_stream_that_the_kubelet_ends_is_registered_again_within_seconds(
    kubelet: FakeKubelet, folder: Path
) -> None:
    with Plugin(folder, OFFER) as plugin:
        streaming(kubelet, plugin)
        for turn in range(1, 4):
            began = time.monotonic()
            kubelet.cut_stream(GPU)
            wait_until(lambda: len(kubelet.registrations) == turn + 1, what="a registration anew")  # noqa: B023
            streaming(kubelet, plugin)
            assert time.monotonic() - began < 2


def test_R1_an_onlooker_does_not_hide_that_the_kubelets_stream_is_lost(kubelet: FakeKubelet, folder: Path) -> None:
    with Plugin(folder, OFFER) as plugin:
        streaming(kubelet, plugin)
        with another_stream(plugin.socket()) as frames:
            assert next(frames)
            kubelet.cut_stream(GPU)
            wait_until(lambda: len(kubelet.registrations) == 2, what="a registration anew")
            streaming(kubelet, plugin)


def test_R1_the_pauses_between_registrations_grow(kubelet: FakeKubelet, folder: Path) -> None:
    with Plugin(folder, OFFER, replace(QUICK, backoff=replace(QUICK.backoff, first=0.1, jitter=0))) as plugin:
        for turn in range(1, 5):
            wait_until(lambda: len(kubelet.registrations) == turn, what="a registration anew")  # noqa: B023
            streaming(kubelet, plugin)
            kubelet.cut_stream(GPU)
        wait_until(lambda: len(kubelet.registrations) == 5, what="the last registration")
    times = [registration.time for registration in kubelet.registrations]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[0] < 0.1 <= pauses[1] < 0.2 <= pauses[2] < 0.4 <= pauses[3]


@pytest.mark.parametrize("pauses", [(0.0,), (0.02,), (0.05,), (0.0, 0.02, 0.05, 0.0, 0.01)], ids=str)
def test_R2_one_live_stream_in_the_end_when_the_socket_is_made_again_after_register(
    kubelet: FakeKubelet, folder: Path, pauses: tuple[float, ...]
) -> None:
    kubelet.faults.restarts_after_register = pauses
    with Plugin(folder, OFFER) as plugin:
        wait_until(lambda: len(kubelet.registrations) >= 2, what="a registration with the last kubelet")
        wait_until(lambda: kubelet.running and not kubelet.faults.restarts_after_register, what="the last restart")
        streaming(kubelet, plugin)
        assert len(list(folder.glob("nvidia-*.sock"))) == 1
        plugin.publish(with_sick(OFFER, "GPU-1"))
        streaming(kubelet, plugin)


def test_R2_one_live_stream_in_the_end_when_the_folder_is_replaced(kubelet: FakeKubelet, folder: Path) -> None:
    with Plugin(folder, OFFER) as plugin:
        streaming(kubelet, plugin)
        for _ in range(3):
            kubelet.replace_folder()
            streaming(kubelet, plugin)
        assert [path.name for path in folder.glob("nvidia-*.sock")] == [plugin.socket().name]


def test_R3_a_kubelet_that_never_opens_the_stream_is_registered_with_again(
    kubelet: FakeKubelet, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kubelet.faults.never_watch = True
    with Plugin(folder, OFFER) as plugin:
        wait_until(lambda: len(kubelet.registrations) == 3, what="two more registrations")
        assert plugin.endpoint().phase is not Phase.STREAMING
        assert plugin.notes.count("failed", GPU, Failure.UNWATCHED) >= 2
        kubelet.faults.never_watch = False
        streaming(kubelet, plugin)
        assert plugin.endpoint().trouble == ""
    times = [registration.time for registration in kubelet.registrations]
    assert times[1] - times[0] >= QUICK.stream_deadline
    assert "did not ask for its devices (ListAndWatch) within 0.5 s" in caplog.text


def test_R4_a_stream_that_fails_ends_alone_and_the_next_one_begins_with_the_whole_list(
    kubelet: FakeKubelet, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Plugin(folder, offering(gpu=shares(), small=shares())) as plugin:
        streaming(kubelet, plugin)
        streaming(kubelet, plugin, "nvidia.com/small")
        before = plugin.socket()
        with another_stream(before) as frames:
            assert next(frames)
        wait_until(lambda: plugin.notes.count("closed", GPU) == 1, what="the failed stream to end")
        plugin.publish(with_sick(plugin.snapshot, "GPU-2"))
        streaming(kubelet, plugin)
        assert plugin.socket() == before
        kubelet.cut_stream(GPU)
        wait_until(lambda: len(kubelet.registrations) == 3, what="a registration anew")
        streaming(kubelet, plugin)
        assert len(kubelet.resources[GPU].frames[-1].devices) == 8
        assert plugin.socket() == before
        assert len(kubelet.resources["nvidia.com/small"].frames) == 2
    assert "Traceback" not in caplog.text


def test_R5_every_stream_sees_the_newest_list_and_a_reader_that_stands_still_holds_up_nobody(
    kubelet: FakeKubelet, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Plugin(folder, offering(gpu=shares(8, 400))) as plugin:
        kubelet.wait_for(GPU, healthy=3200, streams=1)
        with another_stream(plugin.socket()) as still:
            wait_until(lambda: plugin.notes.count("opened", GPU) == 2, what="a second stream")
            for turn in range(30):
                plugin.publish(with_sick(plugin.snapshot, f"GPU-{turn % 8}"))
            plugin.publish(with_sick(plugin.snapshot, "GPU-0", "GPU-1"))
            kubelet.wait_for(GPU, healthy=2400, unhealthy=800)
            sizes = [len(next(still))]
            plugin.publish(offering(gpu=shares(2, 400)))
            kubelet.wait_for(GPU, healthy=800, unhealthy=0)
            while sizes[-1] > sizes[0] / 2:
                sizes.append(len(next(still)))
            assert len(sizes) < 32, "a slow reader is to skip to the newest"
            for turn in range(5):
                plugin.publish(with_sick(offering(gpu=shares(8, 400)), f"GPU-{turn % 8}"))
            began = time.monotonic()
            plugin.leave()
            assert time.monotonic() - began < 0.3
    assert "Traceback" not in caplog.text


def test_R5_a_change_while_there_is_no_stream_is_in_the_first_list_of_the_next(
    kubelet: FakeKubelet, folder: Path
) -> None:
    with Plugin(folder, OFFER) as plugin:
        streaming(kubelet, plugin)
        kubelet.stop()
        wait_until(lambda: plugin.endpoint().phase is not Phase.STREAMING, what="the stream to end")
        plugin.publish(with_sick(OFFER, "GPU-4"))
        kubelet.start()
        view = kubelet.wait_for(GPU, healthy=7, unhealthy=1, streams=1)
        assert [len(frame.unhealthy) for frame in view.frames] == [1]


def test_R6_a_hundred_streams_leave_nothing_behind(kubelet: FakeKubelet, folder: Path) -> None:
    with Plugin(folder, OFFER) as plugin:
        streaming(kubelet, plugin)

        def open_and_close(times: int) -> None:
            for _ in range(times):
                with another_stream(plugin.socket()) as frames:
                    assert next(frames)
            wait_until(lambda: plugin.endpoint()._service.streams == 1, what="the streams to end")

        open_and_close(5)
        before = (plugin.tasks(), threading.active_count(), descriptors())
        open_and_close(100)
        wait_until(
            lambda: (plugin.tasks(), threading.active_count()) == before[:2] and descriptors() <= before[2] + 2,
            what=f"tasks, threads and descriptors to be as before, {before}",
        )
        streaming(kubelet, plugin)


def test_R7_a_newcomer_takes_over_and_is_registered_again_within_a_second_of_the_leavers_end(
    kubelet: FakeKubelet, folder: Path
) -> None:
    with Plugin(folder, offering()) as host, Plugin(folder, OFFER, beside=host) as leaver:
        streaming(kubelet, leaver)
        with Plugin(folder, OFFER, beside=host) as newcomer:
            kubelet.wait_for(GPU, healthy=8, streams=2)
            assert kubelet.resources[GPU].endpoint == newcomer.socket().name
            kept = newcomer.socket()
            leaver.leave()
            left = time.monotonic()
            wait_until(lambda: len(kubelet.registrations) == 3, what="the newcomer to register again", timeout=1)
            streaming(kubelet, newcomer)
            assert time.monotonic() - left < 1
            wait_until(lambda: not newcomer.endpoint()._registrar.contested, what="the leaver to be gone")
            wait_until(lambda: time.monotonic() - left > 0.5, what="half a second more", interval=0.1)
            assert len(kubelet.registrations) == 3, "registered again without need"
            assert newcomer.socket() == kept
            assert kept.exists()


@pytest.mark.parametrize("leaves", ["in order", "dead"])
def test_R7_an_old_process_takes_the_resource_back_when_the_newcomer_goes_first(
    kubelet: FakeKubelet, folder: Path, leaves: str
) -> None:
    with Plugin(folder, OFFER) as plugin:
        streaming(kubelet, plugin)
        newcomer = ScriptedPlugin(folder / "nvidia-gpu-0000000c.sock", GPU, listed(["GPU-0"]))
        newcomer.register(kubelet.socket)
        kubelet.wait_for(GPU, healthy=1, streams=2)
        wait_until(lambda: plugin.endpoint()._registrar.contested, what="the newcomer to be seen")
        newcomer.end_streams()
        newcomer._server.close(leave_file=leaves == "dead")
        newcomer._server.join()
        left = time.monotonic()
        streaming(kubelet, plugin)
        assert time.monotonic() - left < 1
        assert kubelet.resources[GPU].endpoint == plugin.socket().name


def test_R7_sockets_of_the_dead_are_removed_and_those_of_the_living_stay(kubelet: FakeKubelet, folder: Path) -> None:
    dead = [folder / "nvidia-gpu-00000001.sock", folder / "nvidia-mig-1g-10gb-0000000a.sock"]
    foreign = [folder / "other.sock", folder / "nvidia-gpu.sock"]
    for path in [*dead, *foreign]:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as living:
        alive = folder / "nvidia-gpu-00000002.sock"
        living.bind(str(alive))
        living.listen(1)
        with Plugin(folder, OFFER) as plugin:
            wait_until(lambda: not any(path.exists() for path in dead), what="sockets of the dead to go")
            streaming(kubelet, plugin)
            assert alive.exists()
            assert plugin.socket().exists()
        assert alive.exists()
        assert all(path.exists() for path in foreign)


def test_R7_another_plugin_that_keeps_taking_the_resource_is_named(
    kubelet: FakeKubelet, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Plugin(folder, OFFER) as plugin:
        streaming(kubelet, plugin)
        with rival_process(folder) as pid:
            for _ in range(3):
                with ScriptedPlugin(folder / "nvidiaGPU-1.sock", GPU, listed(["GPU-0"])) as rival:
                    rival.register(kubelet.socket)
                    wait_until(lambda: len(plugin.endpoint()._registrar._rivals.present) == 2, what="it to be seen")
                    rival.end_streams()
                streaming(kubelet, plugin)
            wait_until(lambda: plugin.notes.count("contested", GPU), what="the rival to be noticed")
        streaming(kubelet, plugin)
    named = [event[2] for event in plugin.notes.events if event[0] == "contested"]
    assert all(f"nvidia-gpu.sock (pid {pid}, python" in words for words in named)
    assert "nvidiaGPU-1.sock" in named[0]
    assert "another plugin seems to register the same resource" in caplog.text


@contextlib.contextmanager
def rival_process(folder: Path) -> Iterator[int]:
    """Another process that listens on nvidia-gpu.sock."""
    code = (
        f"import socket,sys; s=socket.socket(socket.AF_UNIX); s.bind({str(folder / 'nvidia-gpu.sock')!r}); s.listen()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; print('on', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"on\n"
        yield process.pid


@pytest.fixture
def no_inotify(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(_hint: Callable[[], None]) -> watch.Hints:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr(watch, "_inotify", exhausted)


@pytest.mark.usefixtures("no_inotify")
def test_R8_without_inotify_a_socket_made_again_is_noticed_within_2_s(
    kubelet: FakeKubelet, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Plugin(folder, OFFER) as plugin:
        streaming(kubelet, plugin)
        assert plugin.watcher.polling
        kubelet.stop()
        wait_until(lambda: plugin.endpoint().phase is not Phase.STREAMING, what="the stream to end")
        kubelet.start()
        began = time.monotonic()
        streaming(kubelet, plugin)
        assert time.monotonic() - began < 2
        kubelet.restart()
        streaming(kubelet, plugin)
    assert caplog.text.count("cannot be watched by inotify") == 1


def test_R9_absent_silent_and_refusing_kubelets_have_a_line_each_and_it_recovers(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir()
    kubelet = FakeKubelet(folder)
    with Plugin(folder, OFFER, replace(QUICK, register_timeout=0.2)) as plugin:
        wait_until(lambda: plugin.notes.count("failed", GPU, Failure.ABSENT), what="the absence to be noticed")
        assert "the kubelet is absent: no socket at" in caplog.text
        kubelet.faults.silent = True
        with kubelet:
            wait_until(lambda: plugin.notes.count("failed", GPU, Failure.SILENT) >= 2, what="the silence")
            assert "the kubelet is silent: no answer to Register within 0.2 s" in caplog.text
            kubelet.faults.silent = False
            kubelet.faults.refuse_version = True
            wait_until(lambda: plugin.notes.count("failed", GPU, Failure.VERSION) >= 2, what="the refusal")
            assert "the kubelet refuses API version v1beta1" in caplog.text
            assert "refuses API version" in plugin.endpoint().trouble
            kubelet.faults.refuse_version = False
            streaming(kubelet, plugin)
            assert plugin.endpoint().trouble == ""


def test_R9_a_socket_that_nobody_listens_on_is_an_absent_kubelet(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kubelet = FakeKubelet(folder).start()
    kubelet.kill()
    with Plugin(folder, OFFER) as plugin:
        wait_until(lambda: plugin.notes.count("failed", GPU, Failure.ABSENT) >= 3, what="attempts")
        kubelet.start()
        streaming(kubelet, plugin)
        kubelet.stop()
    assert "the kubelet is absent: nobody answers at" in caplog.text


def test_R9_attempts_grow_seldom_and_the_log_does_not_fill(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    kubelet = FakeKubelet(folder)
    kubelet.faults.refuse_version = True
    settings = replace(QUICK, backoff=replace(QUICK.backoff, first=0.01, cap=0.05))
    with kubelet, Plugin(folder, OFFER, settings) as plugin:
        wait_until(lambda: len(kubelet.refusals) >= 20, what="twenty attempts")
        before = time.process_time()
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 0.5, what="half a second", interval=0.1)
        assert time.process_time() - before < 0.25
        attempts = plugin.notes.count("failed", GPU, Failure.VERSION)
    lines = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) <= attempts.bit_length()


def test_R10_a_rescan_that_changes_nothing_for_a_resource_leaves_its_stream_alone(
    kubelet: FakeKubelet, folder: Path
) -> None:
    with Plugin(folder, OFFER) as plugin:
        streaming(kubelet, plugin)
        plugin.publish(offering(gpu=shares(), small=shares()))
        streaming(kubelet, plugin, "nvidia.com/small")
        plugin.publish(offering(gpu=shares(), small=shares(4)))
        kubelet.wait_for("nvidia.com/small", healthy=4)
        plugin.publish(offering(gpu=shares()))
        kubelet.wait_for("nvidia.com/small", healthy=0, streams=0)
        assert len(kubelet.resources[GPU].frames) == 1
        assert [r.resource for r in kubelet.registrations].count(GPU) == 1


def test_R11_a_resource_that_becomes_empty_sends_an_empty_list_before_its_server_goes(
    kubelet: FakeKubelet, folder: Path
) -> None:
    with Plugin(folder, OFFER) as plugin:
        streaming(kubelet, plugin)
        plugin.publish(offering(gpu=()))
        view = kubelet.wait_for(GPU, healthy=0, unhealthy=0, streams=1)
        assert view.capacity == 0
        plugin.publish(offering())
        view = kubelet.wait_for(GPU, healthy=0, streams=0)
        assert [len(frame.devices) for frame in view.frames] == [8, 0]
        wait_until(lambda: not list(folder.glob("nvidia-*")), what="the socket to go")


def test_R13_the_folder_is_a_setting_and_the_log_says_which_path_was_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = tmp_path / "k0s" / "device-plugins"
    with Plugin(elsewhere, OFFER) as plugin:
        wait_until(lambda: plugin.notes.count("failed", GPU, Failure.NOT_SERVED), what="the failure")
        assert f"{elsewhere}: no such folder" in caplog.text
        with FakeKubelet(elsewhere) as kubelet:
            streaming(kubelet, plugin)
        wait_until(lambda: f"the kubelet is absent: no socket at {elsewhere}/kubelet.sock" in caplog.text, what="path")


def test_R14_the_own_socket_answers_whatever_kubelet_and_gpus_do(kubelet: FakeKubelet, folder: Path) -> None:
    with Plugin(folder, with_sick(OFFER, *(f"GPU-{n}" for n in range(8)))) as plugin:
        kubelet.wait_for(GPU, healthy=0, unhealthy=8, streams=1)
        plugin.call(plugin.endpoint().ping())
        kubelet.stop()
        wait_until(lambda: plugin.endpoint().phase is Phase.SERVING, what="the endpoint to be unready")
        plugin.call(plugin.endpoint().ping())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FakeNode]:
    with FakeNode(tmp_path, "hgx-h100-8", [f"--config-file={tmp_path / 'config.yaml'}"]) as node:
        node.configure("version: v1\n")
        yield node


def test_R2_the_process_has_one_stream_after_restarts_in_a_row(node: FakeNode) -> None:
    node.kubelet.faults.restarts_after_register = (0.0, 0.03, 0.05, 0.0)
    node.plugin.start()
    wait_until(lambda: len(node.kubelet.registrations) >= 2, what="a registration with a later kubelet")
    node.kubelet.wait_for(GPU, healthy=8, streams=1)
    node.control("xid", "3", "79")
    node.wait_healthy(7, 1)
    assert "Traceback" not in node.plugin.log


@pytest.mark.parametrize("end", ["SIGTERM", "SIGKILL"])
def test_R7_a_rolling_update_of_two_processes(node: FakeNode, end: str) -> None:
    node.plugin.start()
    node.kubelet.wait_for(GPU, healthy=8, streams=1)
    newcomer = node.another_plugin().start()
    node.kubelet.wait_for(GPU, healthy=8, streams=2)
    kept = node.kubelet.resources[GPU].endpoint
    assert node.kubelet.registrations[0].endpoint != kept
    node.plugin.signal(getattr(signal, end))
    left = time.monotonic()
    wait_until(lambda: len(node.kubelet.registrations) == 3, what="the newcomer to register again", timeout=1)
    node.kubelet.wait_for(GPU, healthy=8, streams=1)
    assert time.monotonic() - left < 1
    node.plugin.wait()
    assert node.kubelet.resources[GPU].endpoint == kept, "the newcomer keeps its socket"
    assert (node.kubelet_folder / kept).exists()
    assert newcomer.running


def test_R7_a_newcomer_that_crashes_leaves_the_resource_to_the_old_process(node: FakeNode) -> None:
    node.plugin.start()
    node.kubelet.wait_for(GPU, healthy=8, streams=1)
    own = node.kubelet.resources[GPU].endpoint
    newcomer = node.another_plugin().start()
    node.kubelet.wait_for(GPU, healthy=8, streams=2)
    node.plugin.wait_for_log("served by another process too")
    newcomer.kill()
    left = time.monotonic()
    wait_until(lambda: node.kubelet.registrations[-1].endpoint == own, what="the old process to take it back")
    node.kubelet.wait_for(GPU, healthy=8, streams=1)
    assert time.monotonic() - left < 5


def test_R9_R13_a_process_without_a_kubelet_names_the_path_and_waits_quietly(tmp_path: Path) -> None:
    with FakeNode(tmp_path) as node:
        node.kubelet.stop()
        node.plugin.start()
        node.plugin.wait_for_log(f"the kubelet is absent: no socket at {node.kubelet_folder / 'kubelet.sock'}")
        node.kubelet.start()
        node.kubelet.wait_for(GPU, healthy=8, streams=1)
        assert node.plugin.log.count("the kubelet is absent") == 1


def test_R10_a_rescan_of_the_process_closes_no_stream(node: FakeNode) -> None:
    node.plugin.start()
    node.kubelet.wait_for(GPU, healthy=8, streams=1)
    node.configure("version: v1\nhealth:\n  quietPeriod: 5s\n")
    node.plugin.signal(signal.SIGHUP)
    node.plugin.wait_for_log("configuration in force", count=2)
    node.control("xid", "3", "79")
    node.wait_healthy(7, 1)
    assert len(node.kubelet.registrations) == 1
    assert len(node.kubelet.resources[GPU].frames) == 2


def test_R12_a_list_beyond_the_kubelets_limit_is_refused_with_the_number_that_fits(node: FakeNode) -> None:
    sharing = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %d}]}}\n"
    node.configure(sharing % 20000)
    assert node.plugin.start().wait() == 2
    assert node.kubelet.registrations == []
    refused = re.search(r"the kubelet reads 4194304; set replicas to (\d+) or fewer", node.plugin.log)
    assert refused, node.plugin.log
    fitting = int(refused[1])
    node.configure(sharing % fitting)
    node.plugin.start()
    node.kubelet.wait_for(GPU, healthy=8 * fitting, streams=1, timeout=30)


def test_R14_the_process_is_alive_without_the_kubelets_folder(node: FakeNode) -> None:
    """A restart of the pod would not bring the folder."""
    node.kubelet.stop()
    node.kubelet_folder.rename(node.kubelet_folder.with_name("elsewhere"))
    node.plugin.start()
    node.plugin.wait_for_log("no such folder")
    asked = [f"--control-socket={node.control_socket()}"]
    assert node.command("health", "live", *asked).stdout.startswith("live: yes")
    assert node.command("health", "ready", *asked, check=False).returncode == 1
    node.kubelet_folder.with_name("elsewhere").rename(node.kubelet_folder)
    node.kubelet.start()
    node.wait_healthy(8)


def test_R14_the_process_is_alive_without_a_kubelet_and_ready_only_with_a_stream(node: FakeNode) -> None:
    node.plugin.start()
    node.kubelet.wait_for(GPU, healthy=8, streams=1)
    asked = [f"--control-socket={node.control_socket()}"]
    wait_until(lambda: not node.command("health", "ready", *asked, check=False).returncode, what="readiness")
    assert node.command("health", "live", *asked).stdout.startswith("live: yes")
    node.control("xid", "3", "79")
    node.wait_healthy(7, 1)
    assert node.command("health", "ready", *asked, check=False).returncode == 0, "a sick GPU is no fault of the plugin"
    node.kubelet.stop()
    wait_until(lambda: node.command("health", "ready", *asked, check=False).returncode == 1, what="unreadiness")
    assert "the kubelet is absent" in node.command("health", "ready", *asked, check=False).stdout
    assert node.command("health", "live", *asked).stdout.startswith("live: yes")
    assert node.plugin.running
