"""M2: calls about one card hang, and nothing else stands still for it."""

import subprocess
import sys
from pathlib import Path

from tests.faults.ailing import AilingNode
from tests.faults.conftest import Make
from tests.node import ROOT
from tests.waiting import wait_until


def ageing(node: AilingNode) -> float:
    """Age of the last sample; it stays small while passes end."""
    return node.metric("sample_age_seconds") or 0.0


def left_out(node: AilingNode) -> float:
    """Scans that left a card out."""
    return node.metric("nvml_errors_total", call="left-out") or 0.0


def threads(node: AilingNode) -> int:
    return len(list(Path(f"/proc/{node.plugin.pid}/task").iterdir()))


def test_M2_one_card_that_hangs_is_unhealthy_and_the_others_go_on_being_scanned_checked_and_sampled(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.hang("nvml*", gpu=3)
    node.wait_ids({node.uuid(3)})
    line = node.said("GPU 3 is unhealthy", uuid=node.uuid(3), reason="unanswering", kind="lost")
    assert "Calls about this GPU hang (nvml" in line["message"]
    assert line["pci"] == node.status()["gpus"][3]["pci"]
    node.wait_metric("unhealthy", 1, uuid=node.uuid(3), reason="unanswering")
    # Checked: a state, an Xid; scanned: a link; sampled: figures that stay fresh.
    node.driver.remap(0, "failure")
    node.wait_ids({node.uuid(0), node.uuid(3)})
    node.driver.xid(1, 79, effects=False)
    node.wait_ids({node.uuid(0), node.uuid(1), node.uuid(3)})
    wait_until(lambda: ageing(node) < 0.5, what="a fresh sample")
    assert (node.metric("nvml_call_age_seconds", thread="nvml-probe") or 0) > 1
    node.driver.link(2, 0, up=False)
    node.said("GPU 2 is rank-last", reason="nvlink-down")
    assert node.admit("one").all_ids == (node.uuid(2),)
    held, scans = threads(node), left_out(node)
    wait_until(lambda: left_out(node) > scans + 5, what="more scans")
    assert threads(node) <= held + 1
    assert len(node.lines(message="GPU 3 ", uuid=node.uuid(3))) == 2, "where it goes, and that it hangs"
    assert not node.lines(message="failed, trying again")
    node.driver.remap(0, "none")
    node.driver.release()
    node.wait_ids({node.uuid(1)})
    assert "answers a whole scan again" in node.said("GPU 3 is healthy")["message"]
    node.wait_metric("nvml_call_age_seconds", 0, thread="nvml-probe")


def test_M2_a_command_that_waits_for_a_driver_that_hangs_says_so(make: Make) -> None:
    node = make()
    node.driver.hang("nvmlInit*")
    asked = subprocess.Popen(
        [sys.executable, "-m", "deviceplugin", "resources", "--driver=fake:hgx-a100-4"],
        env=node.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert asked.stderr is not None
        line = asked.stderr.readline()
        assert "still waiting for the driver" in line
        assert "Ctrl-\\" in line
        node.driver.release()
        assert asked.wait(10) == 0
    finally:
        asked.kill()
        asked.communicate()


def test_M2_a_hang_on_all_cards_is_no_cards_fault(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.hang("nvml*")
    blind = "health source 'states' cannot be read"
    wait_until(lambda: node.lines(message=blind), timeout=30, what=blind)
    assert [frame.unhealthy for frame in node.frames()] == [frozenset()]
    node.driver.release()
    node.said("health source 'states' can be read again")
    node.driver.xid(2, 79)
    node.wait_ids({node.uuid(2)})


def test_M2_a_call_that_hangs_on_one_card_only_is_enough_and_its_return_brings_the_card_back(make: Make) -> None:
    node = make("hgx-h100-8", config="health: {nvlink: ignore}\n")
    node.plugin.start()
    node.wait_healthy(8)
    node.driver.hang("nvmlDeviceGetNvLinkState", gpu=5)
    node.wait_ids({node.uuid(5)})
    assert "hang (nvmlDeviceGetNvLinkState)" in node.said("GPU 5 is unhealthy")["message"]
    node.driver.lose(2, silent=True)
    node.wait_ids({node.uuid(2), node.uuid(5)})
    node.driver.release()
    node.wait_ids({node.uuid(2)})
    node.driver.back(2)
    node.wait_healthy(8)


def test_M2_two_cards_that_hang_are_both_out_and_a_third_fault_is_still_seen(make: Make) -> None:
    node = make("hgx-h100-8")
    node.plugin.start()
    node.wait_healthy(8)
    for number in (1, 6):
        node.driver.hang("nvml*", gpu=number)
    node.wait_ids({node.uuid(1), node.uuid(6)})
    node.driver.remap(4, "failure")
    node.wait_ids({node.uuid(number) for number in (1, 4, 6)})
    node.driver.remap(4, "none")
    node.driver.release()
    node.wait_healthy(8)


def test_M2_a_card_that_hangs_when_the_process_begins_is_not_offered_until_it_answers(make: Make) -> None:
    node = make()
    node.driver.hang("nvml*", gpu=1)
    node.plugin.start()
    node.wait_healthy(3)
    assert "index 1: calls about this GPU hang (nvml" in node.said("index 1")["message"]
    node.driver.xid(2, 79, effects=False)
    node.wait_ids({node.uuid(2)})
    node.driver.release()
    node.wait_ids({node.uuid(2)}, {node.uuid(number) for number in (0, 1, 3)})
    node.driver.remap(1, "failure")
    node.wait_ids({node.uuid(1), node.uuid(2)})


def test_M2_the_only_card_hangs(make: Make) -> None:
    node = make("t4x1")
    node.plugin.start()
    node.wait_healthy(1)
    node.driver.hang("nvml*", gpu=0)
    node.wait_ids({node.uuid(0)})
    assert node.said("GPU 0 is unhealthy")["reason"] == "unanswering"
    node.driver.release()
    node.wait_healthy(1)
