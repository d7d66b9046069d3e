"""What the pod may do and see, strategy by strategy: the least that works, and a reason for anything beyond."""

from typing import Any

import pytest

from tests.charting.cases import MATRIX, MPS, TIME_SLICED
from tests.charting.helm import render

LEAST = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsUser": 0,
    "seccompProfile": {"type": "RuntimeDefault"},
}
SYS_ADMIN = {**LEAST, "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}
PRIVILEGED = {"privileged": True, "readOnlyRootFilesystem": True, "runAsUser": 0}
ROOT = {"nvidiaDriverRoot": "/"}
OWN = {"config": {"name": "configs"}}

ALWAYS = {
    "/run/gpu-device-plugin": ("", True),
    "/var/lib/kubelet/device-plugins": ("/var/lib/kubelet/device-plugins", True),
    "/var/lib/kubelet/pod-resources": ("/var/lib/kubelet/pod-resources", False),
    "/var/lib/gpu-device-plugin": ("/var/lib/gpu-device-plugin", True),
}
CDI = {"/var/run/cdi": ("/var/run/cdi", True), "/driver-root": ("/", False)}
MOUNTED = {"/driver-root": ("/", False), "/dev": ("/dev", True)}
CONFIGS = {"/etc/gpu-device-plugin/configs": ("", False)}
MPS_ROOT = {"/mps": ("/run/nvidia/mps", True), "/dev/shm": ("/run/nvidia/mps/shm", True)}
ALL_GPUS = {"/var/run/nvidia-container-devices/all": ("/dev/null", False)}
HOST_DEV = {"/driver-root/dev": ("/dev", False)}

TABLE: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, tuple[str, bool]]]] = [
    ("envvar", {}, LEAST, {}),
    ("envvar under mig", {"migStrategy": "mixed"}, SYS_ADMIN, {}),
    ("single", {"migStrategy": "single"}, SYS_ADMIN, {}),
    ("volume-mounts", {"deviceListStrategy": "volume-mounts"}, LEAST, ALL_GPUS),
    ("cdi-cri", {"deviceListStrategy": "cdi-cri", **ROOT}, LEAST, CDI),
    (
        "cdi-annotations under mig",
        {"deviceListStrategy": "cdi-annotations", "migStrategy": "mixed", **ROOT},
        SYS_ADMIN,
        CDI,
    ),
    (
        "cdi of the toolkit",
        {"deviceListStrategy": "cdi-cri", "cdi": {"spec": "external"}},
        LEAST,
        {"/var/run/cdi": ("/var/run/cdi", False)},
    ),
    ("device specs", {"compatWithCPUManager": True}, LEAST, HOST_DEV),
    (
        "device specs of a driver container",
        {"compatWithCPUManager": True, "nvidiaDriverRoot": "/run/nvidia/driver"},
        LEAST,
        {"/driver-root/dev": ("/run/nvidia/driver/dev", False)},
    ),
    ("device specs and cdi", {"compatWithCPUManager": True, "deviceListStrategy": "cdi-cri", **ROOT}, LEAST, CDI),
    ("imex channels", {"imex": {"channelIDs": [0]}}, LEAST, HOST_DEV),
    ("imex channels in a file", {"config": {"map": {"a": "imex: {channelIDs: [0]}"}}}, LEAST, {**CONFIGS, **HOST_DEV}),
    ("mounted", {"driver": {"access": "mounted"}}, PRIVILEGED, MOUNTED),
    (
        "mounted, cdi, mig",
        {"driver": {"access": "mounted"}, "migStrategy": "mixed", "deviceListStrategy": "cdi-cri"},
        PRIVILEGED,
        {**MOUNTED, **CDI},
    ),
    ("time slicing", {"config": {"map": {"a": TIME_SLICED}}}, LEAST, CONFIGS),
    ("mps", {"config": {"map": {"a": MPS}}}, LEAST, {**CONFIGS, **MPS_ROOT}),
    ("mig in a file", {"config": {"map": {"a": "flags: {migStrategy: mixed}"}}}, SYS_ADMIN, CONFIGS),
    (
        "mig in a file, overruled",
        {"config": {"map": {"a": "flags: {migStrategy: mixed}"}}, "migStrategy": "none"},
        LEAST,
        CONFIGS,
    ),
    (
        "files that the chart cannot read",
        {**OWN, **ROOT},
        SYS_ADMIN,
        {**CONFIGS, **MPS_ROOT, **CDI, **ALL_GPUS},
    ),
    (
        "files that the chart cannot read, decided by values",
        {**OWN, "migStrategy": "none", "deviceListStrategy": "envvar", "compatWithCPUManager": False},
        LEAST,
        {**CONFIGS, **MPS_ROOT},
    ),
    (
        "labels",
        {"gfd": {"enabled": True}},
        LEAST,
        {
            "/etc/kubernetes/node-feature-discovery/features.d": (
                "/etc/kubernetes/node-feature-discovery/features.d",
                True,
            )
        },
    ),
    (
        "watcher",
        {"kubelet": {"registration": "watcher"}},
        LEAST,
        {"/var/lib/kubelet/plugins_registry": ("/var/lib/kubelet/plugins_registry", True)},
    ),
]


@pytest.mark.parametrize(("values", "context", "mounts"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_each_strategy_gets_this_and_no_more(
    values: dict[str, Any], context: dict[str, Any], mounts: dict[str, tuple[str, bool]]
) -> None:
    rendered = render(values)
    assert rendered.container["securityContext"] == context
    assert rendered.mounts == ALWAYS | mounts
    assert rendered.pod["automountServiceAccountToken"] == ("configs" in str(values.get("config", {}).get("name")))


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_whatever_is_beyond_the_least_says_why(values: dict[str, Any]) -> None:
    rendered = render(values)
    for daemonset in rendered.all("DaemonSet"):
        context = daemonset["spec"]["template"]["spec"]["containers"][0]["securityContext"]
        why = daemonset["metadata"].get("annotations", {}).get("gpu-device-plugin/privilege", "")
        if values.get("securityContext"):
            assert "securityContext replaces" in rendered.notes
            continue
        assert ("privileged - " in why) == bool(context.get("privileged"))
        assert ("SYS_ADMIN - " in why) == ("add" in context.get("capabilities", {}))
        assert context["readOnlyRootFilesystem"]
        assert not why or why in rendered.notes or daemonset["metadata"]["name"].endswith("-mps")


def test_without_metrics_pods_and_state_less_of_the_host_is_seen() -> None:
    mounts = render({"metrics": {"pods": "off"}, "daemon": {"stateDir": ""}}).mounts
    assert set(mounts) == {"/run/gpu-device-plugin", "/var/lib/kubelet/device-plugins"}


def test_only_the_mps_daemon_sees_the_hosts_processes() -> None:
    daemonsets = render({"config": {"map": {"default": MPS}}}).all("DaemonSet")
    pods = {d["metadata"]["name"]: d["spec"]["template"]["spec"] for d in daemonsets}
    assert {name: pod.get("hostPID", False) for name, pod in pods.items()} == {
        "nvdp-nvidia-device-plugin": False,
        "nvdp-nvidia-device-plugin-mps": True,
    }


def test_the_mps_daemon_learns_what_the_node_label_chose() -> None:
    daemonsets = render({"config": {"map": {"default": "{}", "mps": MPS}}}).all("DaemonSet")
    (mps,) = [d for d in daemonsets if d["metadata"]["name"].endswith("-mps")]
    (container,) = mps["spec"]["template"]["spec"]["containers"]
    env = {v["name"]: v.get("value") for v in container["env"]}
    mounts = {m["mountPath"]: m.get("readOnly", False) for m in container["volumeMounts"]}
    assert env["CLUSTER_CONFIG_LABEL"] == "true"
    assert mounts[env["STATE_DIR"]] is True
    assert mounts[env["CONFIG_DIR"]] is True


def test_the_runtime_is_told_what_this_pod_needs() -> None:
    assert render().env["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert render().env["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert "NVIDIA_MIG_MONITOR_DEVICES" not in render().env
    assert render({"migStrategy": "single"}).env["NVIDIA_MIG_MONITOR_DEVICES"] == "all"
    assert "NVIDIA_VISIBLE_DEVICES" not in render({"driver": {"access": "mounted"}}).env


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_permissions_are_there_only_with_the_cluster_door(values: dict[str, Any]) -> None:
    rendered = render(values)
    door = any(
        rendered.env.get(name) == "true"
        for name in ("CLUSTER_CONFIG_LABEL", "CLUSTER_EVENTS", "CLUSTER_CONDITION")
        if rendered.all("DaemonSet")
    ) or values.get("labels", {}).get("publish") in {"node", "node-feature"}
    roles = rendered.all("ClusterRole") + rendered.all("Role")
    bindings = rendered.all("ClusterRoleBinding") + rendered.all("RoleBinding")
    assert bool(roles) == door
    assert {(r["kind"], r["metadata"]["name"]) for r in roles} == {
        (b["roleRef"]["kind"], b["roleRef"]["name"]) for b in bindings
    }
    if rendered.all("DaemonSet"):
        assert rendered.pod["automountServiceAccountToken"] == door
    for role in roles:
        for rule in role["rules"]:
            assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
            assert not {"secrets", "configmaps"} & set(rule["resources"])


@pytest.mark.parametrize(
    ("values", "permissions"),
    [
        ({"cluster": {"configLabel": True}}, {"nodes": {"get", "watch"}}),
        ({"cluster": {"condition": True}}, {"nodes": {"get", "patch"}, "nodes/status": {"patch"}}),
        ({"cluster": {"events": True}}, {"pods": {"get"}, "events": {"create"}}),
        ({"labels": {"publish": "node"}}, {"nodes": {"patch"}}),
        ({"labels": {"publish": "node-feature"}}, {"nodefeatures": {"create", "patch"}}),
    ],
)
def test_each_switch_asks_for_these_verbs(values: dict[str, Any], permissions: dict[str, set[str]]) -> None:
    rendered = render(values)
    found = {
        resource: set(rule["verbs"])
        for role in rendered.all("ClusterRole") + rendered.all("Role")
        for rule in role["rules"]
        for resource in rule["resources"]
    }
    assert found == permissions
