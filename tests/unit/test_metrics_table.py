"""The table of metrics: names and labels as promised, held to the documentation and to the text it renders."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from deviceplugin.config.document import Metrics, PodLabels
from deviceplugin.web.metrics import DCGM_ROWS, GPU_ROWS, LIVE_ROWS, PLUGIN_ROWS, Moment, Writer, live_text, still_text
from deviceplugin.web.metrics.describe import as_markdown
from deviceplugin.web.metrics.row import Kind, Metric
from deviceplugin.web.view import Books, View
from tests.web_views import NOW, view_of

ROWS: tuple[Metric[Any], ...] = (*PLUGIN_ROWS, *LIVE_ROWS, *GPU_ROWS, *DCGM_ROWS)
PROMISED = {
    "build_info": None,
    "config_info": {"hash", "source"},
    "config_reload_total": {"result"},
    "config_last_reload_success_timestamp_seconds": set(),
    "registered": {"resource"},
    "streams": {"resource"},
    "registrations_total": {"resource", "result"},
    "list_updates_total": {"resource"},
    "devices": {"resource", "health"},
    "allocations_total": {"resource", "result"},
    "allocation_duration_seconds": set(),
    "preferred_allocation_duration_seconds": set(),
    "preferred_allocation_total": {"resource", "size", "domains", "exact"},
    "health_transitions_total": {"uuid", "to", "reason"},
    "xid_total": {"uuid", "xid"},
    "unhealthy": {"uuid", "reason"},
    "unhealthy_since_timestamp_seconds": {"uuid", "reason"},
    "nvml_errors_total": {"call", "code"},
    "nvml_call_age_seconds": {"thread"},
    "node_state": {"state"},
    "podresources_up": set(),
    "sample_age_seconds": set(),
    "bugs_total": {"part"},
}
DCGM_NAMES = (
    "GPU_UTIL",
    "FB_USED",
    "FB_FREE",
    "FB_RESERVED",
    "GPU_TEMP",
    "POWER_USAGE",
    "SM_CLOCK",
    "MEM_CLOCK",
    "MEMORY_TEMP",
    "TOTAL_ENERGY_CONSUMPTION",
    "PCIE_REPLAY_COUNTER",
    "MEM_COPY_UTIL",
    "ENC_UTIL",
    "DEC_UTIL",
    "XID_ERRORS",
    "NVLINK_BANDWIDTH_TOTAL",
    "UNCORRECTABLE_REMAPPED_ROWS",
    "CORRECTABLE_REMAPPED_ROWS",
    "ROW_REMAP_FAILURE",
)


def samples(view: View) -> dict[str, list[tuple[dict[str, str], float]]]:
    """By sample name: labels and value, as the client library's parser understands the text."""
    text = (still_text(view) + live_text(Moment(view, NOW, {"nvml-probe": 0.0, "nvml-events": 4.2}))).decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_no_name_is_given_twice() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", [row for row in ROWS if not row.name.startswith("DCGM")], ids=lambda row: row.name)
def test_a_name_follows_the_conventions(row: Metric[Any]) -> None:
    assert re.fullmatch(r"gpu_[a-z0-9_]+", row.name)
    assert row.name.endswith("_total") == (row.kind is Kind.COUNTER)
    assert row.help.endswith(".")


@pytest.mark.parametrize(("name", "labels"), PROMISED.items())
def test_a_promised_metric_is_there_with_its_labels(name: str, labels: set[str] | None) -> None:
    (row,) = [row for row in ROWS if row.name == f"gpu_device_plugin_{name}"]
    assert labels is None or set(row.labels) == labels


@pytest.mark.parametrize("name", DCGM_NAMES)
def test_a_name_of_dcgm_is_there(name: str) -> None:
    assert f"DCGM_FI_DEV_{name}" in {row.name for row in DCGM_ROWS}


def test_the_documentation_is_the_table() -> None:
    written = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    assert written == as_markdown(), "run: python -m deviceplugin.web.metrics.describe > docs/metrics.md"


@pytest.mark.parametrize("machine", ["hgx-h100-8", "dgx-a100-8-mig-mixed", "gb10-1", "wsl-1", "none"])
def test_samples_carry_only_labels_of_their_row(machine: str) -> None:
    rows = {row.name: set(row.labels) for row in ROWS}
    for name, found in samples(view_of(machine, settings=Metrics(dcgm_names=True), sick=[0])).items():
        row = rows.get(name) or rows[re.sub(r"_(bucket|sum|count)$", "", name)]
        for labels, _ in found:
            assert set(labels) <= row | {"le"}, name


def test_all_names_appear_somewhere() -> None:
    seen: set[str] = set()
    for machine in ("hgx-h100-8", "dgx-a100-8-mig-mixed", "dgx1-v100-8", "t4x1?driver=470.256.02"):
        view = with_mig_figures(view_of(machine, sick=[0], last=[1], settings=Metrics(dcgm_names=True, per_link=True)))
        seen |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in samples(view)}
    assert {row.name for row in ROWS} - seen == set()


def with_mig_figures(view: View) -> View:
    """The view as of a driver that tells how busy MIG instances are."""
    cards = tuple(
        replace(card, instances=tuple(replace(one, utilization=0.5, memory_utilization=0.2) for one in card.instances))
        for card in view.load.gpus
    )
    return replace(view, load=replace(view.load, gpus=cards))


def test_a_view_of_nothing_renders() -> None:
    found = samples(View())
    assert found["gpu_device_plugin_node_state"]
    assert "gpu_utilization_ratio" not in found


def test_labels_of_a_card_say_where_it_is_and_who_holds_it() -> None:
    labels = samples(view_of())["gpu_utilization_ratio"][5][0]
    assert labels["gpu"] == "5"
    assert labels["model"] == "NVIDIA H100 80GB HBM3"
    assert (labels["nvlink_domain"], labels["numa_node"]) == ("0", "1")
    assert (labels["namespace"], labels["pod"]) == ("serving", "mixtral-8x22b-vllm-7d9f-x2k")
    assert (labels["container"], labels["resource"]) == ("vllm", "nvidia.com/gpu")


def test_a_card_that_nobody_holds_has_one_series_without_pod() -> None:
    free = [labels for labels, _ in samples(view_of())["gpu_power_watts"] if labels["gpu"] == "3"]
    assert len(free) == 1
    assert "pod" not in free[0]


def test_a_shared_card_has_one_series_for_each_pod() -> None:
    found = samples(view_of(replicas=10))["gpu_utilization_ratio"]
    pods = [labels["pod"] for labels, _ in found if labels["gpu"] == "0"]
    assert len(pods) == len(set(pods)) > 1
    assert len({value for labels, value in found if labels["gpu"] == "0"}) == 1


def test_pod_labels_can_be_switched_off() -> None:
    found = samples(view_of(replicas=10, settings=Metrics(pods=PodLabels.OFF, dcgm_names=True)))
    assert len(found["gpu_utilization_ratio"]) == len(found["DCGM_FI_DEV_GPU_UTIL"]) == 8
    assert not any("pod" in labels for each in found.values() for labels, _ in each)


def test_what_the_hardware_lacks_is_absent() -> None:
    found = samples(view_of("gb10-1"))
    assert "gpu_info" in found
    assert "gpu_memory_total_bytes" not in found
    assert "gpu_nvlink_transmit_bytes_total" not in found


def test_a_mig_instance_has_figures_and_a_holder_of_its_own() -> None:
    found = samples(view_of("dgx-a100-8-mig-mixed"))
    labels = found["gpu_mig_memory_total_bytes"][0][0]
    assert labels["mig_uuid"].startswith("MIG-")
    assert labels["resource"] == f"nvidia.com/mig-{labels['mig_profile']}"
    parents = {labels["uuid"] for labels, _ in found["gpu_mig_memory_total_bytes"]}
    held = {labels["uuid"] for labels, _ in found["gpu_temperature_celsius"] if "pod" in labels}
    assert parents & held


def test_what_can_be_counted_starts_at_zero() -> None:
    view = view_of("t4x1")
    found = samples(replace(view, books=Books()))
    zero = {"result": "refused"}
    assert (zero, 0) in found["gpu_device_plugin_config_reload_total"]
    assert ({"resource": "nvidia.com/gpu", **zero}, 0) in found["gpu_device_plugin_allocations_total"]
    assert found["gpu_device_plugin_list_updates_total"] == [({"resource": "nvidia.com/gpu"}, 0)]


def test_states_are_told_apart() -> None:
    states = {labels["state"]: value for labels, value in samples(view_of())["gpu_device_plugin_node_state"]}
    assert {state for state, value in states.items() if value} == {"ready", "serving"}
    assert {"no-hardware", "no-driver", "failing", "mig-without-instances"} <= states.keys()


def test_an_unhealthy_card_says_why_and_since_when() -> None:
    found = samples(view_of(sick=[3]))
    assert [labels["reason"] for labels, _ in found["gpu_device_plugin_unhealthy"]] == ["xid-79"]
    assert found["gpu_device_plugin_unhealthy_since_timestamp_seconds"][0][1] == NOW - 420
    devices = {labels["health"]: value for labels, value in found["gpu_device_plugin_devices"]}
    assert devices == {"healthy": 7, "unhealthy": 1}
    assert found["gpu_device_plugin_domain_free_gpus"] == [({"nvlink_domain": "0"}, 1)]


def test_what_pods_hold_is_absent_while_nobody_can_tell() -> None:
    found = samples(view_of(pods_seen=False))
    assert found["gpu_device_plugin_podresources_up"] == [({}, 0)]
    assert "gpu_device_plugin_allocated_devices" not in found
    assert "gpu_device_plugin_domain_free_gpus" not in found


def test_histograms_add_up() -> None:
    found = samples(view_of())
    buckets = found["gpu_device_plugin_allocation_duration_seconds_bucket"]
    assert [labels["le"] for labels, _ in buckets] == [
        "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "+Inf",
    ]  # fmt: skip
    assert [value for _, value in buckets] == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    assert found["gpu_device_plugin_allocation_duration_seconds_count"] == [({}, 1)]


def test_the_age_of_the_sample_is_that_at_the_scrape() -> None:
    view = view_of()
    assert b"gpu_device_plugin_sample_age_seconds 3.0\n" in live_text(Moment(view, NOW, {}))
    assert b"gpu_device_plugin_sample_age_seconds 63.0\n" in live_text(Moment(view, NOW + 60, {}))


def test_dcgm_names_have_dcgm_units_and_labels() -> None:
    view = view_of(settings=Metrics(dcgm_names=True), sick=[0])
    found = samples(view)
    labels, value = found["DCGM_FI_DEV_SM_CLOCK"][0]
    load = view.load.gpus[0]
    assert load.sm_clock is not None
    assert value == load.sm_clock / 1e6
    assert labels["device"] == "nvidia0"
    assert labels["Hostname"] == labels["hostname"] == "gpu-node-17"
    assert labels["DCGM_FI_DRIVER_VERSION"] == view.snapshot.node.driver_version
    assert found["DCGM_FI_DEV_XID_ERRORS"][0][1] == 79
    assert found["DCGM_FI_DEV_XID_ERRORS"][1][1] == 0


def test_dcgm_shows_a_card_in_mig_mode_by_its_instances() -> None:
    found = samples(view_of("dgx-a100-8-mig-mixed", settings=Metrics(dcgm_names=True)))
    cut = [labels for labels, _ in found["DCGM_FI_DEV_FB_USED"] if "GPU_I_ID" in labels]
    assert cut
    assert all(labels["GPU_I_PROFILE"] for labels in cut)
    whole = {labels["UUID"] for labels, _ in found["DCGM_FI_DEV_FB_USED"] if "GPU_I_ID" not in labels}
    assert whole.isdisjoint(labels["UUID"] for labels in cut)


def test_label_values_are_escaped() -> None:
    view = view_of("t4x1", source='a"b\\c\nd')
    assert samples(view)["gpu_device_plugin_config_info"][0][0]["source"] == 'a"b\\c\nd'


def test_what_is_kept_from_the_view_before_is_the_text_of_the_view() -> None:
    writer = Writer()
    views = [view_of(), view_of(sick=[3]), view_of("t4x1"), view_of("none"), view_of(replicas=10), view_of()]
    for view in views:
        assert still_text(view, writer) == still_text(view)
