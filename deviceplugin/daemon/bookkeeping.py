"""What the kubelet's door reports, written into the ledger."""

from __future__ import annotations

from collections.abc import Callable

from deviceplugin.kubelet.observe import Observer
from deviceplugin.ledger import Ledger, Phase


class Bookkeeping(Observer):
    """An observer of endpoints that counts.

    Args:
        ledger: Where it counts.
        granted: Called after each granted Allocate.
        moved: Called when a resource got on or fell back with the kubelet.
        rescan: Called when the hardware is not as the last scan saw it.
    """

    def __init__(
        self, ledger: Ledger, granted: Callable[[], None], moved: Callable[[], None], rescan: Callable[[], None]
    ) -> None:
        self._ledger = ledger
        self._granted = granted
        self._moved = moved
        self._rescan = rescan

    def phase_changed(self, resource: str, phase: Phase) -> None:
        """Shown as `registered` and on the status page."""
        self._ledger.phase(resource, phase)
        self._moved()

    def registered(self, resource: str) -> None:
        """Counts it."""
        self._ledger.count("registrations", resource, "success")

    def registration_failed(self, resource: str, kind: str) -> None:
        """Counts it by kind of failure."""
        self._ledger.count("registrations", resource, kind)
        self._moved()

    def contested(self, resource: str, rivals: str) -> None:
        """Counts that another plugin keeps taking the resource."""
        del rivals
        self._ledger.count("registrations", resource, "contested")
        self._moved()

    def stream_opened(self, resource: str) -> None:
        """Counts open streams."""
        self._ledger.stream(resource, +1)
        self._moved()

    def stream_closed(self, resource: str) -> None:
        """Counts open streams."""
        self._ledger.stream(resource, -1)
        self._moved()

    def frame_sent(self, resource: str, devices: int, unhealthy: int) -> None:
        """Counts lists sent."""
        del devices, unhealthy
        self._ledger.count("list_updates", resource)

    def allocated(self, resource: str, *, ok: bool, seconds: float) -> None:
        """Counts and times it; a grant tells the attribution of pods to look again."""
        self._ledger.answered("allocation", seconds, ("allocations", (resource, "success" if ok else "refused")))
        if ok:
            self._granted()

    def node_gone(self, resource: str) -> None:
        """Has the cards scanned at once."""
        del resource
        self._rescan()

    def preferred(self, resource: str, size: int, domains: int, *, exact: bool, seconds: float) -> None:
        """Counts by size and by NVLink domains spanned, and times it."""
        proved = "true" if exact else "false"
        self._ledger.answered("preferred", seconds, ("preferred", (resource, str(size), str(domains), proved)))

    def skipped(self, resource: str, ids: int) -> None:
        """Counts ids that the kubelet named and the resource does not have."""
        self._ledger.count("preferred_unknown", resource, by=ids)

    def preferred_refused(self, resource: str) -> None:
        """Counts refused calls."""
        self._ledger.count("preferred", resource, "refused", "", "")
