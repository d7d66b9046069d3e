"""A walk over all faults at once, with a fixed seed; what fails says how to walk the same way again."""

from pathlib import Path

import pytest

from tests.chaos.walk import walk

SEED = 20


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_chaos_for_a_minute(tmp_path: Path) -> None:
    report = walk(tmp_path, SEED, 60)
    assert report.rests > 5
    assert len(report.deeds) > 15
