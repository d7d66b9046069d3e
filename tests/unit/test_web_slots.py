"""Who has a place at the port, and who makes room for whom."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from deviceplugin.web.slots import Slots

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    """Connections: our end, and that of the client."""
    with ExitStack() as stack:
        made = [socket.socketpair() for _ in range(4)]
        for pair in made:
            for end in pair:
                end.settimeout(5)
                stack.enter_context(end)
        yield made


def seating(slots: Slots, connection: socket.socket) -> threading.Thread:
    thread = threading.Thread(target=slots.seat, args=(connection,))
    thread.start()
    return thread


def test_the_longest_silent_makes_room(pairs: list[Pair]) -> None:
    slots = Slots(2, grace=0)
    (first, its_client), (second, _), (third, _), _ = pairs
    slots.seat(first)
    slots.seat(second)
    newcomer = seating(slots, third)
    assert its_client.recv(1) == b""
    assert not slots.keep(first)
    slots.leave(first)
    newcomer.join(5)
    assert slots.keep(second)
    assert slots.keep(third)


def test_who_is_being_answered_keeps_the_place_however_long(pairs: list[Pair]) -> None:
    slots = Slots(2, grace=0)
    (first, its_client), (second, seconds_client), (third, _), (fourth, _) = pairs
    slots.seat(first)
    slots.seat(second)
    assert slots.keep(first)
    newcomer = seating(slots, third)
    assert seconds_client.recv(1) == b""
    slots.leave(second)
    newcomer.join(5)
    assert slots.keep(third)
    waiting = seating(slots, fourth)
    first.sendall(b"answer")
    assert its_client.recv(6) == b"answer"
    assert waiting.is_alive()
    slots.leave(first)
    waiting.join(5)
    assert slots.keep(fourth)


def test_a_newcomer_has_its_grace(pairs: list[Pair]) -> None:
    slots = Slots(1, grace=0.2)
    (first, its_client), (second, _), *_ = pairs
    began = time.monotonic()
    slots.seat(first)
    newcomer = seating(slots, second)
    assert its_client.recv(1) == b""
    assert time.monotonic() - began >= 0.2
    slots.leave(first)
    newcomer.join(5)
    assert slots.keep(second)
