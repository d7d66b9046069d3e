"""What an endpoint does next: a pure decision over what is known of its sockets, registration and streams.

Rules of this file: no clock, no file, no gRPC. Level-triggered: the same view always gives the same step, whatever
was missed before.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from deviceplugin.ledger import Phase

Identity = tuple[int, int, int]
"""Device, inode and ctime (ns) of a socket file."""


class Step(StrEnum):
    """What to do next."""

    SERVE = "serve"
    """Make a server on a fresh socket (in place of the one there was)."""
    REGISTER = "register"
    WAIT = "wait"
    STOP = "stop"


class View(Struct, frozen=True):
    """What is known at one moment; times are of one monotonic clock."""

    calls_kubelet: bool
    """Registration by kubelet.sock; otherwise the kubelet finds the socket, or nobody is to find it."""
    needs_stream: bool = True
    """False where no kubelet is expected at all."""
    stopping: bool = False
    serving: bool = False
    """The server is up and its socket file is the one it made."""
    kubelet: Identity | None = None
    registered_with: Identity | None = None
    registered_at: float | None = None
    """When the kubelet last accepted; None before, and after the registration proved void."""
    watched: bool = False
    """The kubelet's stream is open."""
    streamed: bool = False
    """It was opened since the last registration was begun."""
    left_alone_at: float | None = None
    """When another process that served the same resource went, and the kubelet may be calling nobody since."""
    not_before: float = 0.0
    """Back-off: nothing is tried earlier."""
    stream_deadline: float = 5.0
    cut_grace: float = 0.3
    """Seconds in which the kubelet would cut a stream off that its latest registrant's end concerns."""


class Decision(Struct, frozen=True):
    """A step, the moment for it (None: whenever something changes), and why, for the log."""

    step: Step
    at: float | None = None
    why: str = ""


Row = tuple[Callable[[View], bool], Callable[[View], Decision]]

TABLE: tuple[Row, ...] = (
    (lambda v: v.stopping, lambda _: Decision(Step.STOP)),
    (lambda v: not v.serving, lambda v: Decision(Step.SERVE, v.not_before, "the socket file is gone")),
    (lambda v: not v.needs_stream, lambda _: Decision(Step.WAIT)),
    (lambda v: v.calls_kubelet and v.kubelet is None, lambda _: Decision(Step.WAIT, why="the kubelet is absent")),
    (
        lambda v: v.calls_kubelet and (v.registered_with is None or v.registered_at is None),
        lambda v: Decision(Step.REGISTER, v.not_before, "not registered yet"),
    ),
    (
        lambda v: v.calls_kubelet and v.registered_with != v.kubelet,
        lambda v: Decision(Step.REGISTER, v.not_before, "the kubelet's socket is a new one"),
    ),
    (
        lambda v: v.watched and v.left_alone_at is not None,
        lambda v: Decision(_again(v), (v.left_alone_at or 0.0) + v.cut_grace, "another plugin took over and has gone"),
    ),
    (lambda v: v.watched, lambda _: Decision(Step.WAIT)),
    (lambda v: v.streamed, lambda v: Decision(_again(v), v.not_before, "the kubelet's stream has ended")),
    (lambda v: v.registered_at is None, lambda _: Decision(Step.WAIT, why="the kubelet has not asked yet")),
    (
        lambda _: True,
        lambda v: Decision(
            _again(v),
            max((v.registered_at or 0.0) + v.stream_deadline, v.not_before),
            "registered, and no ListAndWatch came",
        ),
    ),
)
"""First match wins."""


def decide(view: View) -> Decision:
    """The next step of an endpoint in this view."""
    return next(then(view) for when, then in TABLE if when(view))


def _again(view: View) -> Step:
    """How to be registered anew: by a call, or by a new socket for the plugin watcher to find."""
    return Step.REGISTER if view.calls_kubelet else Step.SERVE


def phase(view: View) -> Phase:
    """How far an endpoint has come in this view."""
    if not view.serving:
        return Phase.STARTING
    if view.watched:
        return Phase.STREAMING
    current = not view.calls_kubelet or view.registered_with == view.kubelet
    return Phase.REGISTERED if view.registered_at is not None and current else Phase.SERVING
