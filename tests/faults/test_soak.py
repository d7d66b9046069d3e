"""M3, R6: nothing grows with repetition; the full numbers are `make soak`'s."""

from pathlib import Path

import pytest

from tests.soak.run import SHORT, soak


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_nothing_grows_with_repetition(tmp_path: Path) -> None:
    grown = {outcome.what: (outcome.grew, str(outcome)) for outcome in soak(tmp_path, SHORT) if outcome.grew}
    assert grown == {}
