"""How figures are taken: percentiles, a process's memory and processor time, and a client of one plugin socket."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc

from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.kubelet.wire import deviceplugin_pb2_grpc as services

TICKS = os.sysconf("SC_CLK_TCK")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed(call: Callable[[], object], times: int) -> list[float]:
    """Milliseconds of each of so many calls."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


def rss(pid: int) -> float:
    """Resident memory in MB (10^6 bytes)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu(pid: int) -> float:
    """Processor seconds used so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def threads(pid: int) -> int:
    """Number of threads."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def files(pid: int) -> int:
    """Number of open files."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


class Client:
    """The kubelet's side of one plugin socket, blocking."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix:{socket}")
        self._stub = services.DevicePluginStub(self._channel)  # type: ignore[no-untyped-call]

    def allocate(self, ids: Sequence[str]) -> wire.AllocateResponse:
        """Allocate for one container."""
        request = wire.AllocateRequest(container_requests=[wire.ContainerAllocateRequest(devices_ids=ids)])
        answer: wire.AllocateResponse = self._stub.Allocate(request)
        return answer

    def preferred(self, available: Sequence[str], size: int, must: Sequence[str] = ()) -> list[str]:
        """GetPreferredAllocation for one container."""
        wanted = wire.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        answer = self._stub.GetPreferredAllocation(wire.PreferredAllocationRequest(container_requests=[wanted]))
        return list(answer.container_responses[0].deviceIDs)

    def first_list(self) -> wire.ListAndWatchResponse:
        """The first frame of a new stream."""
        stream = self._stub.ListAndWatch(wire.Empty())
        frame: wire.ListAndWatchResponse = next(iter(stream))
        stream.cancel()
        return frame

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()
