"""What an endpoint does next: the table, row by row, and what must hold in every view."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deviceplugin.kubelet.watchdog import Decision, Step, View, decide, phase
from deviceplugin.ledger import Phase

OLD, NEW = (1, 1, 1), (1, 1, 2)
WELL = View(
    calls_kubelet=True, serving=True, kubelet=OLD, registered_with=OLD, registered_at=10.0, watched=True, streamed=True
)
BY_WATCHER = replace(WELL, calls_kubelet=False, kubelet=None, registered_with=None)


@pytest.mark.parametrize(
    ("view", "step", "at"),
    [
        (replace(WELL, stopping=True), Step.STOP, None),
        (replace(WELL, stopping=True, serving=False), Step.STOP, None),
        (replace(WELL, serving=False, not_before=7.0), Step.SERVE, 7.0),
        (replace(WELL, needs_stream=False, watched=False), Step.WAIT, None),
        (replace(WELL, kubelet=None, watched=False), Step.WAIT, None),
        (replace(WELL, registered_with=None, registered_at=None, not_before=3.0), Step.REGISTER, 3.0),
        (replace(WELL, kubelet=NEW, not_before=3.0), Step.REGISTER, 3.0),
        (WELL, Step.WAIT, None),
        (replace(WELL, left_alone_at=20.0, cut_grace=0.5), Step.REGISTER, 20.5),
        (replace(WELL, watched=False, not_before=12.0), Step.REGISTER, 12.0),
        (replace(WELL, watched=False, streamed=False, stream_deadline=5.0), Step.REGISTER, 15.0),
        (replace(WELL, watched=False, streamed=False, stream_deadline=5.0, not_before=40.0), Step.REGISTER, 40.0),
        (BY_WATCHER, Step.WAIT, None),
        (replace(BY_WATCHER, registered_at=None, watched=False, streamed=False), Step.WAIT, None),
        (replace(BY_WATCHER, watched=False), Step.SERVE, 0.0),
        (replace(BY_WATCHER, watched=False, streamed=False, stream_deadline=5.0), Step.SERVE, 15.0),
        (replace(BY_WATCHER, left_alone_at=20.0, cut_grace=0.5), Step.SERVE, 20.5),
    ],
)
def test_the_next_step(view: View, step: Step, at: float | None) -> None:
    decision = decide(view)
    assert (decision.step, decision.at) == (step, at)


@pytest.mark.parametrize(
    ("view", "named"),
    [
        (replace(WELL, serving=False), Phase.STARTING),
        (WELL, Phase.STREAMING),
        (replace(WELL, watched=False), Phase.REGISTERED),
        (replace(WELL, watched=False, registered_at=None, registered_with=None), Phase.SERVING),
        (replace(WELL, watched=False, kubelet=NEW), Phase.SERVING),
        (replace(WELL, watched=False, kubelet=None), Phase.SERVING),
        (replace(BY_WATCHER, watched=False), Phase.REGISTERED),
        (replace(BY_WATCHER, watched=False, registered_at=None), Phase.SERVING),
    ],
)
def test_the_name_of_where_it_is(view: View, named: Phase) -> None:
    assert phase(view) is named


identities = st.none() | st.sampled_from([OLD, NEW])
views = st.builds(
    View,
    calls_kubelet=st.booleans(),
    needs_stream=st.booleans(),
    stopping=st.booleans(),
    serving=st.booleans(),
    kubelet=identities,
    registered_with=identities,
    registered_at=st.none() | st.floats(0, 100),
    watched=st.booleans(),
    streamed=st.booleans(),
    left_alone_at=st.none() | st.floats(0, 100),
    not_before=st.floats(0, 100),
)


@given(views)
def test_in_every_view_there_is_a_step_that_makes_sense(view: View) -> None:
    decision = decide(view)
    if decision.step is Step.REGISTER:
        assert view.serving
        assert view.kubelet is not None
        assert decision.at is not None
        assert decision.at >= view.not_before or view.left_alone_at is not None
    if decision.step is Step.SERVE:
        assert not view.serving or not view.calls_kubelet
    if view.serving and not view.stopping and view.calls_kubelet and view.needs_stream and not view.watched:
        assert decision.step is (Step.REGISTER if view.kubelet else Step.WAIT), "nothing is waited for in vain"
    assert isinstance(decision, Decision)
