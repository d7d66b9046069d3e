"""Tours: who is to blame for a call that does not come back, and when a card is asked again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, ParamSpec

import pytest

from deviceplugin.model.errors import NvmlError
from deviceplugin.nvml import tours as module
from deviceplugin.nvml.tour import PAIRS, Tour
from deviceplugin.nvml.tours import Tours
from deviceplugin.nvml.worker import Worker

P = ParamSpec("P")
CARDS = ("A", "B", "C")


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs a test on an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Ward:
    """Three cards and a driver, whose calls hang until they are let go."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.hanging: set[str] = set()
        self.found: list[str] = []
        self.back = 0
        self.worker = Worker("tours", spares=4)
        self.tours = Tours(self.worker, lambda card, query: self.found.append(f"{card} {query}"), self._over)
        self.tours.patience = 0.05

    def _over(self) -> None:
        self.back += 1

    def call(self, tour: Tour, name: str) -> None:
        gate = self.gate
        tour.begin("ask")
        if name in self.hanging:
            assert gate.wait(30)
        tour.end()

    def ask(self, tour: Tour, *cards: str) -> tuple[str, ...]:
        self.call(tour, "driver")
        seen = []
        for card in cards or CARDS:
            if card not in tour.skipped:
                with tour.visit(card):
                    self.call(tour, card)
                seen.append(card)
        return tuple(seen)

    async def make(self, kind: str = "states", *cards: str, deadline: float = 10.0) -> tuple[str, ...]:
        return await self.tours.make(kind, lambda tour: self.ask(tour, *cards), deadline=deadline)

    async def let_go(self, *cards: str) -> None:
        """The calls under way come back; those to these cards hang no more."""
        self.hanging -= set(cards)
        gate, self.gate = self.gate, threading.Event()
        gate.set()
        deadline = asyncio.get_running_loop().time() + 10
        while self.worker.hanging:
            assert asyncio.get_running_loop().time() < deadline, "threads that come back"
            await asyncio.sleep(0.002)


@pytest.fixture
def ward() -> Iterator[Ward]:
    ward = Ward()
    yield ward
    ward.gate.set()


@on_a_loop
async def test_a_card_that_hangs_is_left_out_and_found_before_the_tour_is_answered(ward: Ward) -> None:
    ward.hanging = {"B"}
    assert await ward.make() == ("A", "C")
    assert ward.found == ["B ask"]
    assert ward.tours.left_out == {"B": "ask"}
    assert await ward.make("load") == ("A", "C")
    assert ward.worker.hanging == 1
    assert ward.found == ["B ask"]
    await ward.let_go("B")
    assert ward.back == 1
    assert ward.tours.left_out == {"B": "ask"}, "it has not answered yet"
    assert await ward.make() == CARDS
    assert ward.tours.left_out == {}


@on_a_loop
async def test_a_driver_that_hangs_as_well_clears_the_card(ward: Ward) -> None:
    ward.hanging = {"A"}

    def ask(tour: Tour) -> tuple[str, ...]:
        if tour.doubtful:
            ward.hanging |= {"driver"}
        return ward.ask(tour)

    with pytest.raises(NvmlError, match="does not answer"):
        await ward.tours.make("states", ask, deadline=10)
    assert ward.found == []
    assert ward.tours.left_out == {}


@on_a_loop
async def test_all_cards_that_hang_are_no_cards_fault(ward: Ward) -> None:
    ward.hanging = set(CARDS)
    with pytest.raises(NvmlError, match=r"calls about every GPU hang \(ask\)"):
        await ward.make()
    assert ward.found == []
    assert ward.tours.left_out == {}
    ward.hanging = {"A"}
    await ward.let_go("A")
    assert await ward.make() == CARDS


@on_a_loop
async def test_the_only_card_is_found_if_the_driver_answers(ward: Ward) -> None:
    ward.hanging = {"A"}
    assert await ward.make("states", "A") == ()
    assert ward.found == ["A ask"]


@on_a_loop
async def test_a_tour_that_asks_something_else_finds_nobody(ward: Ward) -> None:
    ward.hanging = {"A"}
    scan = asyncio.create_task(ward.make("scan"))
    await asyncio.sleep(0)
    load = asyncio.create_task(ward.make("load"))
    assert await load == ("B", "C")
    assert ward.found == []
    assert await scan == ("B", "C")
    assert ward.found == ["A ask"]


@on_a_loop
async def test_threads_that_hang_are_few(ward: Ward) -> None:
    cards = tuple("ABCDEFGH")
    ward.hanging = set(cards[:5])
    with pytest.raises(NvmlError, match="4 threads of tours hang"):
        await ward.make("states", *cards)
    assert ward.found == []
    assert ward.worker.hanging == 4


@on_a_loop
async def test_a_card_that_takes_most_of_a_tours_time_is_left_out(ward: Ward) -> None:
    ward.tours.patience = 30.0
    ward.hanging = {"C"}
    assert await ward.make(deadline=0.05) == ("A", "B")
    assert ward.found == ["C ask"]


@on_a_loop
async def test_a_card_that_hangs_again_at_once_is_asked_later(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    ward.hanging = {"B"}
    await ward.make()
    await ward.let_go()
    assert await ward.make() == ("A", "C")
    assert ward.found == ["B ask"], "it is known already"
    await ward.let_go("B")
    assert await ward.make() == ("A", "C")
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    assert await ward.make() == CARDS


@on_a_loop
async def test_a_call_that_never_comes_back_is_not_waited_for_for_ever(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward.hanging = {"B"}
    await ward.make()
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.0)
    ward.hanging = set()
    assert await ward.make() == CARDS
    assert ward.tours.left_out == {}
    assert ward.worker.hanging == 1


@on_a_loop
async def test_a_call_about_two_cards_blames_neither(ward: Ward) -> None:
    ward.hanging = {PAIRS}
    assert await ward.make("scan", *CARDS, PAIRS) == CARDS
    assert ward.tours.left_out == {PAIRS: "ask"}


def test_who_reads_often_is_less_patient() -> None:
    tours = Tours(Worker("unused"), lambda _card, _query: None, lambda: None)
    patience = []
    for interval in (0.1, 2.5, 5.0, 60.0):
        tours.suit(interval)
        patience.append(tours.patience)
    assert patience == [2.0, 4.0, 8.0, 8.0]
