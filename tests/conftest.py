"""What a test run leaves out, and says so: tests marked `needs("chromium")` where that program is not installed."""

import shutil
from collections import Counter

import pytest

_LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(program, ...): runs only where these programs are installed")
    config.stash[_LEFT_OUT] = Counter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing: Counter[str] = config.stash[_LEFT_OUT]
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        needed = [str(name) for mark in item.iter_markers("needs") for name in mark.args]
        absent = [name for name in needed if shutil.which(name) is None]
        missing.update(absent)
        (left if absent else kept).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for program, number in sorted(config.stash[_LEFT_OUT].items()):
        terminalreporter.write_line(
            f"left out: {number} tests need {program}, which is not installed (`make system-packages` installs it)",
            yellow=True,
        )
