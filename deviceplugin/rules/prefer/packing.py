"""Policy packed: shares on as few and as full holders as can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deviceplugin.rules.prefer.holders import Holder, Part, Placement, fits


def packed(holders: Sequence[Holder], number: int) -> list[Placement]:
    """All ways to place shares that are best.

    Fewest holders are opened from zero, with fewest shares on those; then the sum of squares of shares in use is
    largest, then the number of holders smallest. Sums of squares grow with inequality, so of the holders that get
    shares all but one are filled.
    """
    opened = [holder for holder in holders if holder.before and holder.room]
    room = sum(holder.room for holder in opened)
    if number <= room:
        return _Filling(_alike(opened), number).placements()
    certain = tuple((holder, holder.room) for holder in opened)
    parts = _opening([holder for holder in holders if holder.room and not holder.before], number - room)
    return [Placement(certain, (part,)) for part in parts]


def _opening(closed: Sequence[Holder], number: int) -> Iterator[Part]:
    """Places shares on as few new holders as can take them, as unequally as can be."""
    rooms = sorted((holder.room for holder in closed), reverse=True)
    count = next(n for n in range(1, len(rooms) + 1) if sum(rooms[:n]) >= number)
    amounts: list[int] = []
    for at, room in enumerate(rooms[:count]):
        amounts.append(min(room, number - sum(amounts) - (count - at - 1)))
    groups: dict[int, list[Holder]] = {}
    for holder in closed:
        if holder.room >= amounts[-1]:
            groups.setdefault(max(amount for amount in amounts if amount <= holder.room), []).append(holder)
    for numbers in _splits([len(group) for group in groups.values()], count):
        taken = sorted((room for room, n in zip(groups, numbers, strict=True) for _ in range(n)), reverse=True)
        if fits(amounts, taken):
            some = zip(groups.values(), numbers, strict=True)
            yield Part(tuple((tuple(group), n) for group, n in some if n), tuple(amounts))


def _splits(sizes: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    """All ways to take a total from groups of some sizes."""
    if not sizes:
        if not total:
            yield ()
        return
    for number in range(min(sizes[0], total) + 1):
        for rest in _splits(sizes[1:], total - number):
            yield (number, *rest)


def _alike(holders: Sequence[Holder]) -> list[tuple[Holder, ...]]:
    """Holders that are equal to the policy, those first of which a share is worth most when they are filled."""
    kinds: dict[tuple[int, int, bool], list[Holder]] = {}
    for holder in holders:
        kinds.setdefault((holder.before, holder.room, holder.must), []).append(holder)
    ordered = sorted(kinds.items(), key=lambda kind: 2 * kind[0][0] + kind[0][1], reverse=True)
    return [tuple(kind) for _, kind in ordered]


@dataclass(slots=True)
class _Filling:
    """Fills open holders: kind by kind a number of them, and one more in part, keeping all of the best ways."""

    kinds: Sequence[tuple[Holder, ...]]
    number: int
    best: tuple[int, int] = (-1, 0)
    """Gain in squares, and holders used (negative)."""
    ways: list[tuple[tuple[int, ...], int | None]] = field(default_factory=list)
    """How many of each kind are filled, and the kind of which one is filled in part."""

    def placements(self) -> list[Placement]:
        self._walk((), self.number, (0, 0))
        return [self._placement(filled, partly) for filled, partly in self.ways]

    def _walk(self, filled: tuple[int, ...], left: int, worth: tuple[int, int]) -> None:
        if len(filled) == len(self.kinds):
            self._finish(filled, left, worth)
            return
        kind = self.kinds[len(filled)]
        before, room = kind[0].before, kind[0].room
        if worth[0] + left * (2 * before + room) < self.best[0]:
            return
        for number in range(min(len(kind), left // room), -1, -1):
            gain = number * room * (2 * before + room)
            used = 0 if kind[0].must else number
            self._walk((*filled, number), left - number * room, (worth[0] + gain, worth[1] - used))

    def _finish(self, filled: tuple[int, ...], left: int, worth: tuple[int, int]) -> None:
        if not left:
            self._keep(filled, None, worth)
            return
        for at, kind in enumerate(self.kinds):
            if filled[at] < len(kind) and left < kind[0].room:
                gain = left * (2 * kind[0].before + left)
                self._keep(filled, at, (worth[0] + gain, worth[1] - (not kind[0].must)))

    def _keep(self, filled: tuple[int, ...], partly: int | None, worth: tuple[int, int]) -> None:
        if worth > self.best:
            self.best, self.ways = worth, []
        if worth == self.best:
            self.ways.append((filled, partly))

    def _placement(self, filled: tuple[int, ...], partly: int | None) -> Placement:
        left = self.number - sum(n * kind[0].room for n, kind in zip(filled, self.kinds, strict=True))
        parts = []
        for at, (number, kind) in enumerate(zip(filled, self.kinds, strict=True)):
            amounts = (kind[0].room,) * number + ((left,) if at == partly else ())
            if amounts:
                parts.append(Part(((kind, len(amounts)),), amounts))
        return Placement((), tuple(parts))
