"""Faults of health, H1 to H11: what operators have seen, and what must happen instead, through the whole process."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from deviceplugin.files.sickness import NAME
from tests.faults.ailing import AilingNode
from tests.faults.conftest import Make
from tests.node import GPU
from tests.waiting import wait_until

LOST, NOT_SUPPORTED, UNKNOWN = (
    pynvml.NVML_ERROR_GPU_IS_LOST,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_UNKNOWN,
)
GPU_4 = "hgx-a100-4"
EIGHTFOLD = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 8}]}}\n"


def migs(node: AilingNode, resource: str) -> dict[str, tuple[int, int, int]]:
    """GPU index, GI and CI by id of a resource of MIG instances."""
    ids = set(node.kubelet.resources[resource].devices)
    return {
        mig["uuid"]: (gpu["index"], mig["gi"], mig["ci"])
        for gpu in node.status()["gpus"]
        for mig in gpu["instances"]
        if {id_.split("::")[0] for id_ in ids} >= {mig["uuid"]}
    }


# H1


def test_H1_an_xid_of_a_shared_gpu_takes_out_every_replica_and_no_other(make: Make) -> None:
    node = make(config=EIGHTFOLD)
    node.plugin.start()
    node.wait_healthy(32)
    node.driver.xid(2, 79)
    node.wait_ids({f"{node.uuid(2)}::{replica}" for replica in range(8)})
    assert len(node.health()[0]) == 24
    assert {len(frame.unhealthy) for frame in node.frames()} <= {0, 8}, "a list between took out some replicas only"


def test_H1_an_xid_of_a_whole_card_takes_out_all_its_instances_and_their_replicas(make: Make) -> None:
    sharing = "sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-2g.10gb, replicas: 2}]}}\n"
    node = make("hgx-a100-4", "--mig-strategy=mixed", config=sharing)
    for number in range(2):
        node.driver.mig(number, ["2g.10gb", "2g.10gb", "1g.5gb"])
    node.plugin.start()
    pairs, small = "nvidia.com/mig-2g.10gb", "nvidia.com/mig-1g.5gb"
    node.wait_healthy(8, resource=pairs)
    where = migs(node, pairs) | migs(node, small)
    node.driver.xid(1, 79)
    node.wait_ids({f"{u}::{n}" for u in migs(node, pairs) for n in (0, 1) if where[u][0] == 1}, resource=pairs)
    node.wait_ids({uuid for uuid in migs(node, small) if where[uuid][0] == 1}, resource=small)
    assert (len(node.health(pairs)[0]), len(node.health(small)[0])) == (4, 1)


@pytest.mark.parametrize("given", ["gi and ci", "gi alone", "ci alone"])
def test_H1_an_xid_of_an_instance_takes_out_that_instance_and_no_sibling(make: Make, given: str) -> None:
    node = make("hgx-a100-4", "--mig-strategy=mixed")
    node.driver.mig(0, ["3g.20gb", "3g.20gb"])
    node.plugin.start()
    resource = "nvidia.com/mig-3g.20gb"
    node.wait_healthy(2, resource=resource)
    where = migs(node, resource)
    victim, (_, gi, ci) = min(where.items())
    if given == "ci alone":
        # Both instances have compute instance 0: an event that names only that is about both.
        node.driver.xid(0, 94, ci=ci)
        node.wait_ids(where, resource=resource)
        return
    node.driver.xid(0, 94, gi=gi, ci=ci if given == "gi and ci" else None)
    node.wait_ids({victim}, resource=resource)
    assert node.health(GPU) == (frozenset(node.driver.uuids()[1:]), frozenset())


# H2


def test_H2_an_application_xid_changes_nothing(make: Make) -> None:
    node = make(config=EIGHTFOLD)
    node.plugin.start()
    node.wait_healthy(32)
    for xid in (13, 31, 43, 45, 68, 109):
        node.driver.xid(1, xid)
    node.wait_metric("xid_total", 1, uuid=node.uuid(1), xid="109")
    assert [frame.unhealthy for frame in node.frames()] == [frozenset()]


def test_H2_a_recoverable_xid_ends_after_a_quiet_period_and_is_announced(make: Make) -> None:
    node = make(GPU_4, "--health-quiet-period=500ms")
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.xid(1, 94)
    node.wait_ids({node.uuid(1)})
    node.wait_healthy(4)
    first, sick, well = (frame.time for frame in node.frames())
    assert well - sick >= 0.5
    back = node.said("GPU 1 is healthy", uuid=node.uuid(1), reason="xid-94")
    assert "quiet period is over" in back["message"]
    assert first < sick


def test_H2_a_fatal_xid_does_not_end_because_nothing_is_heard_or_the_card_answers(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.xid(1, 79, effects=False)
    node.wait_ids({node.uuid(1)})
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1, what="three quiet periods and scans", interval=0.05)
    assert node.health()[1] == {node.uuid(1)}
    node.driver.reset(1, force=True)
    node.wait_healthy(4)
    assert "a reset was seen" in node.said("GPU 1 is healthy", reason="xid-79")["message"]


def test_H2_a_reset_that_leaves_something_pending_is_not_enough(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.xid(1, 48)
    node.wait_ids({node.uuid(1)})
    node.driver.remap(1, "failure")
    node.driver.reset(1, force=True)
    node.said("GPU 1 is", reason="remap-failure")
    node.said("recovery-action is over", uuid=node.uuid(1))
    assert not node.lines(message="xid-48 is over")
    node.driver.remap(1, "none")
    node.wait_healthy(4)


def test_H2_flapping_makes_the_quiet_period_grow(make: Make) -> None:
    node = make(GPU_4, "--health-quiet-period=200ms")
    node.plugin.start()
    node.wait_healthy(4)
    for _ in range(4):
        node.driver.xid(0, 94)
        node.wait_ids({node.uuid(0)})
        node.wait_healthy(4)
    times = [frame.time for frame in node.frames()][1:]
    out = [well - sick for sick, well in zip(times[::2], times[1::2], strict=True)]
    assert len(out) == 4
    assert out[0] < out[1] < out[2] < out[3]
    assert out[3] > 4 * out[0]
    assert "1.6 s have passed" in node.said("GPU 0 is unhealthy", reason="xid-94")["message"]


def test_H2_a_lost_gpu_is_back_when_it_answers_a_whole_scan_again(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.lose(2, silent=True)
    node.wait_ids({node.uuid(2)})
    assert node.said("GPU 2 is unhealthy")["reason"] == "lost"
    node.driver.back(2)
    node.wait_healthy(4)


# H3


def saved(node: AilingNode) -> str:
    file = node.home / "state" / NAME
    return file.read_text() if file.exists() else ""


def pending(node: AilingNode) -> None:
    node.driver.recovery(1, 1)


STATES_AT_START: dict[str, tuple[str, Callable[[AilingNode], None]]] = {
    "remap-failure": ("hgx-a100-4", lambda node: node.driver.remap(1, "failure")),
    "recovery-action": ("hgx-a100-4", pending),
    "lost": ("hgx-a100-4", lambda node: node.driver.fault("nvmlDeviceGetMemoryInfo", gpu=1, code=LOST)),
    "ecc-uncorrectable": ("dgx1-v100-8", lambda node: node.driver.ecc(1)),
}


@pytest.mark.parametrize("reason", STATES_AT_START)
def test_H3_what_is_known_at_start_is_in_the_first_list(make: Make, reason: str) -> None:
    machine, break_ = STATES_AT_START[reason]
    node = make(machine)
    break_(node)
    node.plugin.start()
    node.wait_ids({node.uuid(1)})
    assert [frame.unhealthy for frame in node.frames()] == [{node.uuid(1)}]
    assert node.said("GPU 1 is unhealthy")["reason"] == reason


@pytest.mark.parametrize(
    ("machine", "reason"), [("hgx-a100-4", "remap-pending"), ("dgx1-v100-8", "retired-pages-pending")]
)
def test_H3_what_waits_for_a_reset_at_start_ranks_last_or_counts_by_policy(
    make: Make, machine: str, reason: str
) -> None:
    node = make(machine)
    if reason == "remap-pending":
        node.driver.remap(1, "pending")
    else:
        node.driver.retire(1, "pending")
    node.plugin.start()
    node.said("GPU 1 is rank-last", reason=reason)
    node.kubelet.wait_for(GPU, unhealthy=0, streams=1)
    node.configure("health: {remapPending: unhealthy}\n")
    node.wait_ids({node.uuid(1)})


def test_H3_a_plugin_restart_does_not_wash_a_bad_gpu(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.xid(1, 79, effects=False)
    node.wait_ids({node.uuid(1)})
    wait_until(lambda: node.uuid(1) in saved(node), what="the sickness in the state file")
    node.plugin.kill()
    node.plugin.start()
    wait_until(lambda: len(node.kubelet.registrations) == 2, what="a registration anew")
    node.kubelet.wait_for(GPU, healthy=3, unhealthy=1, streams=1)
    assert node.frames()[-1].unhealthy == {node.uuid(1)}
    assert {len(f.unhealthy) for f in node.frames() if f.endpoint == node.frames()[-1].endpoint} == {1}
    assert "remembered from before this process began" in node.lines(message="GPU 1 is unhealthy")[-1]["message"]


def test_H3_kubelet_restarts_and_configuration_changes_do_not_wash_it_either(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.xid(1, 79, effects=False)
    node.wait_ids({node.uuid(1)})
    node.kubelet.restart()
    node.kubelet.wait_for(GPU, healthy=3, unhealthy=1, streams=1)
    assert [frame.unhealthy for frame in node.frames()] == [{node.uuid(1)}]
    node.configure(EIGHTFOLD)
    node.wait_ids({f"{node.uuid(1)}::{n}" for n in range(8)})
    node.configure("resources: {gpus: [{pattern: '*', name: a100}]}\n")
    node.wait_ids({node.uuid(1)}, resource="nvidia.com/a100")


def test_H3_what_the_policy_ignores_for_a_while_counts_again_also_after_a_restart(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.xid(3, 74, effects=False)
    node.wait_ids({node.uuid(3)})
    node.configure("health: {fatal: [79], ignored: [74]}\n")
    node.wait_healthy(4)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1, what="three quiet periods and ten readings", interval=0.05)
    node.plugin.restart()
    wait_until(lambda: len(node.kubelet.registrations) == 2, what="a registration anew")
    node.wait_healthy(4)
    assert node.uuid(3) in saved(node)
    node.configure("version: v1\n")
    node.wait_ids({node.uuid(3)})
    assert node.lines(message="GPU 3 is unhealthy")[-1]["kind"] == "reset-required"
    node.driver.reset(3, force=True)
    node.wait_healthy(4)


def test_H3_without_a_state_folder_the_driver_alone_is_judged_and_that_is_said(make: Make) -> None:
    node = make(GPU_4, "--state-dir=/proc/nowhere")
    node.driver.remap(0, "failure")
    node.plugin.start()
    node.wait_ids({node.uuid(0)})
    assert "judged by the driver's state alone" in node.said("the state file cannot be")["message"]
    node.driver.xid(1, 79, effects=False)
    node.wait_ids({node.uuid(0), node.uuid(1)})
    node.plugin.restart()
    wait_until(lambda: len(node.kubelet.registrations) == 2, what="a registration anew")
    node.wait_ids({node.uuid(0)})


def test_H3_a_state_file_of_garbage_is_named_and_replaced(make: Make) -> None:
    node = make()
    state = node.home / "state"
    state.mkdir()
    (state / NAME).write_text("{")
    node.plugin.start()
    node.wait_healthy(4)
    assert node.said("state file: it is no JSON")["path"] == str(state / NAME)
    node.driver.xid(1, 79)
    wait_until(lambda: node.uuid(1) in saved(node), what="the sickness in the file")


# H4


def test_H4_the_table_in_force_is_logged_and_exported_and_changes_without_restart(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    assert "ignored 13, 31, 43" in node.said("Xids in force")["message"]
    node.wait_metric("xid_class", 1, xid="79", **{"class": "fatal"})
    node.driver.xid(0, 31)
    node.driver.xid(1, 79, effects=False)
    node.wait_ids({node.uuid(1)})
    node.configure("health: {fatal: [31], ignored: [79], recoverable: [], unknownXid: ignore}\n")
    node.wait_healthy(4)
    node.wait_metric("xid_class", 1, xid="79", **{"class": "ignored"})
    node.wait_metric("xid_class", 1, xid="other", **{"class": "ignored"})
    assert node.status()["config"]["xids"] == {"fatal": ["31"], "recoverable": [], "ignored": ["79", "other"]}
    node.driver.xid(2, 31)
    node.wait_ids({node.uuid(2)})
    node.driver.xid(3, 4711)
    node.wait_metric("xid_total", 1, uuid=node.uuid(3), xid="4711")
    assert node.health()[1] == {node.uuid(2)}
    assert len(node.kubelet.registrations) == 1


def test_H4_an_unknown_xid_is_fatal_by_default(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.xid(0, 4711, effects=False)
    node.wait_ids({node.uuid(0)})
    assert node.said("GPU 0 is unhealthy", xid=4711)["rule"] == "health.unknownXid"


@pytest.mark.parametrize(
    ("disabled", "enabled", "sick"),
    [("79", "", {1, 3}), ("xids", "48", {1, 3}), ("xids", "", {3}), ("all", "", set()), ("", "", {0, 1, 3})],
)
def test_H4_upstreams_variables_still_work(make: Make, disabled: str, enabled: str, sick: set[int]) -> None:
    node = make()
    node.plugin.environment |= {"DP_DISABLE_HEALTHCHECKS": disabled, "DP_ENABLE_HEALTHCHECKS": enabled}
    node.driver.remap(3, "failure")
    node.plugin.start()
    node.kubelet.wait_for(GPU, streams=1)
    node.driver.xid(0, 79, effects=False)
    node.driver.xid(1, 48, effects=False)
    node.wait_metric("xid_total", 1, uuid=node.uuid(1), xid="48")
    expected = {node.uuid(number) for number in sick}
    node.wait_ids(expected, set(node.driver.uuids()) - expected)


# H5


POLICIES: dict[str, tuple[str, str, str, Callable[[AilingNode], None]]] = {
    "remapPending": (GPU_4, "rank-last", "remap-pending", lambda node: node.driver.remap(1, "pending")),
    "remapFailure": (GPU_4, "unhealthy", "remap-failure", lambda node: node.driver.remap(1, "failure")),
    "recoveryAction": (GPU_4, "unhealthy", "recovery-action", lambda node: node.driver.recovery(1, 1)),
    "nvlink": ("hgx-h100-8", "rank-last", "nvlink-down", lambda node: node.driver.link(1, 0, up=False)),
    "fabric": ("hgx-h100-8", "rank-last", "fabric", lambda node: node.driver.fabric(1, "in-progress")),
    "ecc": ("dgx1-v100-8", "unhealthy", "ecc-uncorrectable", lambda node: node.driver.ecc(1)),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_H5_states_count_by_a_policy_that_can_be_set(make: Make, policy: str) -> None:
    machine, default, reason, break_ = POLICIES[policy]
    node = make(machine)
    node.plugin.start()
    node.kubelet.wait_for(GPU, unhealthy=0, streams=1)
    break_(node)
    node.said(f"GPU 1 is {default}", reason=reason, uuid=node.uuid(1), rule=f"health.{policy}")
    more = "" if policy != "ecc" else ", fatal: [62]"
    node.configure(f"health: {{{policy}: ignore{more}}}\n")
    wait_until(lambda: not node.status()["gpus"][1]["causes"], what="nothing to count under the policy ignore")
    node.wait_ids(set())
    node.configure(f"health: {{{policy}: unhealthy{more}}}\n")
    node.wait_ids({node.uuid(1)})
    assert reason in {cause["reason"] for cause in node.status()["gpus"][1]["causes"]}


def test_H5_a_gpu_that_is_ranked_last_is_healthy_and_taken_last(make: Make) -> None:
    node = make()
    node.driver.remap(0, "pending")
    node.plugin.start()
    node.wait_healthy(4)
    node.wait_metric("ranked_last", 1, uuid=node.uuid(0), reason="remap-pending")
    first = node.admit("three", 3)
    assert set(first.all_ids) == {node.uuid(number) for number in (1, 2, 3)}
    assert node.admit("one").all_ids == (node.uuid(0),)


def test_H5_an_ecc_event_counts_where_rows_are_not_remapped_until_a_reset(make: Make) -> None:
    node = make("dgx1-v100-8")
    node.plugin.start()
    node.wait_healthy(8)
    node.driver.ecc(1, "corrected", 100)
    node.driver.ecc(2)
    node.wait_ids({node.uuid(2)})
    node.driver.reset(2, force=True)
    node.wait_healthy(8)


def test_H5_volatile_ecc_errors_do_not_count_where_rows_are_remapped(make: Make) -> None:
    node = make()
    node.driver.ecc(2)
    node.plugin.start()
    node.wait_healthy(4)
    assert node.frames()[0].unhealthy == frozenset()


# H6


def test_H6_a_transition_is_one_log_line_one_metric_and_one_line_of_the_status_page(make: Make) -> None:
    node = make(GPU_4, "--health-quiet-period=1s")
    node.plugin.start()
    node.wait_healthy(4)
    before = time.time()
    node.driver.xid(1, 94)
    node.wait_ids({node.uuid(1)})
    node.wait_metric("unhealthy", 1, uuid=node.uuid(1), reason="xid-94")
    assert before - 1 < (node.metric("unhealthy_since_timestamp_seconds", uuid=node.uuid(1)) or 0) < time.time() + 1
    node.wait_healthy(4)
    node.wait_metric("health_transitions_total", 1, uuid=node.uuid(1), to="healthy", reason="xid-94")
    assert node.metric("unhealthy", uuid=node.uuid(1)) is None
    page = node.status()["transitions"]
    assert len(page) == 2
    for shown, to in zip(page, ("healthy", "unhealthy"), strict=True):
        assert node.metric("health_transitions_total", uuid=node.uuid(1), to=to, reason="xid-94") == 1
        (line,) = node.lines(message=f"GPU 1 is {to}")
        same = {key: line[key] for key in ("uuid", "pci", "reason", "rule", "xid")}
        assert same == {key: shown[key] for key in same}
        assert (same["uuid"], same["xid"], same["rule"]) == (node.uuid(1), 94, "health.recoverable")
        assert same["pci"].endswith(":00.0")
        assert shown["detail"] in line["message"]
        assert before - 1 < shown["at"] < time.time() + 1


# H7


def test_H7_event_waits_that_fail_again_and_again_neither_spin_nor_flood_nor_condemn(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.fault("nvmlEventSetWait_v2", code=UNKNOWN)
    said = node.said("health source 'events' cannot be read")["message"]
    assert "this plugin's own access to the driver is at fault" in said
    assert "nvmlEventSetWait_v2 answered UNKNOWN (999)" in said
    used = cpu_seconds(node)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1, what="a second of failures", interval=0.1)
    assert cpu_seconds(node) - used < 0.6
    assert len(node.lines(message="nvmlEventSetWait_v2")) <= 3
    assert [frame.unhealthy for frame in node.frames()] == [frozenset()]
    node.driver.clear()
    node.said("Xid events are heard again")
    node.said("health source 'events' can be read again")
    node.driver.xid(1, 79)
    node.wait_ids({node.uuid(1)})


def cpu_seconds(node: AilingNode) -> float:
    fields = Path(f"/proc/{node.plugin.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_H7_the_hardware_is_blamed_where_one_card_alone_does_not_answer(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    for call in ("nvmlDeviceGetRemappedRows", "nvmlDeviceGetFieldValues"):
        node.driver.fault(call, gpu=1, code=UNKNOWN)
    node.wait_ids({node.uuid(1)})
    assert "the hardware is at fault" in node.said("health source 'states'")["message"]
    assert node.said("GPU 1 is unhealthy")["reason"] == "unanswering"
    node.driver.clear()
    node.wait_healthy(4)


@pytest.mark.parametrize("nodes", ["there", "missing"])
def test_H7_the_plugins_own_access_is_blamed_where_all_cards_answer_the_same(make: Make, nodes: str) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    if nodes == "missing":
        for path in (node.root / "dev").glob("nvidia[0-9]"):
            path.unlink()
    for call in ("nvmlDeviceGetRemappedRows", "nvmlDeviceGetFieldValues"):
        node.driver.fault(call, code=pynvml.NVML_ERROR_NO_PERMISSION)
    said = node.said("health source 'states' cannot be read")["message"]
    assert "this plugin's own access to the driver is at fault" in said
    assert "NO_PERMISSION (4)" in said
    assert ("cannot open the device nodes" in said) == (nodes == "missing")
    assert [frame.unhealthy for frame in node.frames()] == [frozenset()]
    node.driver.clear()
    node.said("health source 'states' can be read again")


def test_H7_with_every_call_hanging_answers_go_on_from_memory_and_the_age_tells(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.hang()
    wait_until(lambda: (node.metric("nvml_call_age_seconds", thread="nvml-probe") or 0) > 0.5, what="a call that ages")
    began = time.monotonic()
    assert len(set(node.admit("two", 2).all_ids)) == 2
    assert len(set(node.admit("one", 1).all_ids)) == 1
    assert node.is_("live")
    assert node.status()["resources"][0]["healthy"] == 4
    assert time.monotonic() - began < 1
    node.kubelet.restart()
    node.kubelet.wait_for(GPU, healthy=4, streams=1)
    wait_until(lambda: not node.is_("ready"), timeout=30, what="unreadiness, once a pass over all cards has failed")
    assert node.is_("live")
    node.driver.release()
    wait_until(lambda: node.is_("ready"), what="readiness")
    node.driver.xid(3, 79)
    node.wait_ids({node.uuid(3)})
    node.wait_metric("nvml_call_age_seconds", 0, thread="nvml-probe")


EVERYWHERE = {
    "every call": ("nvml*",),
    "the version and every card": ("nvmlSystemGetDriverVersion", "nvmlDevice*"),
    "the version and one card's handle": ("nvmlSystemGetDriverVersion", "nvmlDeviceGetHandleByIndex*"),
}


@pytest.mark.parametrize("what", EVERYWHERE)
def test_H7_a_driver_that_answers_errors_everywhere_takes_no_gpu_away(make: Make, what: str) -> None:
    node = make("hgx-a100-4", "--vanished-grace=300ms")
    node.plugin.start()
    node.wait_healthy(4)
    wait_until(lambda: node.is_("ready"), what="readiness")
    for call in EVERYWHERE[what]:
        node.driver.fault(call, code=UNKNOWN, gpu=3 if "Handle" in call else None)

    def scans() -> float:
        return sum(
            node.metric("nvml_errors_total", call=call) or 0 for call in ("nvmlSystemGetDriverVersion", "nvmlInit")
        )

    wait_until(lambda: scans() > 4, what="scans that fail")
    if what != "the version and one card's handle":
        wait_until(lambda: not node.is_("ready"), what="unreadiness")
    assert node.status()["node"]["driver"] == "580.95.05"
    assert not node.lines(message="vanished")
    assert {one["uuid"] for one in node.lines(message="does not say who it is")} <= set(node.driver.uuids())
    node.driver.clear()
    wait_until(lambda: node.is_("ready"), what="readiness again")
    assert [frame.unhealthy for frame in node.frames()] == [frozenset()]


# H8


def blind(node: AilingNode) -> None:
    """Neither events nor states can be read."""
    node.driver.fault("nvmlEventSetCreate", code=UNKNOWN)
    node.driver.fault("nvmlDeviceGetRemappedRows", code=pynvml.NVML_ERROR_UNINITIALIZED)


def test_H8_a_health_check_that_cannot_start_is_said_counted_and_tried_again(make: Make) -> None:
    node = make()
    blind(node)
    node.plugin.start()
    node.wait_healthy(4)
    node.wait_metric("health_checked", 0)
    assert "health.onCheckFailure is keep" in node.said("GPUs are not checked")["message"]
    assert node.status()["node"]["health_checked"] is False
    node.driver.clear()
    node.wait_metric("health_checked", 1)
    node.said("GPUs are checked again")
    node.driver.xid(0, 79)
    node.wait_ids({node.uuid(0)})


def test_H8_by_policy_gpus_that_nobody_can_check_are_unhealthy(make: Make) -> None:
    node = make(config="health: {onCheckFailure: unhealthy}\n")
    blind(node)
    node.plugin.start()
    node.wait_ids(node.driver.uuids())
    assert node.said("GPU 0 is unhealthy")["rule"] == "health.onCheckFailure"
    node.configure("health: {onCheckFailure: keep}\n")
    node.wait_healthy(4)
    node.configure("health: {onCheckFailure: unhealthy}\n")
    node.wait_ids(node.driver.uuids())
    node.driver.clear()
    node.wait_healthy(4)


def test_H8_a_driver_that_goes_away_leaves_nothing_checked(make: Make) -> None:
    node = make(config="health: {onCheckFailure: unhealthy}\n")
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.driver("unloaded", force=True)
    node.wait_ids(node.driver.uuids())
    assert not node.is_("ready")
    assert node.is_("live")
    node.driver.driver("present", force=True)
    node.wait_healthy(4)


def test_H8_a_wait_for_events_that_hangs_is_said_once_and_counts_as_a_source_that_stopped(make: Make) -> None:
    node = make(config="health: {onCheckFailure: unhealthy}\n")
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.hang("nvmlEventSetWait*")
    wait_until(lambda: (node.metric("nvml_call_age_seconds", thread="nvml-events") or 0) > 1, what="a wait that ages")
    node.driver.xid(3, 48, effects=False)
    wait_until(lambda: node.lines(message="'events' cannot be read"), timeout=20, what="the line of a wait that hangs")
    (line,) = node.lines(message="Xids are not heard, the wait for them hangs in the driver")
    assert line["level"] == "warning"
    assert "drain and reboot the node" in line["message"]
    assert len(node.health()[0]) == 4, "the states are still read"
    node.driver.fault("nvmlDeviceGetRemappedRows", code=pynvml.NVML_ERROR_UNINITIALIZED)
    node.wait_metric("health_checked", 0)
    node.wait_ids(node.driver.uuids())
    node.driver.clear()
    node.said("health source 'events' can be read again")
    node.wait_ids({node.uuid(3)})
    assert node.lines(message="Xids are not heard") == [line]


def test_H8_cards_without_events_are_served_and_named(make: Make) -> None:
    node = make()
    node.driver.fault("nvmlDeviceGetSupportedEventTypes", gpu=1, code=NOT_SUPPORTED)
    node.plugin.start()
    node.wait_healthy(4)
    line = node.said("no Xid events of this GPU", uuid=node.uuid(1))
    assert "NOT_SUPPORTED" in line["message"]
    node.driver.xid(0, 79)
    node.wait_ids({node.uuid(0)})


# H9


def test_H9_what_cannot_be_told_makes_no_gpu_bad_and_none_good(make: Make) -> None:
    node = make()
    node.driver.remap(1, "failure")
    node.plugin.start()
    node.wait_ids({node.uuid(1)})
    node.driver.fault("nvmlDeviceGetRemappedRows", code=UNKNOWN)
    node.driver.remap(1, "none")
    reads = node.metric("nvml_errors_total", call="nvmlDeviceGetRemappedRows") or 0
    wait_until(
        lambda: (node.metric("nvml_errors_total", call="nvmlDeviceGetRemappedRows") or 0) > reads + 20,
        what="several readings that cannot tell",
    )
    assert node.health()[1] == {node.uuid(1)}
    assert len(node.frames()) == 1
    node.driver.clear()
    node.wait_healthy(4)


# H10


def test_H10_a_cordon_in_the_configuration_takes_a_gpu_out_and_back_without_restart(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    pci = node.status()["gpus"][2]["pci"]
    node.configure(f"health: {{cordon: [{{device: 1, reason: waits for a fan}}, {{device: '{pci}'}}]}}\n")
    node.wait_ids({node.uuid(1), node.uuid(2)})
    assert "waits for a fan" in node.said("GPU 1 is unhealthy", reason="cordoned", rule="health.cordon[0]")["message"]
    node.configure("health: {cordon: [{device: 1}, {device: GPU-of-another-node}]}\n")
    node.wait_ids({node.uuid(1)})
    assert "names no GPU" in node.said("GPU-of-another-node")["message"]
    node.configure("version: v1\n")
    node.wait_healthy(4)
    assert "health.cordon does not name the device any more" in node.said("GPU 1 is healthy")["message"]
    assert len(node.kubelet.registrations) == 1


def test_H10_a_real_fault_during_a_cordon_survives_it(make: Make) -> None:
    node = make(config="health: {cordon: [{device: 1}]}\n")
    node.plugin.start()
    node.wait_ids({node.uuid(1)})
    node.driver.xid(1, 79, effects=False)
    node.said("Xid 79", uuid=node.uuid(1))
    node.configure("version: v1\n")
    assert "still unhealthy for other reasons" in node.said("cordoned is over")["message"]
    assert node.health()[1] == {node.uuid(1)}


def test_H10_a_cordon_with_release_lets_a_gpu_be_reset_and_its_end_takes_the_driver_up_again(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.xid(1, 79)
    node.wait_ids({node.uuid(1)})
    node.configure("health: {cordon: [{device: 1, release: true}]}\n")
    node.said("the driver is released for at most")
    assert node.admit("meanwhile", 2).all_ids
    node.driver.reset(1)
    node.configure("version: v1\n")
    node.wait_healthy(4)
    assert node.is_("ready")


def test_H10_a_release_that_nobody_ends_is_over_after_its_time(make: Make) -> None:
    node = make(GPU_4, "--release-timeout=500ms", config="health: {cordon: [{device: 1}]}\n")
    node.plugin.start()
    node.wait_ids({node.uuid(1)})
    node.configure("health: {cordon: [{device: 1, release: true}]}\n")
    node.said("the driver is released for at most 0.5 s")
    node.said("the time of the release is over")
    node.driver.xid(2, 79)
    node.wait_ids({node.uuid(1), node.uuid(2)})


# H11


def test_H11_a_rehearsal_by_a_file_is_off_unless_it_is_named(make: Make) -> None:
    node = make()
    file = node.home / "inject"
    file.write_text("1 xid 79 fire drill\n")
    node.plugin.start()
    node.wait_healthy(4)
    node.configure(f"health: {{injectFile: {file}}}\n")
    node.wait_ids({node.uuid(1)})
    line = node.said("GPU 1 is unhealthy", reason="injected", xid=79)
    assert "A rehearsal of Xid 79" in line["message"]
    assert "fire drill" in line["message"]
    node.wait_metric("unhealthy", 1, uuid=node.uuid(1), reason="injected")
    file.write_text("0 rank-last\nGPU 1\n")
    node.wait_healthy(4)
    node.wait_metric("ranked_last", 1, uuid=node.uuid(0), reason="injected")
    assert node.said("inject file: line 2 is 'GPU 1'")["path"] == str(file)
    file.unlink()
    node.said("GPU 0 is healthy", reason="injected")
    assert node.uuid(1) not in saved(node)
