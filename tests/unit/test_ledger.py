from deviceplugin.ledger import DURATION_BOUNDS, Ledger, Phase
from deviceplugin.model.health import Transition, Verdict


def test_counts_add_up_by_labels() -> None:
    ledger = Ledger()
    ledger.count("xid", "GPU-a", "79")
    ledger.count("xid", "GPU-a", "79", by=2)
    ledger.count("xid", "GPU-b", "79")
    assert ledger.counts == {("xid", ("GPU-a", "79")): 3, ("xid", ("GPU-b", "79")): 1}


def test_a_histogram_counts_each_observation_under_its_bound() -> None:
    ledger = Ledger()
    for seconds in (0.0001, 0.0002, 9.0):
        ledger.answered("allocate", seconds, ("answers", ("gpu",)))
    histogram = ledger.histograms["allocate"]
    assert histogram.bounds == DURATION_BOUNDS
    assert histogram.counts == [1, 1] + [0] * (len(DURATION_BOUNDS) - 2) + [1]
    assert histogram.total == 9.0003
    assert ledger.counts == {("answers", ("gpu",)): 3}


def test_what_a_reader_took_does_not_change_under_it() -> None:
    ledger = Ledger()
    ledger.answered("allocate", 1, ("answers", ("gpu",)))
    before = ledger.histograms["allocate"]
    ledger.answered("allocate", 1, ("answers", ("gpu",)))
    assert sum(before.counts) == 1


def test_phases_and_streams_end_with_their_resource() -> None:
    ledger = Ledger()
    ledger.phase("gpu", Phase.STREAMING)
    ledger.stream("gpu", 1)
    ledger.stream("gpu", 1)
    ledger.stream("gpu", -1)
    assert (ledger.phases, ledger.streams) == ({"gpu": Phase.STREAMING}, {"gpu": 1})
    ledger.phase("gpu", Phase.CLOSED)
    ledger.stream("gpu", -1)
    assert (ledger.phases, ledger.streams) == ({}, {})


def test_turns_are_kept_in_order_and_counted() -> None:
    ledger = Ledger(keep=2)
    for number in range(3):
        sick = Transition(
            number, "GPU-a", "0", 0, Verdict.HEALTHY, Verdict.UNHEALTHY, f"xid-{number}", "health.fatal", ""
        )
        ledger.turn(sick)
    assert [turn.reason for turn in ledger.turns] == ["xid-1", "xid-2"]
    assert ledger.counts["health_transitions", ("GPU-a", "unhealthy", "xid-0")] == 1


def test_moments_are_stamped_by_the_clock_or_by_the_caller() -> None:
    ledger = Ledger(clock=lambda: 5.0)
    ledger.stamp("reload")
    ledger.stamp("sample", 7.0)
    assert ledger.times == {"reload": 5.0, "sample": 7.0}
