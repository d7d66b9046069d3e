"""The objective of whole cards, word by word and set by set: slow, and too plain to be wrong."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from deviceplugin.model.inventory import Closeness

Key = tuple[object, ...]


def sum_over(pairs: tuple[tuple[int, ...], ...], cards: Iterable[int]) -> int:
    return sum(pairs[a][b] for a, b in combinations(sorted(cards), 2))


def sizes(labels: tuple[int | None, ...], cards: Iterable[int]) -> list[int]:
    """How many cards have each label, largest first."""
    found: dict[int | None, int] = {}
    for card in cards:
        found[labels[card]] = found.get(labels[card], 0) + 1
    return sorted(found.values(), reverse=True)


def key(close: Closeness, last: frozenset[int], available: frozenset[int], chosen: frozenset[int]) -> Key:
    """Rules 0 to 9; the smallest is the best. Positions are indices."""
    left = available - chosen
    return (
        len(chosen & last) if len(chosen) > 1 else 0,
        len(sizes(close.domain, chosen)),
        -min((close.nvlink[a][b] for a, b in combinations(chosen, 2)), default=0),
        -sum_over(close.nvlink, chosen),
        [-size for size in sizes(close.domain, left)],
        len(sizes(close.numa, chosen)),
        [-size for size in sizes(close.numa, left)],
        -sum_over(close.pcie, chosen),
        -sum_over(close.nvlink, left),
        -sum_over(close.pcie, left),
        sorted(chosen),
    )


def ranking(
    close: Closeness, available: Iterable[int], must: Iterable[int], size: int, last: Iterable[int] = ()
) -> list[tuple[Key, frozenset[int]]]:
    """All sets that are allowed, the best first."""
    must, late = frozenset(must), frozenset(last)
    everything = frozenset(available) | must
    sets = (must | frozenset(more) for more in combinations(sorted(everything - must), size - len(must)))
    return sorted(((key(close, late, everything, chosen), chosen) for chosen in sets), key=lambda pair: pair[0])


@dataclass(frozen=True)
class Stack:
    """A holder of shares: its card, the shares in use before, and those that may be given."""

    card: int
    before: int
    room: int
    must: bool


def amounts(stacks: Sequence[Stack], number: int) -> Iterator[tuple[int, ...]]:
    """All ways to take a number of shares."""
    if not stacks:
        if not number:
            yield ()
        return
    for own in range(min(stacks[0].room, number) + 1):
        for rest in amounts(stacks[1:], number - own):
            yield (own, *rest)


def share_key(close: Closeness, policy: str, stacks: Sequence[Stack], given: tuple[int, ...], *, mig: bool) -> Key:
    """The objective of shares; the smallest is the best."""
    both = list(zip(stacks, given, strict=True))
    holders = [stack for stack, own in both if own or stack.must]
    cards = frozenset(stack.card for stack in holders)
    squares = sum((stack.before + own) ** 2 for stack, own in both)
    opened = [own for stack, own in both if own and not stack.before]
    near: Key = (
        len(sizes(close.domain, cards)),
        -min((close.nvlink[a][b] for a, b in combinations(cards, 2)), default=0),
        -sum_over(close.nvlink, cards),
    )
    near = () if mig else near
    beside: Key = (len(sizes(close.numa, cards)), -sum_over(close.pcie, cards), sorted(cards))
    places = [place for place, own in enumerate(given) for _ in range(own)]
    policies: dict[str, Key] = {
        "distributed": (squares, *near),
        "packed": (len(opened), sum(opened), -squares, len(holders), *near),
        "spread": (-len(holders), *near, squares),
    }
    return (*policies["spread" if policy == "strict" else policy], *beside, places)
