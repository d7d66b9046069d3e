"""Habits of the house that no linter knows."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
SOURCES = [ROOT / name for name in TRACKED if name.endswith(".py") and "/wire/" not in name and (ROOT / name).is_file()]


def hits(pattern: str, *, but: str = "\0") -> list[str]:
    expression = re.compile(pattern)
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        if path.name not in {"test_tree.py", but}
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if expression.search(line)
    ]


def test_nothing_is_left_for_later() -> None:
    assert hits(r"\b(TODO|FIXME|XXX)\b|NotImplementedError") == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    assert hits(r"pytest\.(mark\.)?(skip|xfail|importorskip)|unittest\.skip") == []


def test_tests_wait_by_predicate() -> None:
    in_tests = [place for place in hits(r"\btime\.sleep\(", but="waiting.py") if place.startswith("tests/")]
    assert in_tests == []


@pytest.mark.parametrize("name", ["utils", "helpers", "manager", "misc", "common"])
def test_no_module_has_a_name_that_says_nothing(name: str) -> None:
    assert [path for path in SOURCES if path.stem == name or name in path.parts] == []
