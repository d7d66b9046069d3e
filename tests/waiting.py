"""Waiting for something to become true, with a deadline and a message: the tests' only way to wait."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NotYet(str):
    """A false answer that says how far things are, for the message of a wait that fails."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False


def wait_until(
    predicate: Callable[[], T],
    *,
    timeout: float = 10.0,
    what: str = "the condition",
    interval: float = 0.005,
) -> T:
    """Polls until `predicate` answers something true, and returns that answer.

    Args:
        predicate: What is asked, first at once and for the last time after the deadline.
        timeout: Seconds until it fails.
        what: What is waited for, in the words of the failure.
        interval: Seconds between two questions.

    Raises:
        AssertionError: The deadline passed; the message shows the last answer.
    """
    deadline = time.monotonic() + timeout
    while True:
        late = time.monotonic() >= deadline
        value = predicate()
        if value:
            return value
        if late:
            raise AssertionError(f"waited {timeout:g} s for {what}; the last value was {value!r}")
        time.sleep(interval)
