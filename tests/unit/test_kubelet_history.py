"""Back-off, and the suspicion of a rival."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.kubelet.history import History
from deviceplugin.kubelet.settings import Backoff, EndpointSettings

SETTINGS = EndpointSettings(backoff=Backoff(first=1.0, cap=8.0, jitter=0.5), stable=60.0, contest_window=100.0)


@pytest.mark.parametrize(
    ("failures", "pause"), [(0, 0.0), (1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 8.0), (10_000, 8.0)]
)
def test_pauses_double_up_to_the_cap(failures: int, pause: float) -> None:
    assert SETTINGS.backoff.pause(failures, 0.0) == pause


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_jitter_shortens_by_its_share_at_most(failures: int, chance: float) -> None:
    backoff = SETTINGS.backoff
    assert backoff.pause(failures, 0.0) * 0.5 <= backoff.pause(failures, chance) <= backoff.pause(failures, 0.0)


def test_failures_hold_up_longer_and_longer_until_one_succeeds() -> None:
    history = History(SETTINGS, lambda: 0.0)
    assert [history.failed(10.0), history.failed(20.0), history.failed(30.0)] == [1.0, 2.0, 4.0]
    assert history.not_before == 34.0
    assert history.succeeded() == 3
    assert history.failed(40.0) == 1.0


def test_the_first_loss_is_made_good_at_once_and_the_next_ones_later_unless_the_stream_had_lived() -> None:
    history = History(SETTINGS, lambda: 0.0)
    history.opened(0.0)
    assert [history.lost(1.0), history.lost(2.0), history.lost(3.0)] == [0.0, 1.0, 2.0]
    history.opened(10.0)
    assert history.lost(71.0) == 0.0
    assert history.not_before == 71.0


def test_a_registration_without_a_stream_is_repeated_later_and_later() -> None:
    history = History(SETTINGS, lambda: 0.0)
    history.unwatched(0.0)
    history.unwatched(10.0)
    assert history.not_before == 12.0


def test_three_cuts_within_the_window_are_suspicious_and_then_it_counts_anew() -> None:
    history = History(SETTINGS, lambda: 0.0)
    assert [history.cut(at) for at in (0.0, 50.0, 99.0)] == [False, False, True]
    assert [history.cut(at) for at in (100.0, 101.0)] == [False, False]
    slow = History(SETTINGS, lambda: 0.0)
    assert not any(slow.cut(at) for at in (0.0, 60.0, 120.0, 180.0))


def test_a_new_kubelet_starts_with_a_clean_slate() -> None:
    history = History(SETTINGS, lambda: 0.0)
    history.failed(10.0)
    history.cut(1.0)
    history.cut(2.0)
    history.worth_saying("absent")
    history.renewed()
    assert history.not_before == 0.0
    assert not history.cut(3.0)
    assert history.worth_saying("absent")
    assert history.succeeded() == 0


def test_complaints_are_said_ever_more_seldom() -> None:
    history = History(SETTINGS, lambda: 0.0)
    said = [count for count in range(1, 40) if history.worth_saying("silent")]
    assert said == [1, 2, 4, 8, 16, 32]
    assert history.worth_saying("absent")
