"""Kind after kind: every number that may be taken of it is tried on every state.

A state is how many were taken of each group that later kinds can tell apart. Two ways to one state differ only in what
they are worth, so the better one stays; the runner-up's worth is carried along, to tell what decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import mul, sub

from msgspec import Struct

from deviceplugin.rules.prefer.scale import Scale, Span
from deviceplugin.rules.prefer.takes import NONE, Take

State = tuple[int, ...]
Best = tuple[int, int, int]
"""Worth, mask, worth of the runner-up."""
Worths = Mapping[int, int]
"""By number taken."""


BUDGET = 40_000
"""Most numbers in all states to look at: about 50 ms."""


OWN = 2
"""What a state costs besides its numbers."""


class TooMuchError(Exception):
    """There are too many states to look at."""


class Window(Struct, frozen=True):
    """Which totals are wanted, and the narrowest NVLink that is."""

    low: int
    high: int
    floor: int = 0


class Bounds(Struct, frozen=True):
    """What some criteria will be worth: the best in all, and by block that ends, by total still to take."""

    best: int
    after: Mapping[int, Worths]
    """By number of the last step of a block."""
    span: Span
    """Which criteria."""


def better(old: Best, new: Best) -> Best:
    """The better of two ways to one state, and the runner-up of both."""
    if new[:2] > old[:2]:
        return new[0], new[1], max(old[0], new[2])
    return (old[0], old[1], new[0]) if new[0] > old[2] else old


def sweep(taking: Sequence[Take], units: Scale, window: Window, bounds: Bounds | None) -> tuple[dict[State, Best], int]:
    """The best of each total that is wanted, and what the best of those that were dropped was worth by the bounds."""
    states: dict[State, Best] = {(): (0, 0, NONE)}
    least, most = sum(take.least for take in taking), sum(take.most for take in taking)
    lost, looked_at = NONE, 0
    for at, take in enumerate(taking):
        least -= take.least
        most -= take.most
        reached: dict[State, Best] = {}
        for state, (worth, mask, second) in states.items():
            taken = sum(state)
            low, high = max(take.least, window.low - taken - most), min(take.most, window.high - taken - least)
            if window.floor:
                high = _wide_enough(take, state, high, window.floor)
            for number, after, gain in _moves(take, units, state, range(low, high + 1)):
                new, runner, loss = worth + gain, NONE if second == NONE else second + gain, take.other[number]
                if loss != NONE and new - loss > runner:
                    runner = new - loss
                old, own = reached.get(after), (new, mask | take.masks[number], runner)
                reached[after] = own if old is None else better(old, own)
        if bounds is not None and at in bounds.after:
            lost = max(lost, _drop(reached, bounds, bounds.after[at], window.low))
        looked_at += len(reached) * (take.step.groups + OWN)
        if looked_at > BUDGET:
            raise TooMuchError
        states = reached
    return states, lost


def _wide_enough(take: Take, state: State, high: int, floor: int) -> int:
    if any(number and width < floor for number, width in zip(state, take.step.nvlink, strict=True)):
        return 0
    return min(high, 1) if take.step.inside[0] < floor else high


def _moves(take: Take, units: Scale, state: State, numbers: range) -> Iterator[tuple[int, State, int]]:
    """For each number that may be taken of a kind: its place in the tuples, the state after it, and its worth."""
    step, available = take.step, take.available
    linked = sum(map(mul, state, take.linked))
    left = sum(map(mul, map(sub, take.here, state), take.left))
    base = [0] * step.groups
    for group, number in zip(step.into, state, strict=True):
        base[group] += number
    mine = base[step.own]
    ends = [
        (end, take.available + sum(take.here[group] for group in groups), sum(state[group] for group in groups))
        for end, groups in ((units.domain_end, step.domain), (units.numa_end, step.numa))
        if groups is not None
    ]
    for number in numbers:
        gain = take.worth[number - take.least] + number * linked + (available - number) * left
        for end, here, taken in ends:
            gain += end.blocks[here - taken - number] if taken + number else end.blocks[here] + end.untouched
        base[step.own] = mine + number
        yield number - take.least, tuple(base), gain


def _drop(reached: dict[State, Best], bounds: Bounds, after: Worths, size: int) -> int:
    """Drops states from which the best cannot be reached; what the best of them could have reached."""
    lost = NONE
    for state, (worth, _, _) in list(reached.items()):
        within = bounds.span.of(worth) + after[size - sum(state)]
        if within < bounds.best:
            lost = max(lost, within)
            del reached[state]
    return lost
