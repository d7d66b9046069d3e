"""What the kubelet's door reports of itself, for metrics and status; the base class hears and does nothing."""

from __future__ import annotations

from deviceplugin.ledger import Phase


class Observer:
    """Told of everything that happens at an endpoint. Override what is of interest; calls come on the event loop."""

    def phase_changed(self, resource: str, phase: Phase) -> None:
        """The endpoint of `resource` entered `phase`."""

    def registered(self, resource: str) -> None:
        """The kubelet accepted a registration."""

    def registration_failed(self, resource: str, kind: str) -> None:
        """A registration failed; `kind` is a value of `registration.Failure`."""

    def contested(self, resource: str, rivals: str) -> None:
        """The stream is cut again and again by the same kubelet; `rivals` names the sockets beside ours."""

    def stream_opened(self, resource: str) -> None:
        """The kubelet opened ListAndWatch."""

    def stream_closed(self, resource: str) -> None:
        """A ListAndWatch ended, whoever ended it."""

    def frame_sent(self, resource: str, devices: int, unhealthy: int) -> None:
        """A whole list went out on one stream."""

    def allocated(self, resource: str, *, ok: bool, seconds: float) -> None:
        """An Allocate call was answered; `ok` is false when it was refused."""

    def node_gone(self, resource: str) -> None:
        """An Allocate was refused since the device node of a granted device is not there."""

    def preferred(self, resource: str, size: int, domains: int, *, exact: bool, seconds: float) -> None:
        """One container's preferred allocation was answered, with ids from that many NVLink domains."""

    def skipped(self, resource: str, ids: int) -> None:
        """So many available ids of a preferred allocation were skipped: the resource does not have them."""

    def preferred_refused(self, resource: str) -> None:
        """A GetPreferredAllocation call was refused."""
