"""A strict pretend kubelet on real sockets, for tests and demos; `python -m tests.fake_kubelet` runs it."""

from tests.fake_kubelet.kubelet import FakeKubelet
from tests.fake_kubelet.model import (
    VERSIONS,
    AdmissionFailed,
    Admitted,
    Device,
    Faults,
    Frame,
    Grant,
    Options,
    Pod,
    Registration,
    ResourceView,
    Stream,
)

__all__ = [
    "VERSIONS",
    "AdmissionFailed",
    "Admitted",
    "Device",
    "FakeKubelet",
    "Faults",
    "Frame",
    "Grant",
    "Options",
    "Pod",
    "Registration",
    "ResourceView",
    "Stream",
]
