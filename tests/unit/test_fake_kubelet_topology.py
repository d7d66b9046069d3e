from tests.fake_kubelet.topology import Demand, Hint, best_hint, hints, split

TWO = frozenset({0, 1})
FOUR_A_SOCKET = {f"g{n}": (n // 4,) for n in range(8)}


def demand(size: int, taken: str = "", reusable: str = "") -> Demand:
    free = frozenset(FOUR_A_SOCKET) - set(taken.split()) - set(reusable.split())
    return Demand(size, FOUR_A_SOCKET, free, frozenset(reusable.split()))


def hint(nodes: set[int], *, preferred: bool) -> Hint:
    return Hint(frozenset(nodes), preferred)


def test_every_set_of_nodes_that_holds_enough_is_a_hint_and_the_narrowest_are_preferred() -> None:
    assert hints(demand(2), TWO) == [
        hint({0}, preferred=True),
        hint({1}, preferred=True),
        hint({0, 1}, preferred=False),
    ]


def test_a_full_node_is_no_hint_and_the_width_is_judged_by_all_devices_not_by_free_ones() -> None:
    assert hints(demand(4, taken="g0 g4"), TWO) == [hint({0, 1}, preferred=False)]
    assert hints(demand(5), TWO) == [hint({0, 1}, preferred=True)]


def test_more_than_there_is_gives_a_hint_that_is_no_good() -> None:
    assert hints(demand(9), TWO) == [Hint(None, preferred=False)]


def test_reusable_devices_must_lie_within_the_hint() -> None:
    assert hints(demand(2, reusable="g5"), TWO) == [
        hint({1}, preferred=True),
        hint({0, 1}, preferred=False),
    ]


def test_devices_without_numa_node_fit_anywhere() -> None:
    plain = Demand(1, {"a": (), "b": ()}, frozenset({"a", "b"}), frozenset())
    assert hints(plain, TWO) == [Hint(None, preferred=True)]
    assert split(plain, hint({0}, preferred=True)).without == {"a", "b"}


def test_the_lowest_of_equally_good_nodes_wins_and_two_resources_agree_on_one() -> None:
    one = hints(demand(1), TWO)
    other = hints(demand(1, taken="g0 g1 g2 g3"), TWO)
    assert best_hint("restricted", [one], TWO) == hint({0}, preferred=True)
    assert best_hint("restricted", [one, other], TWO) == hint({1}, preferred=True)


def test_resources_on_different_nodes_have_no_preferred_hint() -> None:
    left = hints(demand(1, taken="g4 g5 g6 g7"), TWO)
    right = hints(demand(1, taken="g0 g1 g2 g3"), TWO)
    assert not best_hint("restricted", [left, right], TWO).preferred
    assert not best_hint("single-numa-node", [left, right], TWO).preferred


def test_single_numa_node_refuses_what_restricted_takes_over_two_nodes() -> None:
    wide = [hints(demand(5), TWO)]
    assert best_hint("restricted", wide, TWO) == hint({0, 1}, preferred=True)
    assert not best_hint("single-numa-node", wide, TWO).preferred


def test_single_numa_node_on_a_machine_of_one_node_hints_at_nothing() -> None:
    small = Demand(1, {"a": (0,)}, frozenset({"a"}), frozenset())
    machine = frozenset({0})
    assert best_hint("single-numa-node", [hints(small, machine)], machine) == Hint(None, preferred=True)


def test_free_devices_are_parted_by_the_hint() -> None:
    mixed = Demand(1, {"a": (0,), "b": (1,), "c": (), "d": (0, 1)}, frozenset({"a", "b", "c", "d"}), frozenset())
    parts = split(mixed, hint({1}, preferred=True))
    assert parts.aligned == {"b", "d"}
    assert parts.unaligned == {"a"}
    assert parts.without == {"c"}
    assert split(mixed, None).without == mixed.available
