"""Shares against an oracle that looks at every way to place them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.model.errors import Refusal, RequestError
from deviceplugin.model.inventory import Closeness, Policy, Resource
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.prefer.prefer import prefer
from tests.laws.prefer_oracle import Stack, amounts, share_key
from tests.strategies.fabrics import instances, irregular, replicas, trees

Node = tuple[Closeness, Snapshot, Resource]

POLICIES = st.sampled_from(list(Policy))


@st.composite
def shared_cards(draw: st.DrawFn, policy: Policy) -> Node:
    """Cards in replicas, alike or each its own number, whole ones among them."""
    close = draw(st.one_of(irregular(5), trees(5)))
    count = len(close.uuids)
    even = st.integers(1, 4).map(lambda each: [each] * count)
    counts = draw(st.one_of(even, st.lists(st.integers(0, 4), min_size=count, max_size=count)))
    return close, *replicas(close, counts, policy)


@st.composite
def mig(draw: st.DrawFn, policy: Policy) -> Node:
    """MIG instances of one profile, whole or in replicas."""
    close = draw(st.one_of(irregular(4), trees(4)))
    counts = draw(st.lists(st.integers(1, 3), min_size=len(close.uuids), max_size=len(close.uuids)))
    return close, *instances(close, counts, policy, draw(st.sampled_from([0, 0, 2])))


def stacks_of(resource: Resource, available: Sequence[str], must: Sequence[str]) -> list[tuple[Stack, list[str]]]:
    """Holders as the issue defines them, each with the ids that may be given, lowest first."""
    holders: dict[str, list[str]] = {}
    for share in resource.shares:
        holders.setdefault(share.gpu if share.replica is None else share.device, []).append(share.id)
    found = []
    for ids in holders.values():
        free = [name for name in ids if name in available and name not in must]
        before = sum(name not in available or name in must for name in ids)
        card = resource.by_id[ids[0]].gpu_index
        found.append((Stack(card, before, len(free), any(name in must for name in ids)), free))
    return found


def holders_in(resource: Resource, ids: Sequence[str]) -> int:
    return len({s.gpu if s.replica is None else s.device for s in (resource.by_id[name] for name in ids)})


@given(st.data(), POLICIES)
def test_answer_is_the_best_of_all_ways_to_place_shares(data: st.DataObject, policy: Policy) -> None:
    cut = data.draw(st.booleans())
    close, snapshot, resource = data.draw(mig(policy) if cut else shared_cards(policy))
    ids = [share.id for share in resource.shares]
    available = data.draw(st.lists(st.sampled_from(ids), unique=True, min_size=1))
    must = data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=3))
    everything = list(dict.fromkeys(available + must))
    size = data.draw(st.integers(max(1, len(must)), min(len(everything), 6) if len(must) <= 6 else len(everything)))
    stacks = stacks_of(resource, everything, must)
    only = [stack for stack, _ in stacks]
    ways = amounts(only, size - len(must))
    best = min(ways, key=lambda given: share_key(close, policy, only, given, mig=cut))
    wanted = {*must, *(name for (_, free), own in zip(stacks, best, strict=True) for name in free[:own])}
    if policy is Policy.STRICT and holders_in(resource, list(wanted)) < size:
        with pytest.raises(RequestError) as caught:
            prefer(snapshot, resource, available, must, size)
        assert caught.value.refusal is Refusal.FAILED_PRECONDITION
        return
    answer = prefer(snapshot, resource, data.draw(st.permutations(available)), must, size)
    assert set(answer.ids) == wanted
    assert len(answer.ids) == size
    assert answer.exact
    if policy is Policy.STRICT:
        assert holders_in(resource, answer.ids) == size
