"""The values of NVIDIA's chart: every key, its default there, and another value that a user may have given."""

from __future__ import annotations

from typing import Any

from tests.charting.cases import MPS, TIME_SLICED

DEFAULTS: dict[str, Any] = {
    "config": {"name": "", "map": {}, "default": "", "fallbackStrategies": ["named", "single"]},
    "compatWithCPUManager": None,
    "migStrategy": None,
    "failOnInitError": None,
    "deviceListStrategy": None,
    "deviceIDStrategy": None,
    "nvidiaDriverRoot": None,
    "gdrcopyEnabled": None,
    "gdsEnabled": None,
    "mofedEnabled": None,
    "deviceDiscoveryStrategy": None,
    "nameOverride": "",
    "fullnameOverride": "",
    "namespaceOverride": "",
    "selectorLabelsOverride": {},
    "componentSelectorLabels": {"enabled": False},
    "allowDefaultNamespace": False,
    "imagePullSecrets": [],
    "image": {"pullPolicy": "IfNotPresent", "tag": ""},
    "updateStrategy": {"type": "RollingUpdate"},
    "podAnnotations": {},
    "podSecurityContext": {},
    "securityContext": {},
    "resources": {},
    "nodeSelector": {},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
                    for key, value in (
                        ("feature.node.kubernetes.io/pci-10de.present", "true"),
                        ("feature.node.kubernetes.io/cpu-model.vendor_id", "NVIDIA"),
                        ("nvidia.com/gpu.present", "true"),
                    )
                ]
            }
        }
    },
    "tolerations": [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ],
    "priorityClassName": "system-node-critical",
    "runtimeClassName": None,
    "devicePlugin": {
        "enabled": True,
        "containers": {
            "main": {
                "env": [
                    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
                    {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
                ]
            }
        },
    },
    "gfd": {
        "enabled": False,
        "nameOverride": "gpu-feature-discovery",
        "namespaceOverride": "",
        "noTimestamp": None,
        "sleepInterval": None,
        "securityContext": {"privileged": True},
    },
    "nfd": {
        "nameOverride": "node-feature-discovery",
        "master": {
            "serviceAccount": {"name": "node-feature-discovery", "create": True},
            "config": {"extraLabelNs": ["nvidia.com"]},
        },
        "worker": {"config": {"sources": {"pci": {"deviceClassWhitelist": ["02", "03"]}}}},
    },
    "mps": {"root": "/run/nvidia/mps", "enableHostPID": True},
    "cdi": {"nvidiaHookPath": None, "featureFlags": None},
}
"""As a values file that copies all of them; the image's repository apart, which names NVIDIA's own program."""

_SHARED = {"config": {"map": {"default": MPS}}}

GIVEN: dict[str, tuple[Any, dict[str, Any]]] = {
    "config.name": ("configs", {}),
    "config.map": ({"default": TIME_SLICED}, {}),
    "config.default": ("b", {"config": {"map": {"a": "{}", "b": "{}"}}}),
    "config.fallbackStrategies": (["empty"], {"config": {"map": {"a": "{}", "b": "{}"}}}),
    "compatWithCPUManager": (True, {}),
    "migStrategy": ("mixed", {}),
    "failOnInitError": (True, {}),
    "deviceListStrategy": ("volume-mounts", {}),
    "deviceIDStrategy": ("index", {}),
    "nvidiaDriverRoot": ("/run/nvidia/driver", {}),
    "nvidiaDevRoot": ("/run/nvidia/driver", {}),
    "gdrcopyEnabled": (True, {}),
    "gdsEnabled": (True, {}),
    "mofedEnabled": (True, {}),
    "deviceDiscoveryStrategy": ("nvml", {}),
    "nvidiaDriverCapabilities": ("all", {}),
    "logVerbosity": (4, {}),
    "nameOverride": ("gpus", {}),
    "fullnameOverride": ("gpus", {}),
    "namespaceOverride": ("gpus", {}),
    "selectorLabelsOverride": ({"app": "gpus"}, {}),
    "componentSelectorLabels.enabled": (True, {}),
    "imagePullSecrets": ([{"name": "pull"}], {}),
    "image.repository": ("registry.example.com/gpu", {}),
    "image.pullPolicy": ("Always", {}),
    "image.tag": ("v0.17.1", {}),
    "updateStrategy": ({"type": "OnDelete", "rollingUpdate": None}, {}),
    "podAnnotations": ({"a": "b"}, {}),
    "podSecurityContext": ({"fsGroup": 1}, {}),
    "securityContext": ({"privileged": True}, {}),
    "resources": ({"limits": {"memory": "1Gi"}}, {}),
    "nodeSelector": ({"gpu": "yes"}, {}),
    "affinity": ({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}, {}),
    "tolerations": ([{"key": "gpu", "operator": "Exists"}], {}),
    "priorityClassName": ("high", {}),
    "runtimeClassName": ("nvidia", {}),
    "devicePlugin.enabled": (False, {}),
    "devicePlugin.enableHostNetwork": (True, {}),
    "devicePlugin.resources": ({"limits": {"memory": "1Gi"}}, {}),
    "devicePlugin.containers.main.env": ([{"name": "LOG_LEVEL", "value": "debug"}], {}),
    "gfd.enabled": (True, {}),
    "gfd.nameOverride": ("labels", {}),
    "gfd.namespaceOverride": ("labels", {}),
    "gfd.noTimestamp": (True, {}),
    "gfd.sleepInterval": ("30s", {}),
    "gfd.securityContext": ({"privileged": True}, {}),
    "gfd.resources": ({"limits": {"memory": "1Gi"}}, {}),
    "gfd.enableHostNetwork": (True, {}),
    "configManager.resources": ({"limits": {"memory": "1Gi"}}, {}),
    "nfd": ({"enabled": True}, {}),
    "mps.root": ("/var/lib/mps", _SHARED),
    "mps.enableHostPID": (False, _SHARED),
    "mps.enableHostNetwork": (True, _SHARED),
    "mps.resources": ({"limits": {"memory": "1Gi"}}, _SHARED),
    "cdi.nvidiaHookPath": ("/usr/bin/nvidia-cdi-hook", {}),
    "cdi.featureFlags": ("disable-nvsandbox-utils", {}),
}
"""Key -> a value for it, and the other values without which it would mean nothing. `allowDefaultNamespace` apart."""
