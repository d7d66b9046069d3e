"""The runner-up that is shown is the second best of all sets, and what is said to decide does."""

from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.model.health import Health, Sickness
from deviceplugin.model.inventory import Closeness, Policy
from deviceplugin.rules.prefer.cards import Rule
from deviceplugin.rules.prefer.explain import explain
from tests.laws.prefer_oracle import ranking
from tests.strategies.fabrics import closeness, irregular, replicas, trees, uuid, whole_cards

SICK = (Sickness(uuid="", reason="xid-79", kind="lost", since=0.0),)


@given(st.data(), st.one_of(irregular(7), trees(8)))
def test_the_runner_up_of_whole_cards_is_the_second_best(data: st.DataObject, close: Closeness) -> None:
    count = len(close.uuids)
    available = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    size = data.draw(st.integers(1, len(available)))
    must = data.draw(st.sets(st.sampled_from(sorted(available)), max_size=size))
    last = data.draw(st.sets(st.integers(0, count - 1), max_size=2))
    snapshot, resource = whole_cards(close, Health(last={close.uuids[i]: SICK for i in last}))
    found = explain(snapshot, resource, [uuid(i) for i in available], [uuid(i) for i in must], size)
    ranked = ranking(close, available, must, size, last)
    assert set(found.preference.gpu_indices) == ranked[0][1]
    if len(ranked) == 1:
        assert (found.runner_up, found.rows) == ((), ())
        return
    assert {resource.by_id[name].gpu_index for name in found.runner_up} == ranked[1][1]
    *before, last_row = found.rows
    assert all(row.chosen == row.runner_up for row in before)
    assert last_row.chosen != last_row.runner_up
    assert last_row.rule is found.preference.decided_by


def test_unhealthy_cards_are_the_reason_where_they_leave_no_choice() -> None:
    snapshot, resource = whole_cards(closeness(3, lambda a, b: 1), Health(sick={uuid(0): SICK}))
    found = explain(snapshot, resource, [uuid(i) for i in range(3)], [], 2)
    assert found.preference.decided_by is Rule.HEALTH
    assert [(row.rule, row.chosen, row.runner_up) for row in found.rows] == [(Rule.HEALTH, 0, 1)]
    forced = explain(snapshot, resource, [uuid(i) for i in range(3)], [uuid(2)], 3)
    assert forced.rows == ()


@given(st.data(), trees(4), st.sampled_from(list(Policy)))
def test_the_runner_up_of_shares_is_another_set_that_the_criteria_put_second(
    data: st.DataObject, close: Closeness, policy: Policy
) -> None:
    snapshot, resource = replicas(close, [3] * len(close.uuids), policy)
    ids = [share.id for share in resource.shares]
    available = data.draw(st.lists(st.sampled_from(ids), unique=True, min_size=1))
    size = 1 if policy is Policy.STRICT else data.draw(st.integers(1, min(4, len(available))))
    found = explain(snapshot, resource, available, [], size)
    if not found.runner_up:
        assert found.rows == ()
        return
    assert set(found.runner_up) != set(found.preference.ids)
    assert len(set(found.runner_up)) == size
    *before, last_row = found.rows
    assert all(row.chosen == row.runner_up for row in before)
    assert last_row.chosen != last_row.runner_up
