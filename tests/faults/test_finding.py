"""Faults of finding GPUs, E1 to E8, through the whole process: a driver that is late, wrong, new or gone."""

import itertools
import signal
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from tests.fake_kubelet import Pod
from tests.faults.ailing import AilingNode
from tests.faults.conftest import Make
from tests.node import GPU
from tests.waiting import wait_until

MISMATCH, NOT_SUPPORTED, UNKNOWN = (
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_UNKNOWN,
)
LATER = "--rescan-interval=1h"
"""For tests in which nothing but the cause itself may lead to a scan."""

Lay = Callable[[AilingNode], None]


def no_gpus(node: AilingNode) -> None:
    for number in range(4):
        node.driver.unplug(number)


def empty_chassis(node: AilingNode) -> None:
    no_gpus(node)
    node.driver.driver("absent")


def full_chassis(node: AilingNode) -> None:
    for number in range(4):
        node.driver.plug(number)
    node.driver.driver("present", force=True)


AT_FIRST: dict[str, tuple[Lay, Lay, str, str]] = {
    "no library": (
        lambda node: node.driver.driver("absent"),
        lambda node: node.driver.driver("present", force=True),
        "no-driver",
        "4 NVIDIA PCI devices in sysfs",
    ),
    "no kernel module": (
        lambda node: node.driver.driver("unloaded"),
        lambda node: node.driver.driver("present", force=True),
        "failing",
        "DRIVER_NOT_LOADED (9)",
    ),
    "an error": (
        lambda node: node.driver.fault("nvmlInit*", code=UNKNOWN),
        lambda node: node.driver.clear(),
        "failing",
        "nvmlInit answered UNKNOWN (999)",
    ),
    "no hardware": (
        empty_chassis,
        full_chassis,
        "no-hardware",
        "no PCI device of vendor 10de in sysfs",
    ),
}

# E1


@pytest.mark.parametrize("what", AT_FIRST)
def test_E1_a_driver_that_comes_late_needs_no_restart_and_its_states_are_told_apart(make: Make, what: str) -> None:
    lay, mend, state, said = AT_FIRST[what]
    node = make()
    lay(node)
    node.plugin.start()
    node.wait_metric("node_state", 1, state=state)
    assert said in node.said("", state=state)["message"]
    assert node.status()["node"]["state"] == state
    assert node.is_("ready") is (state == "no-hardware")
    assert node.is_("live")
    pid = node.plugin.pid
    mend(node)
    node.wait_healthy(4)
    wait_until(lambda: node.is_("ready"), what="readiness")
    assert (node.plugin.pid, node.plugin.running) == (pid, True)
    assert len(node.lines(state=state)) == 1, "the same line again and again"


def test_E1_zero_gpus_at_first_and_some_later(make: Make) -> None:
    node = make()
    no_gpus(node)
    node.plugin.start()
    node.wait_metric("node_state", 1, state="nothing-to-offer")
    node.driver.plug(2)
    node.wait_ids((), {node.uuid(2)})


def test_E1_a_driver_that_hangs_at_first_leaves_a_plugin_that_lives_and_can_be_stopped(make: Make) -> None:
    node = make()
    node.driver.hang("nvmlInit*")
    node.plugin.start()
    wait_until(lambda: node.is_("live"), what="liveness")
    assert not node.is_("ready")
    ask = ("status", f"--control-socket={node.control_socket()}")
    said = wait_until(
        lambda: answer if "has had no answer" in (answer := node.command(*ask, check=False).stderr) else "",
        what="what the start waits for",
    )
    assert "nvml-probe" in said
    assert "nvidia-smi" in said
    assert node.plugin.stop(timeout=2) == 0
    node.plugin.start()
    wait_until(lambda: node.is_("live"), what="liveness again")
    node.driver.release()
    node.wait_healthy(4)


def test_E1_while_there_is_no_driver_the_looks_become_rarer(make: Make) -> None:
    node = make("hgx-a100-4", LATER)
    node.driver.fault("nvmlInit*", code=UNKNOWN)
    node.plugin.start()
    node.wait_metric("nvml_errors_total", 2, call="nvmlInit", code="999")
    node.driver.clear()
    node.wait_healthy(4)


# E2


def labels(node: AilingNode) -> str:
    return node.labels_file.read_text() if node.labels_file.exists() else ""


def test_E2_a_driver_upgraded_underneath_is_loaded_anew_by_the_same_process(make: Make) -> None:
    node = make("hgx-a100-4", LATER)
    node.labels_file.parent.mkdir(parents=True)
    node.plugin.start("--fail-on-init-error")
    node.wait_healthy(4)
    held = node.admit("one", 2).all_ids
    node.wait_metric("ready", 1)
    before, pid, files = set(node.kubelet.resources[GPU].devices), node.plugin.pid, descriptors(node.plugin.pid)
    node.driver.driver("mismatch", force=True)
    wait_until(lambda: len(node.kubelet.registrations) == 2, what="a registration by the fresh process")
    view = node.kubelet.wait_for(GPU, healthy=4, unhealthy=0, streams=1)
    assert (node.plugin.pid, node.plugin.running) == (pid, True)
    assert set(view.devices) == before
    assert all(frame.devices for frame in node.frames()), "an empty list makes the kubelet forget the devices"
    assert node.kubelet.restart_container("one", "main").all_ids == held
    assert "beginning a fresh process that loads the new library" in node.said("the driver was upgraded")["message"]
    assert node.said("the driver is ready", driver="595.45.04")
    wait_until(lambda: "driver-version.full=595.45.04" in labels(node), what="labels that follow")
    assert len([path for path in node.kubelet_folder.iterdir() if path.name.startswith("nvidia")]) == 1
    node.wait_metric("ready", 1)
    wait_until(lambda: descriptors(pid) <= files + 2, what=f"{files} files as before, not {descriptors(pid)}")


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_E2_a_mismatch_that_persists_is_no_loop(make: Make) -> None:
    node = make()
    node.plugin.start("--fail-on-init-error")
    node.wait_healthy(4)
    node.driver.fault("nvml*", code=MISMATCH)
    said = node.said("the driver's library and kernel module are still of different versions")["message"]
    assert "finish the driver's installation or reboot the node" in said
    node.wait_metric("node_state", 1, state="mismatch")
    assert (node.metric("nvml_errors_total", code=str(MISMATCH)) or 0) > 0
    assert node.is_("live")
    assert not node.is_("ready")
    assert len(node.lines(message="configuration in force")) == 2
    node.driver.clear()
    node.wait_healthy(4)


def test_E2_a_fresh_process_waits_for_a_broken_configuration_to_be_mended(make: Make) -> None:
    node = make("hgx-a100-4", LATER)
    node.plugin.start()
    node.wait_healthy(4)
    node.configure("version: v1\nsharing: 3\n")
    node.said("configuration refused, the present one stays in force")
    node.driver.driver("mismatch", force=True)
    said = node.said("a fresh process must load the new driver, and waits for the configuration to be mended")[
        "message"
    ]
    assert f"{node.config_file}:2:10: sharing: must be a section" in said
    assert node.is_("live")
    assert node.admit("one", 2).all_ids
    node.configure("version: v1\n")
    assert node.said("the driver is ready", driver="595.45.04")
    node.kubelet.wait_for(GPU, healthy=4, unhealthy=0, streams=1)
    assert node.plugin.running


def test_E2_a_driver_unloaded_and_loaded_anew_is_taken_up(make: Make) -> None:
    node = make()
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.xid(1, 79)
    node.wait_ids({node.uuid(1)})
    node.driver.driver("unloaded", force=True)
    node.said("the driver cannot be used")
    node.wait_metric("node_state", 1, state="failing")
    node.driver.driver("version", "590.10.01", force=True)
    node.said("the driver is ready", driver="590.10.01")
    node.wait_healthy(4)


# E3

ONE_BY_ONE = (
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetMemoryInfo*",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo*",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetNvLink*",
    "nvmlDeviceGetP2PStatus",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetGpuFabricInfo*",
    "nvmlDeviceGetUtilizationRates",
    "nvmlSystemGetCudaDriverVersion*",
)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, UNKNOWN, pynvml.NVML_ERROR_NO_PERMISSION])
def test_E3_queries_that_fail_cost_their_facts_and_no_gpu(make: Make, code: int) -> None:
    node = make()
    for call in ONE_BY_ONE:
        node.driver.fault(call, code=code)
    node.plugin.start()
    node.wait_healthy(4)
    assert node.admit("two", 2).all_ids
    assert [frame.unhealthy for frame in node.frames()] == [frozenset()]
    told = [(line["device"], line["query"]) for line in node.lines() if "query" in line]
    assert len(told) == len(set(told)), "a query that failed is told once"


def test_E3_answers_that_make_no_sense_are_said_and_not_used(make: Make) -> None:
    node = make()
    node.driver.fault("nvmlDeviceGetMemoryInfo", gpu=1, value={"total": 0})
    node.driver.fault("nvmlDeviceGetMinorNumber", gpu=2, value=-7)
    node.driver.fault("nvmlDeviceGetCount", value=-3)
    node.plugin.start()
    node.wait_healthy(4)
    for query in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMinorNumber", "nvmlDeviceGetCount"):
        assert "makes no sense and is not used" in node.said("", query=query)["message"]
    scans = node.metric("nvml_errors_total", call="nvmlDeviceGetMemoryInfo") or 0
    wait_until(
        lambda: (node.metric("nvml_errors_total", call="nvmlDeviceGetMemoryInfo") or 0) > scans + 2,
        what="further scans",
    )
    assert len(node.lines(query="nvmlDeviceGetMemoryInfo")) == 1
    assert len(node.frames()) == 1


# E4


def test_E4_a_gpu_taken_out_is_unhealthy_first_and_dropped_after_a_grace_time(make: Make) -> None:
    node = make("hgx-a100-4", "--vanished-grace=2s")
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.unplug(1)
    node.wait_ids({node.uuid(1)})
    assert node.said("is unhealthy", uuid=node.uuid(1))["reason"] in {"vanished", "lost"}
    node.wait_healthy(3)
    unhealthy, dropped = node.frames()[1].time, node.frames()[-1].time
    assert dropped - unhealthy > 1.5
    node.said("GPU 1 is gone")
    node.driver.plug(1)
    node.wait_healthy(4)
    assert len(node.kubelet.registrations) == 1
    sizes = [len(frame.devices) for frame in node.frames()]
    assert [size for size, _ in itertools.groupby(sizes)] == [4, 3, 4]


def test_E4_a_configuration_that_is_edited_meanwhile_does_not_end_the_grace_time(make: Make) -> None:
    node = make("hgx-a100-4", "--vanished-grace=1h", config="metrics: {perLink: false}\n")
    node.plugin.start()
    node.wait_healthy(4)
    node.driver.unplug(1)
    node.wait_ids({node.uuid(1)})
    node.configure("version: v1\nmetrics: {perLink: true}\n")
    node.wait_metric("config_reload_total", 1, result="success")
    assert node.health()[1] == {node.uuid(1)}
    assert [len(frame.devices) for frame in node.frames()] == [4, 4]


SHARED_CARDS = {
    "a count": "devices: 4",
    "indices": "devices: [0, 1, 2, 3]",
    "a model of other nodes": "devices: all}, {name: nvidia.com/h200, replicas: 2",
}


@pytest.mark.parametrize("devices", SHARED_CARDS)
def test_E6_what_a_sharing_entry_does_not_find_is_reported_and_costs_no_other_gpu(make: Make, devices: str) -> None:
    """One card is lost, the plugin starts anew: the others are offered, as they were while it ran."""
    entry = f"{{name: nvidia.com/gpu, replicas: 2, {SHARED_CARDS[devices]}}}"
    node = make(config=f"sharing: {{timeSlicing: {{resources: [{entry}]}}}}\n")
    node.driver.unplug(3)
    node.plugin.start()
    node.wait_healthy(6)
    assert "sharing.timeSlicing.resources" in str(node.status()["warnings"])
    node.said("sharing.timeSlicing.resources")


def test_E4_sighup_and_a_scan_find_new_instances_and_what_is_untouched_notices_nothing(make: Make) -> None:
    node = make("hgx-a100-4", LATER, "--mig-strategy=mixed", "--vanished-grace=300ms")
    node.driver.mig(0, ["3g.20gb", "3g.20gb"])
    node.plugin.start()
    big, small = "nvidia.com/mig-3g.20gb", "nvidia.com/mig-1g.5gb"
    node.wait_healthy(2, resource=big)
    node.wait_healthy(3)
    gone = set(node.kubelet.resources[big].devices)
    node.driver.mig(0, ["1g.5gb"] * 7)
    node.plugin.signal(signal.SIGHUP)
    node.wait_healthy(7, resource=small)
    node.wait_ids(gone, (), resource=big)
    node.plugin.signal(signal.SIGHUP)
    wait_until(lambda: sighup_empties(node, big), what="the list of the profile that is gone to be emptied")
    assert (len(node.frames(GPU)), len(node.kubelet.streams[GPU])) == (1, 1)
    assert {device.split("-")[0] for device in node.health(small)[0]} == {"MIG"}
    for frame in node.frames(small):
        assert len(frame.devices) in {0, 7}, "a wrong list in between"


def sighup_empties(node: AilingNode, resource: str) -> bool:
    node.plugin.signal(signal.SIGHUP)
    return not node.kubelet.resources[resource].devices


def test_E4_instances_under_single_change_within_a_scan_and_the_old_ones_go_after_a_grace_time(make: Make) -> None:
    node = make("hgx-a100-4", "--mig-strategy=single", "--devices-include=0")
    node.driver.mig(0, ["3g.20gb", "3g.20gb"])
    node.plugin.start()
    node.wait_healthy(2)
    old = frozenset(node.kubelet.resources[GPU].devices)
    node.driver.mig(0, ["1g.5gb"] * 7)
    node.wait_healthy(7, 2)
    node.wait_healthy(7)
    assert [(len(frame.healthy), frame.unhealthy) for frame in node.frames()] == [
        (2, frozenset()),
        (7, old),
        (7, frozenset()),
    ]
    assert len(node.kubelet.registrations) == 1


# E5


def test_E5_mig_mode_without_instances_is_a_named_state_and_the_rest_is_served(make: Make) -> None:
    node = make("hgx-a100-4", "--mig-strategy=mixed")
    node.driver.mig(0, [])
    node.plugin.start()
    node.wait_healthy(3)
    assert "is in MIG mode and has no instance" in node.said("not offered: ")["message"]
    page = node.status()
    assert page["gpus"][0]["left_out"]["reason"] == "mig-mode-empty"
    for number in (1, 2, 3):
        node.driver.mig(number, [], force=True)
    node.wait_metric("node_state", 1, state="mig-without-instances")
    node.said("node state: mig-without-instances")
    node.driver.mig(0, ["7g.40gb"])
    node.wait_healthy(1, resource="nvidia.com/mig-7g.40gb")
    node.wait_metric("node_state", 1, state="serving")


def unequal(node: AilingNode) -> None:
    for number in range(4):
        node.driver.mig(number, ["3g.20gb", "3g.20gb"] if number else ["7g.40gb"], force=True)


def partly(node: AilingNode) -> None:
    node.driver.mig(1, ["3g.20gb", "3g.20gb"], force=True)


@pytest.mark.parametrize(
    ("lay", "state", "said"),
    [
        (unequal, "mig-single-unequal-profiles", "needs one profile on the whole node"),
        (partly, "mig-single-partly-enabled", "needs MIG mode on all cards or on none"),
    ],
)
def test_E5_under_single_a_state_that_forbids_serving_is_named_and_ends(
    make: Make, lay: Lay, state: str, said: str
) -> None:
    node = make("hgx-a100-4", "--mig-strategy=single")
    lay(node)
    node.plugin.start()
    node.wait_metric("node_state", 1, state=state)
    node.said(f"node state: {state}")
    assert said in node.said("not offered: ")["message"]
    assert node.status()["node"]["offer"] == state
    assert node.is_("live")
    for number in range(4):
        node.driver.mig(number, ["3g.20gb", "3g.20gb"], force=True)
    node.wait_healthy(8)
    node.wait_metric("node_state", 0, state=state)


# E6


def test_E6_gpus_are_left_out_and_chosen_by_every_kind_of_name_before_sharing(make: Make) -> None:
    node = make(config="sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}\n")
    node.labels_file.parent.mkdir(parents=True)
    node.plugin.start()
    node.wait_healthy(12)
    sharing = node.config_file.read_text()
    pci = node.status()["gpus"][2]["pci"]
    devices = f"include: ['NVIDIA A100*'], exclude: [0, '{node.uuid(1)}', '{pci}', GPU-of-another-node]"
    node.configure(f"{sharing}devices: {{{devices}}}\n")
    node.wait_healthy(3)
    assert {id_.split("::")[0] for id_ in node.health()[0]} == {node.uuid(3)}
    assert "names no GPU" in node.said("'GPU-of-another-node'")["message"]
    assert node.status()["gpus"][0]["left_out"]["reason"] == "excluded"
    node.wait_metric("devices", 3, resource=GPU, health="healthy")
    wait_until(lambda: "nvidia.com/gpu.count=1\n" in labels(node), what="labels that agree")
    node.configure(f"{sharing}devices: {{include: [1]}}\n")
    wait_until(
        lambda: {id_.split("::")[0] for id_ in node.health()[0] | node.health()[1]} == {node.uuid(1)},
        what="the included GPU alone",
    )


# E7


def test_E7_several_models_go_to_their_resources_and_a_line_per_gpu_says_where(make: Make) -> None:
    patterns = "resources: {gpus: [{pattern: '*A30*', name: a30}, {pattern: '*A100*', name: a100}]}\n"
    node = make(config=patterns)
    node.driver.fault("nvmlDeviceGetName", gpu=1, value="NVIDIA A30")
    node.plugin.start()
    node.wait_ids((), {node.uuid(1)}, resource="nvidia.com/a30")
    node.wait_ids((), {node.uuid(number) for number in (0, 2, 3)}, resource="nvidia.com/a100")
    told = {line["uuid"]: line["message"] for line in node.lines(message="goes to")}
    assert told[node.uuid(1)] == "GPU 1 goes to nvidia.com/a30"
    assert told[node.uuid(2)] == "GPU 2 goes to nvidia.com/a100"
    assert len(node.lines(message="goes to")) == 4


# E8


def test_E8_two_gpus_that_swap_their_index_keep_what_is_known_of_them(make: Make) -> None:
    node = make(config="health: {cordon: [{device: 3}]}\n")
    node.plugin.start()
    node.wait_ids({node.uuid(3)})
    node.driver.xid(1, 79, effects=False)
    node.wait_ids({node.uuid(1), node.uuid(3)})
    node.driver.swap(1, 2)
    moved = node.said("told apart by UUID, so nothing moves")["message"]
    assert f"{node.uuid(1)} 1 -> 2" in moved
    assert node.status()["gpus"][2]["uuid"] == node.uuid(1)
    assert node.health()[1] == {node.uuid(1), node.uuid(3)}
    assert len({frame.unhealthy for frame in node.frames()}) == 2
    node.driver.xid(2, 79, effects=False)
    node.wait_ids({node.uuid(number) for number in (1, 2, 3)})


def test_E8_behind_a_lost_gpu_the_others_keep_their_nodes_and_names(make: Make) -> None:
    node = make("hgx-a100-4", "--pass-device-specs")
    node.driver.unplug(0)
    node.plugin.start()
    node.wait_healthy(3)
    three = node.kubelet.admit(Pod("three", containers={f"c{n}": {GPU: 1} for n in range(3)}))
    minors = {node.uuid(number): f"/dev/nvidia{number}" for number in range(4)}
    for grant in three.containers.values():
        (uuid,) = grant.all_ids
        assert grant.envs["NVIDIA_VISIBLE_DEVICES"] == uuid
        assert minors[uuid] in {device.host_path for device in grant.devices}
        assert not {device.host_path for device in grant.devices} & (set(minors.values()) - {minors[uuid]})
    node.driver.xid(3, 79)
    node.wait_ids({node.uuid(3)})


def test_E8_gpus_that_share_a_uuid_are_named_and_only_the_others_are_offered(make: Make) -> None:
    node = make()
    node.driver.fault("nvmlDeviceGetUUID", gpu=1, value=node.uuid(0))
    node.plugin.start()
    node.wait_ids((), {node.uuid(2), node.uuid(3)})
    line = node.said("2 devices answer with this UUID; none of them is offered", device=node.uuid(0))
    assert line["level"] == "warning"
    node.driver.clear()
    node.wait_healthy(4)


def test_E8_a_gpu_without_a_uuid_is_named_and_not_offered_until_it_has_one(make: Make) -> None:
    node = make()
    node.driver.fault("nvmlDeviceGetUUID", gpu=1, code=UNKNOWN)
    node.plugin.start()
    node.wait_ids((), {node.uuid(number) for number in (0, 2, 3)})
    line = node.said("the GPU at index 1 does not say who it is and is not offered")
    assert "nvmlDeviceGetUUID answered UNKNOWN (999)" in line["message"]
    node.driver.clear()
    node.wait_healthy(4)
    node.driver.fault("nvmlDeviceGetUUID", gpu=1, code=UNKNOWN)
    node.wait_metric("nvml_errors_total", 2, call="nvmlDeviceGetUUID")
    assert len(node.health()[0]) == 4, "a GPU that was known keeps its place"
