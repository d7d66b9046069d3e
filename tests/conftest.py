"""What a test run leaves out, and says so.

Tests marked `needs("chromium")` where that program is not installed, and tests marked `needs_folder("CRD_DIR")` where
that variable names no folder.
"""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes, or its making, is the machine's affair.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

_LEFT_OUT = pytest.StashKey[Counter[str]]()
_WITHOUT_FOLDER = pytest.StashKey[dict[str, list[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(program, ...): runs only where these programs are installed")
    config.addinivalue_line("markers", "needs_folder(variable): runs only where the variable names a folder")
    config.stash[_LEFT_OUT] = Counter()
    config.stash[_WITHOUT_FOLDER] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing: Counter[str] = config.stash[_LEFT_OUT]
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        needed = [str(name) for mark in item.iter_markers("needs") for name in mark.args]
        absent = [name for name in needed if shutil.which(name) is None]
        missing.update(absent)
        folders = [str(name) for mark in item.iter_markers("needs_folder") for name in mark.args]
        for variable in [name for name in folders if not os.environ.get(name) or not Path(os.environ[name]).is_dir()]:
            config.stash[_WITHOUT_FOLDER].setdefault(variable, []).append(item.name)
            absent.append(variable)
        (left if absent else kept).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for program, number in sorted(config.stash[_LEFT_OUT].items()):
        terminalreporter.write_line(
            f"left out: {number} tests need {program}, which is not installed "
            "(`make system-packages` installs what Debian has)",
            yellow=True,
        )
    for variable, names in sorted(config.stash[_WITHOUT_FOLDER].items()):
        terminalreporter.write_line(f"left out: {variable} names no folder, so these were not checked:", yellow=True)
        for name in names:
            terminalreporter.write_line(f"  {name}", yellow=True)
