"""Every machine gives what a person who runs tensor-parallel jobs read and agreed with."""

import pytest

from tests.golden.prefer_tables import FOLDER, path, table
from tests.strategies.fabrics import MACHINES


@pytest.mark.parametrize("machine", MACHINES)
def test_each_size_and_each_sequence_gives_what_was_agreed(machine: str) -> None:
    assert table(machine) == path(machine).read_text()


def test_there_is_a_table_for_each_machine_and_for_no_other() -> None:
    assert sorted(FOLDER.iterdir()) == sorted(path(machine) for machine in MACHINES)
