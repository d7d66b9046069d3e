"""`make demo` is what a newcomer sees first: it ends well on machines of every kind."""

import os
import re
import signal
import subprocess
import sys

import pytest

import fake_nvml
from tests.node import ROOT


def told(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.demo", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55, check=False)


UNHEARD = ("wsl-1", "gb10-1")
"""Machines whose cards have no Xid events."""


@pytest.mark.parametrize(
    "machine", [name for name in fake_nvml.names() if name != "none"] + ["tests/machines/pcie-6-ansi.topo"]
)
def test_the_story_goes_from_registration_to_recovery_and_ends_well(machine: str) -> None:
    done = told("--machine", machine)
    assert (done.returncode, done.stderr) == (0, "")
    for sentence in (
        "all lists are there",
        "gets GPU-" if "mig" not in machine else "gets MIG-",
        "refused",
        "recovery-action is over" if machine in UNHEARD else "xid-79 is over",
    ):
        assert sentence in done.stdout
    assert ("has no Xid events" in done.stdout) == (machine in UNHEARD)
    assert done.stdout.rstrip().endswith("exit 0.")


@pytest.mark.parametrize("machine", ["none", "hgx-h100-8-partial-mig"])
def test_a_node_that_offers_nothing_has_a_short_story_and_a_plugin_that_is_ready(machine: str) -> None:
    done = told("--machine", machine, "--mig-strategy", "single")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing to offer: the plugin idles quietly, is ready, and keeps looking" in done.stdout


@pytest.mark.parametrize("machine", ["hgx-a100-4", "wsl-1"])
def test_a_node_that_is_kept_can_be_broken_and_mended_by_what_is_printed(machine: str) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "tests.demo", "--machine", machine, "--keep"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    try:
        lines: list[str] = []
        for line in demo.stdout:
            lines.append(line.strip())
            if line.lstrip().startswith("kill -HUP"):
                break
        root = next(line.removeprefix("export FAKE_NVML_ROOT=") for line in lines if line.startswith("export"))
        commands = [
            line.partition("#")[0] for line in lines if re.search(r"fake_nvml\.control|deviceplugin release", line)
        ]
        assert len(commands) == 4
        for command in commands:
            subprocess.run(
                command.split(), cwd=ROOT, env={**os.environ, "FAKE_NVML_ROOT": root}, check=True, timeout=20
            )
    finally:
        demo.send_signal(signal.SIGINT)
        assert demo.wait(10) == 0
        demo.stdout.close()
