"""The five calls of the DevicePlugin service for one resource, answered from the board's newest snapshot."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
import grpc.aio

from deviceplugin.board import Board
from deviceplugin.kubelet import messages
from deviceplugin.kubelet.decisions import Preference, Rules
from deviceplugin.kubelet.observe import Observer
from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.model.errors import NodeGoneError, Refusal, RequestError
from deviceplugin.model.inventory import Resource
from deviceplugin.model.snapshot import Snapshot

log = logging.getLogger(__name__)

_exists = partial(os.access, mode=os.F_OK)
"""Whether a path is there. Cheaper than a stat, and a pod waits for a dozen of them."""
Context = grpc.aio.ServicerContext[Any, Any]
_SERVICE = "v1beta1.DevicePlugin"
_STATUS = {
    Refusal.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    Refusal.FAILED_PRECONDITION: grpc.StatusCode.FAILED_PRECONDITION,
}


class Service:
    """Answers for one resource. Lists go out whole, and only when they differ from what that stream sent last."""

    def __init__(self, resource_name: str, board: Board, rules: Rules, observer: Observer) -> None:
        self.resource_name = resource_name
        self.streams = 0
        """Open ListAndWatch streams."""
        self.watched = False
        """Whether the kubelet's stream is open: the first one after a registration, others are onlookers."""
        self.opened = False
        """Whether it was opened since the last `end_streams`."""
        self.on_watched: Callable[[], None] = lambda: None
        """Called whenever `watched` has changed."""
        self._board = board
        self._rules = rules
        self._observer = observer
        self._generation = 0
        self._lister = messages.Lister(resource_name)
        self._frame = self._lister.frame(board.current)
        self._news = asyncio.Event()

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """The service as gRPC takes it. ListAndWatch passes bytes: a list is serialised once for all streams."""
        unary = grpc.unary_unary_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "GetDevicePluginOptions": unary(self._options),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(self._list_and_watch),
                "GetPreferredAllocation": unary(self._preferred, wire.PreferredAllocationRequest.FromString),
                "Allocate": unary(self._allocate, wire.AllocateRequest.FromString),
                "PreStartContainer": unary(self._pre_start),
            },
        )

    async def follow(self) -> None:
        """Keeps the list up to date until the board closes."""
        async for _ in self._board.follow():
            self.refresh()

    def refresh(self) -> None:
        """Takes over the board's newest snapshot now."""
        frame = self._lister.frame(self._board.current)
        if frame != self._frame:
            self._frame = frame
            self._wake()

    async def end_streams(self, timeout: float) -> bool:  # noqa: ASYNC109 - a bound, not a failure
        """Lets every open stream send its last list and end; False when one did not within `timeout` seconds."""
        self.refresh()
        self._generation += 1
        self.watched = self.opened = False
        self._wake()
        deadline = time.monotonic() + timeout
        while self.streams and (left := deadline - time.monotonic()) > 0:
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except TimeoutError:
                break
        return not self.streams

    async def _options(self, _request: bytes, _context: Context) -> bytes:
        return messages.OPTIONS.SerializeToString()

    async def _pre_start(self, _request: bytes, _context: Context) -> bytes:
        return b""

    async def _list_and_watch(self, _request: bytes, context: Context) -> None:
        generation = self._generation
        sent: messages.Frame | None = None
        by_kubelet = self._open()
        try:
            while True:
                frame, news = self._frame, self._news
                if frame != sent:
                    await context.write(frame.data)
                    self._sent(frame, first=sent is None)
                    sent = frame
                elif generation != self._generation:
                    return
                else:
                    await news.wait()
        finally:
            self._close(by_kubelet=by_kubelet and generation == self._generation)

    async def _allocate(self, request: wire.AllocateRequest, context: Context) -> bytes:
        began = time.perf_counter()
        try:
            snapshot, resource = self._offered()
            answer = wire.AllocateResponse()
            for wanted in request.container_requests:
                grant = self._rules.allocate(snapshot, resource, wanted.devices_ids, _exists, _unique)
                messages.add_grant(answer, grant)
        except RequestError as error:
            self._observer.allocated(self.resource_name, ok=False, seconds=time.perf_counter() - began)
            if isinstance(error, NodeGoneError):
                self._observer.node_gone(self.resource_name)
            log.warning("%s: Allocate refused: %s", self.resource_name, error)
            await context.abort(_STATUS[error.refusal], str(error))
        # Noted at once: to put it off until the answer is on its way costs more than the noting.
        self._observer.allocated(self.resource_name, ok=True, seconds=time.perf_counter() - began)
        return answer.SerializeToString()

    async def _preferred(self, request: wire.PreferredAllocationRequest, context: Context) -> bytes:
        try:
            snapshot, resource = self._offered()
            answers = [self._prefer(snapshot, resource, wanted) for wanted in request.container_requests]
        except RequestError as error:
            self._observer.preferred_refused(self.resource_name)
            log.warning("%s: GetPreferredAllocation refused: %s", self.resource_name, error)
            await context.abort(_STATUS[error.refusal], str(error))
        return wire.PreferredAllocationResponse(container_responses=answers).SerializeToString()

    def _prefer(
        self, snapshot: Snapshot, resource: Resource, wanted: wire.ContainerPreferredAllocationRequest
    ) -> wire.ContainerPreferredAllocationResponse:
        began = time.perf_counter()
        chosen = self._rules.prefer(
            snapshot, resource, wanted.available_deviceIDs, wanted.must_include_deviceIDs, wanted.allocation_size
        )
        seconds = time.perf_counter() - began
        self._told(wanted, chosen, seconds)
        return wire.ContainerPreferredAllocationResponse(deviceIDs=chosen.ids)

    def _told(self, wanted: wire.ContainerPreferredAllocationRequest, chosen: Preference, seconds: float) -> None:
        name, size = self.resource_name, wanted.allocation_size
        self._observer.preferred(name, size, chosen.domains, exact=chosen.exact, seconds=seconds)
        if chosen.unknown:
            self._observer.skipped(name, chosen.unknown)
        if not chosen.exact:
            log.info("%s: the search for %d devices was bounded: a better set may exist", name, size)
        if log.isEnabledFor(logging.DEBUG):
            log.debug(
                "%s: preferred allocation of %d from [%s] with [%s]: [%s], decided by %s in %.0f us; %d unknown ids",
                name,
                size,
                ", ".join(wanted.available_deviceIDs),
                ", ".join(wanted.must_include_deviceIDs),
                ", ".join(chosen.ids),
                chosen.decided_by,
                seconds * 1e6,
                chosen.unknown,
            )

    def _offered(self) -> tuple[Snapshot, Resource]:
        snapshot = self._board.current
        resource = snapshot.inventory.resources.get(self.resource_name)
        if resource is None:
            raise RequestError(f"{self.resource_name} is no longer offered by this node", Refusal.FAILED_PRECONDITION)
        return snapshot, resource

    def _sent(self, frame: messages.Frame, *, first: bool) -> None:
        self._observer.frame_sent(self.resource_name, frame.devices, frame.unhealthy)
        log.log(
            logging.INFO if first else logging.DEBUG,
            "%s: list sent: %d devices, %d unhealthy",
            self.resource_name,
            frame.devices,
            frame.unhealthy,
        )

    def _open(self) -> bool:
        """Counts a stream; whether it is the kubelet's."""
        self.streams += 1
        self._observer.stream_opened(self.resource_name)
        # A kubelet asks once per registration: whoever comes when its stream has ended is not it.
        if self.opened:
            return False
        self.watched = self.opened = True
        self.on_watched()
        return True

    def _close(self, *, by_kubelet: bool) -> None:
        self.streams -= 1
        self._observer.stream_closed(self.resource_name)
        self._wake()
        if by_kubelet:
            self.watched = False
            self.on_watched()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _unique() -> str:
    return os.urandom(8).hex()
