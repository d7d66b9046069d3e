"""The size of a device list, held against the real message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.config.document import Config, Replicas, Replicated, SharingSection
from deviceplugin.kubelet.wire import deviceplugin_pb2 as wire
from deviceplugin.model.inventory import Resource, Share
from deviceplugin.rules.offer import offer
from deviceplugin.rules.offer.fit import LIMIT, fit, list_size
from tests.strategies.nodes import card, cards

NUMA = st.one_of(st.none(), st.sampled_from((0, 1, 127, 128, 16383, 16384, 2**31, 2**63 - 1, -1)))
SHARES = st.builds(
    lambda name, numa: Share(name, name, name, 0, "0", numa=numa),
    st.one_of(st.text(min_size=1, max_size=200), st.integers(1, 20000).map(lambda length: "x" * length)),
    NUMA,
)


def message(shares: list[Share]) -> wire.ListAndWatchResponse:
    return wire.ListAndWatchResponse(
        devices=[
            wire.Device(
                ID=share.id,
                health="Unhealthy",
                topology=None if share.numa is None else wire.TopologyInfo(nodes=[wire.NUMANode(ID=share.numa)]),
            )
            for share in shares
        ]
    )


@given(st.lists(SHARES, max_size=20))
def test_the_size_is_that_of_the_message_on_the_wire(shares: list[Share]) -> None:
    assert list_size(shares) == message(shares).ByteSize()


def replicas_of(cards_: int, replicas: int) -> tuple[Share, ...]:
    return tuple(
        Share(f"{card(n).uuid}::{r}", card(n).uuid, card(n).uuid, n, str(n), r)
        for n in range(cards_)
        for r in range(replicas)
    )


@pytest.mark.parametrize("limit", [200, 500, 1000, 5000])
def test_as_many_replicas_are_kept_as_fit(limit: int) -> None:
    shares = replicas_of(3, 120)
    fitted, problem = fit(Resource("nvidia.com/gpu", shares), limit)
    kept = {share.replica for share in fitted.shares}
    assert kept == set(range(len(kept)))
    assert len(fitted.shares) == 3 * len(kept)
    assert list_size(fitted.shares) <= limit
    assert list_size(s for s in shares if s.replica is not None and s.replica <= len(kept)) > limit
    assert problem is not None
    assert problem.endswith(f"the kubelet reads {limit}; set replicas to {len(kept)} or fewer")


def test_a_list_of_exactly_the_limit_fits() -> None:
    resource = Resource("nvidia.com/gpu", replicas_of(2, 10))
    assert fit(resource, list_size(resource.shares)) == (resource, None)
    assert fit(resource, list_size(resource.shares) - 1)[1] is not None


def test_whole_devices_count_as_their_first_replica() -> None:
    whole = Share("GPU-w", "GPU-w", "GPU-w", 9, "9")
    fitted, _ = fit(Resource("nvidia.com/gpu", (*replicas_of(1, 50), whole)), 300)
    assert whole in fitted.shares


def test_a_list_above_4_mib_is_a_conflict_that_says_what_would_fit() -> None:
    def under(replicas: int) -> Config:
        entry = Replicas(name="nvidia.com/gpu", replicas=replicas)
        return Config(sharing=SharingSection(time_slicing=Replicated(resources=(entry,))))

    inventory = offer(cards(8), under(9000))
    (conflict,) = inventory.conflicts
    start = "sharing.timeSlicing.resources[0].replicas: nvidia.com/gpu: 72000 shares make a list of "
    assert conflict.startswith(start)
    assert f"the kubelet reads {LIMIT}" in conflict
    most = int(conflict.rpartition("set replicas to ")[2].partition(" ")[0])
    assert offer(cards(8), under(most)).conflicts == ()
    assert offer(cards(8), under(most + 1)).conflicts != ()
    assert message(list(offer(cards(8), under(most)).resources["nvidia.com/gpu"].shares)).ByteSize() <= LIMIT
