import pytest

from tests.waiting import NotYet, wait_until


def test_the_true_answer_comes_back() -> None:
    answers = iter([0, [], "seven"])
    assert wait_until(lambda: next(answers)) == "seven"


def test_a_wait_that_fails_says_for_what_and_how_far_it_got() -> None:
    with pytest.raises(AssertionError, match=r"waited 0.01 s for eight cards; the last value was 'seven'"):
        wait_until(lambda: NotYet("seven"), timeout=0.01, what="eight cards")


def test_no_time_at_all_still_asks_once() -> None:
    assert wait_until(lambda: "at once", timeout=0) == "at once"
