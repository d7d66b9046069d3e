"""Tests of programs that are not installed are left out, and the run says so."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("file", "programs"),
    [
        ("test_page_looks.py", ("chromium", "chromedriver")),
        ("test_page_node.py", ("chromium", "chromedriver")),
        ("test_prometheus_scrape.py", ("prometheus", "promtool")),
    ],
)
def test_what_needs_an_absent_program_is_left_out_aloud(file: str, programs: tuple[str, ...], tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/flows/{file}"],
        cwd=ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 5, run.stdout
    assert "skipped" not in run.stdout
    for program in programs:
        told = f"tests need {program}, which is not installed (`make system-packages` installs what Debian has)"
        assert told in run.stdout
