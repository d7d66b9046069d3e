"""A matrix of values: each strategy and switch by itself, and combinations that people run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]

TIME_SLICED = """\
version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""
MPS = """\
version: v1
sharing:
  mps:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""
MIXED = """\
version: v1
flags:
  migStrategy: mixed
"""
CDI = """\
version: v1
flags:
  plugin:
    deviceListStrategy: [cdi-cri, envvar]
"""

SINGLE: dict[str, Values] = {
    "defaults": {},
    "time slicing": {"config": {"map": {"default": TIME_SLICED}}},
    "mps": {"config": {"map": {"default": MPS}}},
    "mps without host pid": {"config": {"map": {"default": MPS}}, "mps": {"enableHostPID": False}},
    "several files": {"config": {"map": {"default": TIME_SLICED, "mig": MIXED, "mps": MPS}, "default": "default"}},
    "a file with cdi": {"config": {"map": {"default": CDI}}, "nvidiaDriverRoot": "/"},
    "a configmap of one's own": {"config": {"name": "configs", "fallbackStrategies": ["single", "empty"]}},
    "a configmap of one's own, decided": {
        "config": {"name": "configs"},
        "migStrategy": "none",
        "deviceListStrategy": "envvar",
        "cluster": {"configLabel": False},
    },
    "labels by file": {"gfd": {"enabled": True, "noTimestamp": True, "sleepInterval": "30s"}},
    "labels by node": {"labels": {"publish": "node"}},
    "labels by node feature": {"labels": {"publish": "node-feature"}},
    "labels only": {"devicePlugin": {"enabled": False}, "gfd": {"enabled": True}},
    "nothing": {"devicePlugin": {"enabled": False}},
    "cluster": {"cluster": {"events": True, "condition": True, "configLabel": True}},
    "monitoring": {
        "monitoring": {
            "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": True},
            "dashboard": {"enabled": True},
        },
        "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    },
    "metrics behind tls": {
        "metrics": {"tlsSecret": "tls", "clientCA": True, "basicAuthSecret": "users", "port": 9500, "pods": "off"}
    },
    "metrics behind a password": {
        "metrics": {"tlsSecret": "tls", "basicAuthSecret": "users"},
        "monitoring": {"podMonitor": {"enabled": True, "basicAuthSecret": "users"}},
    },
    "no metrics": {"metrics": {"enabled": False}, "networkPolicy": {"enabled": True}},
    "watcher": {"kubelet": {"registration": "watcher"}},
    "kubelet elsewhere": {
        "kubelet": {
            "devicePlugins": "/data/kubelet/device-plugins",
            "podResources": "/data/kubelet/pod-resources",
            "pluginsRegistry": "/data/kubelet/plugins_registry",
            "registration": "watcher",
        }
    },
    "runtime class": {"runtimeClassName": "nvidia"},
    "runtime class everywhere": {"runtimeClassName": "nvidia", "affinity": {}},
    "host network": {"devicePlugin": {"enableHostNetwork": True}},
    "driver container": {"nvidiaDriverRoot": "/run/nvidia/driver", "compatWithCPUManager": True},
    "health": {
        "health": {
            "fatal": [48, 79],
            "ignored": [13],
            "quietPeriod": "2m",
            "ecc": "rankLast",
            "injectFile": "/var/lib/gpu-device-plugin/inject",
        },
        "devices": {"exclude": [0, "GPU-1"]},
        "imex": {"channelIDs": [0], "required": True},
        "daemon": {"stateDir": "", "rescanInterval": "1m"},
        "log": {"format": "json", "level": "debug"},
    },
    "all of the pod": {
        "image": {"repository": "registry.example.com/gpu", "tag": 12, "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "pull"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "podAnnotations": {"a": "b"},
        "podSecurityContext": {"fsGroup": 0},
        "securityContext": {"privileged": True},
        "priorityClassName": "high",
        "resources": {"limits": {"memory": "1Gi"}},
        "selectorLabelsOverride": {"app": "gpus"},
        "serviceAccount": {"name": "mine"},
        "nameOverride": "gpus",
        "fullnameOverride": "gpus-of-mine",
        "namespaceOverride": "elsewhere",
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": None},
        "devicePlugin": {"containers": {"main": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]}}},
    },
    "long names": {"fullnameOverride": "g" * 70, "config": {"map": {"default": MPS}}, "cluster": {"events": True}},
}

_MIG = ("none", "single", "mixed")
_LIST = (
    "envvar",
    "volume-mounts",
    "cdi-annotations",
    "cdi-cri",
    "envvar,cdi-cri",
    ["volume-mounts", "cdi-annotations"],
)
_ACCESS = ("runtime", "mounted")
_SPECS = (False, True)

STRATEGIES: dict[str, Values] = {
    f"{mig} {listed} {access} specs={specs}": {
        "migStrategy": mig,
        "deviceListStrategy": listed,
        "driver": {"access": access},
        "compatWithCPUManager": specs,
        "nvidiaDriverRoot": "/",
    }
    for mig, listed, access, specs in itertools.product(_MIG, _LIST, _ACCESS, _SPECS)
}

MATRIX: dict[str, Values] = {**SINGLE, **STRATEGIES}
