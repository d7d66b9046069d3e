"""Examples are tested, not pasted: by their schemas, and by what machines of the catalogue offer to their pods."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charting.components import component_problems
from tests.charting.examples import CONFIGS, EXAMPLES, Example, gpu_requests, objects, offers, pods
from tests.charting.helm import ROOT
from tests.charting.schemas import NEWEST, VERSIONS, custom_problems, is_core, problems
from tests.fake_kubelet import AdmissionFailed, Pod
from tests.node import FakeNode

ALL = objects()
CORE = [e for e in ALL if is_core(e.thing)]
COMPONENT = [e for e in ALL if component_problems(e.thing) is not None]
CUSTOM = [e for e in ALL if e not in CORE and e not in COMPONENT]
WORKLOADS = [e for e in ALL if any(gpu_requests(pod) for pod in pods(e.thing))]
SCHEDULING = (ROOT / "docs" / "scheduling.md").read_text()
DEFAULT_SCHEDULERS = {"default-scheduler", "volcano"}


@pytest.mark.parametrize("example", CORE, ids=str)
def test_an_object_of_kubernetes_fits_its_schema(example: Example) -> None:
    assert [p for version in VERSIONS for p in problems(example.thing, version)] == []


@pytest.mark.parametrize("example", COMPONENT, ids=str)
def test_a_components_configuration_has_keys_that_it_knows(example: Example) -> None:
    assert component_problems(example.thing) == []


@pytest.mark.needs_folder("CRD_DIR")
@pytest.mark.parametrize("example", CUSTOM, ids=str)
def test_a_custom_object_fits_its_definition(example: Example) -> None:
    assert custom_problems(example.thing) == []


@pytest.mark.needs_folder("CRD_DIR")
def test_a_custom_object_that_is_wrong_would_be_noticed() -> None:
    broken: list[dict[str, Any]] = [
        {"spec": {"cohort": "gpus"}},  # the name of v1beta1
        {"spec": {"preemption": {"reclaimWithinCohort": "Sometimes"}}},
        {"spec": {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"]}]}},
    ]
    for wrong in broken:
        thing = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "q"}, **wrong}
        assert custom_problems(thing)


@pytest.mark.parametrize("example", WORKLOADS, ids=str)
def test_some_machine_can_run_the_pods(example: Example) -> None:
    for pod in pods(example.thing):
        fitting = [f"{offer.machine} {offer.config}".strip() for offer in offers() if offer.fits(pod)]
        assert fitting, f"no machine of the catalogue offers {gpu_requests(pod)} under {pod.get('nodeSelector')}"


def test_a_pod_that_no_machine_could_run_would_be_noticed() -> None:
    def pod(selector: dict[str, str], **limits: int) -> dict[str, Any]:
        named = {f"nvidia.com/{name.replace('_', '-')}": count for name, count in limits.items()}
        return {"nodeSelector": selector, "containers": [{"resources": {"limits": named}}]}

    assert any(offer.fits(pod({}, gpu=16)) for offer in offers())
    assert not any(offer.fits(pod({}, gpu=17)) for offer in offers())
    assert not any(offer.fits(pod({"nvidia.com/gpu.product": "Voodoo"}, gpu=1)) for offer in offers())
    assert not any(offer.fits(pod({"nvidia.com/gpu.family": "volta"}, mig_1g=1)) for offer in offers())


@pytest.mark.parametrize("example", [e for e in ALL if e.thing["kind"] == "ResourceFlavor"], ids=str)
def test_some_machine_has_the_labels_of_a_flavor(example: Example) -> None:
    assert any(offer.selected(example.thing["spec"]["nodeLabels"]) for offer in offers())


@pytest.mark.parametrize("folder", ["kueue/v1beta1", "kueue/v1beta2", "kueue-volcano"])
def test_a_queue_could_admit_the_job(folder: str) -> None:
    queues = EXAMPLES / (folder if folder.startswith("kueue/") else "kueue/v1beta2")
    things = [e.thing for e in ALL if e.path.parent in {EXAMPLES / folder, queues}]
    local = {(t["metadata"]["namespace"], t["metadata"]["name"]): t for t in things if t["kind"] == "LocalQueue"}
    cluster = {t["metadata"]["name"]: t for t in things if t["kind"] == "ClusterQueue"}
    jobs = [t for t in things if t["kind"] == "Job"]
    assert jobs
    for job in jobs:
        assert job["spec"]["suspend"] is True
        queue = local[job["metadata"]["namespace"], job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]]
        spec = cluster[queue["spec"]["clusterQueue"]]["spec"]
        assert spec.get("cohort", spec.get("cohortName")) in {
            t["metadata"]["name"] for t in things if t["kind"] == "Cohort"
        }
        (pod,) = pods(job)
        wanted = gpu_requests(pod)["nvidia.com/gpu"] * job["spec"]["parallelism"]
        quotas = [
            resource["nominalQuota"] + resource.get("borrowingLimit", 0)
            for group in spec["resourceGroups"]
            for flavor in group["flavors"]
            for resource in flavor["resources"]
            if resource["name"] == "nvidia.com/gpu"
        ]
        assert max(quotas) >= wanted


def test_gangs_are_as_large_as_what_they_gather() -> None:
    for example in [e for e in ALL if e.thing["kind"] == "PodGroup"]:
        name = example.thing["metadata"]["name"]
        (members,) = [
            e.thing["spec"]
            for e in ALL
            if e.path == example.path
            and e.thing.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {})
            == {"scheduling.k8s.io/group-name": name}
        ]
        assert example.thing["spec"]["minMember"] == members.get("replicas", members.get("parallelism"))
        assert members["template"]["spec"]["schedulerName"] == "volcano"


def test_names_that_examples_give_each_other_exist() -> None:
    classes = {e.thing["metadata"]["name"] for e in ALL if e.thing["kind"] == "PriorityClass"}
    (scheduler,) = [e.thing for e in ALL if e.thing["kind"] == "KubeSchedulerConfiguration"]
    profiles = {profile["schedulerName"] for profile in scheduler["profiles"]} | DEFAULT_SCHEDULERS
    volcano = {e.thing["metadata"]["name"] for e in ALL if e.path.name == "queue.yaml"}
    for example in ALL:
        for pod in pods(example.thing):
            assert pod.get("priorityClassName", "gpu-batch") in classes
            assert pod.get("schedulerName", "default-scheduler") in profiles
        if "volcano.sh" in example.thing["apiVersion"] and example.thing["kind"] in {"Job", "PodGroup"}:
            assert example.thing["spec"]["queue"] in volcano


def test_the_batch_profile_packs_every_resource_that_batch_asks_for() -> None:
    (scheduler,) = [e.thing for e in ALL if e.thing["kind"] == "KubeSchedulerConfiguration"]
    for profile in scheduler["profiles"]:
        fit = next(p["args"]["scoringStrategy"] for p in profile["pluginConfig"] if p["name"] == "NodeResourcesFit")
        assert fit["type"] == ("MostAllocated" if profile["schedulerName"] == "gpu-batch" else "LeastAllocated")
        scored = {resource["name"] for resource in fit["resources"]}
        asked = {
            name
            for example in WORKLOADS
            for pod in pods(example.thing)
            if pod.get("schedulerName") == profile["schedulerName"]
            for name in gpu_requests(pod)
        }
        assert asked <= scored


@pytest.mark.parametrize(
    ("file", "size", "outcome"),
    [
        ("kubelet-restricted.yaml", 4, "admitted"),
        ("kubelet-restricted.yaml", 8, "admitted"),
        ("kubelet-single-numa-node.yaml", 4, "admitted"),
        ("kubelet-single-numa-node.yaml", 8, "refused"),
    ],
)
def test_a_topology_policy_admits_what_the_documentation_says(
    file: str, size: int, outcome: str, tmp_path: Path
) -> None:
    policy = yaml.safe_load((EXAMPLES / "cluster" / file).read_text())["topologyManagerPolicy"]
    with FakeNode(tmp_path, "hgx-h100-8", kubelet={"numa_policy": policy}) as node:
        node.plugin.start()
        node.wait_healthy(8)
        pod = Pod("pod", containers={"main": {"nvidia.com/gpu": size}})
        if outcome == "admitted":
            assert len(node.kubelet.admit(pod)["main"].ids["nvidia.com/gpu"]) == size
        else:
            with pytest.raises(AdmissionFailed):
                node.kubelet.admit(pod)


def test_every_example_has_its_paragraph() -> None:
    named = set(re.findall(r"\((?:\.\./)?daemonset/examples/([\w./-]+\.yaml)\)", SCHEDULING))
    files = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.yaml")}
    assert files - named == set()


def test_every_configuration_offers_something_and_warns_of_nothing_but_envvar() -> None:
    from deviceplugin.config.load import load

    for path in sorted(CONFIGS.glob("*.yaml")):
        loaded = load({"--config-file": str(path)}, {})
        assert [w for w in loaded.warnings if "NVIDIA_VISIBLE_DEVICES=all" not in w] == []
        assert any(offer.resources for offer in offers() if offer.config == path.stem)
    assert NEWEST == "1.37"
