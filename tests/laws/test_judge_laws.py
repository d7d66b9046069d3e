"""What holds of judging whatever is heard, in whatever order."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from msgspec.structs import replace as changed

from deviceplugin.config.document import HealthSection
from deviceplugin.files.sickness import decode, encode
from deviceplugin.model.evidence import (
    ChecksFailed,
    ChecksWorked,
    DriverReloaded,
    Evidence,
    Forgotten,
    Injected,
    PolicyChanged,
    ScanSeen,
    TakenUp,
    Tick,
)
from deviceplugin.model.health import Kind, Verdict
from deviceplugin.model.node import DriverState, Node
from deviceplugin.model.vitals import Event, EventKind, Reading
from deviceplugin.rules.judge import JudgeState, health, judge, remember, standing, start
from deviceplugin.rules.judge.rulings import FAULTS
from tests.strategies.evidence import CARDS, UUIDS, events, everywhere, policies, readings, start_node
from tests.strategies.nodes import card, cut_card

Story = list[tuple[Evidence, float]]
stories = st.lists(st.tuples(everywhere, st.sampled_from((0.0, 1.0, 30.0, 4000.0, -50.0))), max_size=12)
silence = st.one_of(
    st.builds(lambda uuid: Reading(uuid, 0), st.sampled_from(UUIDS)),
    st.sampled_from(DriverState)
    .filter(lambda state: state not in {DriverState.READY, DriverState.NO_DRIVER, DriverState.NO_HARDWARE})
    .map(lambda state: ScanSeen(Node(state=state))),
    st.sampled_from(UUIDS).map(lambda uuid: Event(uuid, EventKind.RECOVERY_ACTION)),
    st.sampled_from(UUIDS).map(lambda uuid: Event(uuid, EventKind.XID, 154)),
    st.sampled_from(UUIDS).map(lambda uuid: Event(uuid, EventKind.OTHER)),
    st.just(Event(None, EventKind.XID, 79)),
)


def told(story: Story, policy: HealthSection) -> tuple[JudgeState, float]:
    state, now = start(start_node(), policy, (), "boot", 1e6), 1e6
    for evidence, after in story:
        now += after
        state = judge(state, evidence, policy, now).state
    return state, now


def verdicts(state: JudgeState) -> dict[str, Verdict]:
    seen = health(state)
    return dict.fromkeys(seen.last, Verdict.RANK_LAST) | dict.fromkeys(seen.sick, Verdict.UNHEALTHY)


def settled(state: JudgeState, policy: HealthSection, now: float) -> JudgeState:
    """The state with nothing overdue: whatever a quiet period has ended is gone."""
    return judge(state, Tick(), policy, now).state


@given(stories, policies)
def test_judging_takes_anything_and_what_it_says_holds_together(story: Story, policy: HealthSection) -> None:
    state, now = start(start_node(), policy, (), "boot", 1e6), 1e6
    for evidence, after in story:
        now += after
        before = verdicts(state)
        judged = judge(state, evidence, policy, now)
        state = judged.state
        if isinstance(evidence, Forgotten):
            continue
        levels = dict(before)
        for one in judged.transitions:
            assert levels.get(one.uuid, Verdict.HEALTHY) is one.before
            levels[one.uuid] = one.to
            assert one.detail.endswith(".")
            assert one.rule
        assert {uuid: level for uuid, level in levels.items() if level is not Verdict.HEALTHY} == verdicts(state)
    assert {one.uuid: one.to for one in standing(state, now)} == verdicts(state)


@given(stories, policies, silence)
def test_what_is_unknown_changes_nothing(story: Story, policy: HealthSection, nothing: Evidence) -> None:
    state, now = told(story, policy)
    state = settled(state, policy, now)
    judged = judge(state, nothing, policy, now)
    assert judged.transitions == ()
    assert judged.state == state


@given(stories, policies, st.sampled_from(UUIDS).flatmap(lambda uuid: events(st.just(uuid)) | readings(uuid)))
def test_evidence_of_one_card_changes_no_other(story: Story, policy: HealthSection, evidence: Event | Reading) -> None:
    state, now = told(story, policy)
    after = judge(state, evidence, policy, now).state
    for uuid in UUIDS:
        if uuid != evidence.uuid:
            assert after.cards.get(uuid) == state.cards.get(uuid)
            own = [one for one in state.ailments.values() if one.gpu == uuid]
            assert [one for one in after.ailments.values() if one.gpu == uuid] == own


@given(stories, policies, st.data())
def test_evidence_of_different_cards_may_come_in_any_order(
    story: Story, policy: HealthSection, data: st.DataObject
) -> None:
    state, now = told(story, policy)
    batch = [data.draw(events(st.just(uuid)) | readings(uuid)) for uuid in UUIDS]
    ends = []
    for order in (batch, list(reversed(batch)), data.draw(st.permutations(batch))):
        end = state
        for evidence in order:
            end = judge(end, evidence, policy, now).state
        ends.append(end)
    assert ends[0] == ends[1] == ends[2]


@given(
    stories,
    policies,
    st.lists(events(st.just(UUIDS[0])), max_size=4).flatmap(lambda e: st.tuples(st.just(e), st.permutations(e))),
)
def test_events_of_one_card_may_come_in_any_order(
    story: Story, policy: HealthSection, orders: tuple[list[Event], list[Event]]
) -> None:
    state, now = told(story, policy)
    ends = []
    for order in orders:
        end = state
        for evidence in order:
            end = judge(end, replace(evidence, at=0.0), policy, now).state
        ends.append(verdicts(end))
    assert ends[0] == ends[1]


@given(stories, policies, everywhere)
def test_the_same_thing_twice_at_once_is_the_same_thing(
    story: Story, policy: HealthSection, evidence: Evidence
) -> None:
    state, now = told(story, policy)
    once = judge(state, evidence, policy, now).state
    twice = judge(once, evidence, policy, now)
    if not isinstance(evidence, ChecksFailed):
        assert verdicts(twice.state) == verdicts(once)


NO_EVIDENCE_OF_RECOVERY = (Event, ChecksFailed, ChecksWorked, Forgotten, PolicyChanged, Tick, Injected)


@given(stories, policies)
def test_no_fault_ends_without_evidence(story: Story, policy: HealthSection) -> None:
    """Time, events, news of sources and declarations end no fault that nothing has spoken for."""
    state, now = told([step for step in story if isinstance(step[0], NO_EVIDENCE_OF_RECOVERY)], policy)
    faults = {one.uuid for one in remember(state) if one.kind in FAULTS}
    sick = {uuid for uuid, found in health(state).sick.items() if any(one.kind in FAULTS for one in found)}
    later = judge(state, Tick(), policy, now + 1e6).state
    assert {one.uuid for one in remember(later)} == faults
    assert {u for u, found in health(later).sick.items() if any(one.kind in FAULTS for one in found)} == sick


RESETS = (ScanSeen, DriverReloaded, TakenUp)


@given(stories, st.sampled_from(UUIDS))
def test_what_needs_a_reset_outlasts_anything_that_is_none(story: Story, uuid: str) -> None:
    policy = HealthSection()
    state = start(start_node(), policy, (), "boot", 1e6)
    state, now = judge(state, Event(uuid, EventKind.XID, 79), policy, 1e6).state, 1e6
    for evidence, after in story:
        if not isinstance(evidence, RESETS):
            now += abs(after)
            state = judge(state, evidence, policy, now).state
    assert any(one.reason == "xid-79" for one in health(state).reasons(uuid, uuid))


@given(stories, policies)
def test_all_evidence_together_heals_everything_that_is_not_declared(story: Story, policy: HealthSection) -> None:
    policy = changed(policy, cordon=())
    state, now = told(story, policy)
    well = [
        Reading(uuid, 0, True, True, False, False, False, None, 0, None, ())  # noqa: FBT003
        for uuid in (*UUIDS, "GPU-unheard-of")
    ]
    gpus = (*start_node().gpus, card(9, uuid="GPU-unheard-of"))
    cure: list[Evidence] = [
        Injected(),
        ChecksWorked("events"),
        ChecksWorked("states"),
        ScanSeen(Node(state=DriverState.READY, gpus=gpus)),
        DriverReloaded(),
        *well,
    ]
    for evidence in [*cure, *cure]:
        now += 1e4
        state = judge(state, evidence, policy, now).state
    state = judge(state, Tick(), policy, now + 1e6).state
    known = {*UUIDS, *(one.uuid for one in start_node().gpus[0].instances)}
    assert not known & set(verdicts(state))
    assert health(state).checked


@given(stories, policies, st.sampled_from(("boot", "other", "")))
def test_what_is_remembered_survives_the_file_and_a_restart(story: Story, policy: HealthSection, boot: str) -> None:
    state, now = told(story, policy)
    kept = remember(state)
    assert {one.kind for one in kept} <= FAULTS
    loaded, problems = decode(encode(kept))
    assert loaded == tuple(replace(one, gpu_index=-1, xid=None) for one in kept)
    assert problems == ()
    again = start(start_node(), policy, loaded, boot, now + 1)
    if boot != "other":
        present = set(UUIDS) | {one.uuid for one in start_node().gpus[0].instances}
        lasting = {(one.uuid, one.reason) for one in kept if one.uuid in present and one.kind != Kind.LOST}
        assert lasting <= set(again.ailments)
    assert set(again.cards) >= set(UUIDS)


@given(stories, st.integers(0, CARDS - 1), st.integers(0, 2))
def test_a_sick_card_takes_everything_on_it_along_and_a_sick_instance_nothing(
    story: Story, index: int, slot: int
) -> None:
    policy = HealthSection()
    state, now = told([step for step in story if isinstance(step[0], Tick)], policy)
    instance = cut_card(0, "1g.10gb", "1g.10gb", "2g.20gb").instances[slot]
    event = Event(UUIDS[0], EventKind.XID, 79, instance.gi, instance.ci)
    seen = health(judge(state, event, policy, now).state)
    assert [bool(seen.reasons(one.uuid, UUIDS[0])) for one in start_node().gpus[0].instances] == [
        n == slot for n in range(3)
    ]
    assert not any(seen.reasons(uuid, uuid) for uuid in UUIDS)
    whole = health(judge(state, Event(UUIDS[index], EventKind.XID, 79), policy, now).state)
    assert [bool(whole.reasons(uuid, uuid)) for uuid in UUIDS] == [n == index for n in range(CARDS)]
    assert all(bool(whole.reasons(one.uuid, UUIDS[0])) is (index == 0) for one in start_node().gpus[0].instances)
