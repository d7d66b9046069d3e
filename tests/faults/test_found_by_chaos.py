"""What random walks found, each as the shortest way to it."""

import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

import fake_nvml
from deviceplugin.kubelet.settings import Backoff
from deviceplugin.ledger import Phase
from deviceplugin.model.node import DriverState
from tests.drivers import opened
from tests.fake_kubelet import FakeKubelet
from tests.flows.running import GPU, Plugin, another_stream, offering, shares
from tests.flows.running import QUICK as QUICK_ENDPOINT
from tests.node import FakeNode
from tests.waiting import wait_until

QUICK = ("--rescan-interval=200ms", "--health-interval=200ms", "--health-quiet-period=100ms")


def test_R1_who_comes_between_the_end_of_the_stream_and_the_next_registration_is_not_the_kubelet(
    tmp_path: Path,
) -> None:
    patient = replace(QUICK_ENDPOINT, backoff=Backoff(first=1.0, cap=1.0, jitter=0))
    with FakeKubelet(tmp_path / "dp") as kubelet, Plugin(tmp_path / "dp", offering(gpu=shares()), patient) as plugin:
        for cut in range(2):
            kubelet.wait_for(GPU, healthy=8, streams=1)
            wait_until(lambda: plugin.endpoint().phase is Phase.STREAMING, what="the stream")
            kubelet.cut_stream(GPU)
            wait_until(lambda: plugin.notes.count("closed") > cut, what="its end")  # noqa: B023 - at once
        with another_stream(plugin.socket()) as frames:
            assert next(frames)
            kubelet.wait_for(GPU, healthy=8, streams=1)


def test_C1_a_configuration_that_changes_before_it_is_watched_is_taken_in(tmp_path: Path) -> None:
    with (
        FakeNode(tmp_path, "hgx-h100-8", [*QUICK, f"--config-file={tmp_path / 'config.yaml'}"]) as node,
        fake_nvml.attach(node.root) as fake,
    ):
        node.configure("version: v1\n")
        fake.hang()
        node.plugin.start()
        node.plugin.wait_for_log("configuration in force")
        node.configure("sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n")
        fake.release()
        node.wait_healthy(16)


def test_E4_a_card_that_was_lost_when_the_process_began_is_found_when_it_is_back(tmp_path: Path) -> None:
    with FakeNode(tmp_path, "hgx-h100-8", QUICK) as node, fake_nvml.attach(node.root) as fake:
        fake.lose(3, silent=True)
        node.plugin.start()
        node.wait_healthy(7)
        fake.back(3)
        node.wait_healthy(8)


def test_H2_a_card_that_was_lost_before_an_upgrade_is_well_when_it_answers_after_it(tmp_path: Path) -> None:
    with FakeNode(tmp_path, "hgx-h100-8", QUICK) as node, fake_nvml.attach(node.root) as fake:
        node.plugin.start()
        node.wait_healthy(8)
        fake.lose(3, silent=True)
        node.wait_healthy(7, 1)
        fake.driver("version", "590.10", force=True)
        fake.back(3)
        node.wait_healthy(8, timeout=20)
        assert "Traceback" not in node.plugin.log


def test_E1_a_driver_that_goes_away_during_a_scan_takes_nothing_with_it() -> None:
    with opened("hgx-h100-8-mig-1g") as machine:
        before = machine.scan()
        machine.fake.fault("nvmlSystemGetCudaDriverVersion", code=9)
        after = machine.scan(before)
    assert after.state is DriverState.FAILING
    assert after.gpus == before.gpus


@pytest.mark.parametrize("times", [1, 30])
def test_C2_hangups_while_the_process_begins_do_not_end_it(tmp_path: Path, times: int) -> None:
    with FakeNode(tmp_path) as node:
        node.plugin.start()
        status = Path(f"/proc/{node.plugin.pid}/status")
        wait_until(lambda: _minds_hangups(status.read_text()), what="the first moment in which SIGHUP does not kill")
        for _ in range(times):
            node.plugin.signal(signal.SIGHUP)
        node.wait_healthy(8)


def _minds_hangups(status: str) -> bool:
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigIgn:", "SigCgt:"))]
    return any(mask & 1 << signal.SIGHUP - 1 for mask in masks)


def test_R14_a_question_that_waits_when_the_process_ends_leaves_no_traceback(tmp_path: Path) -> None:
    import socket

    with FakeNode(tmp_path) as node:
        node.plugin.start()
        node.wait_healthy(8)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(node.control_socket()))
            client.sendall(b'{"ask": ')
            assert node.plugin.stop() == 0
        assert "Traceback" not in node.plugin.log
        assert " ERROR " not in node.plugin.log
