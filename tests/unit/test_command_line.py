import subprocess
import sys
from pathlib import Path

import pytest

from deviceplugin.cli import USAGE, main


def test_a_driver_that_is_none_is_refused_with_its_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["resources", "--driver=fak:t4x1"]) == USAGE
    assert capsys.readouterr().err == (
        "error: --driver: 'fak:t4x1' is no driver; write nvml, or fake:<machine or .topo file>\n"
    )
    monkeypatch.setenv("DRIVER", "nvidia")
    assert main(["topology"]) == USAGE
    assert capsys.readouterr().err.startswith("error: DRIVER: 'nvidia' is no driver")


def test_help_of_a_subcommand_may_be_asked_for_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["help", "resources"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: gpu-device-plugin resources")
    assert main(["help", "resorces"]) == USAGE
    assert "did you mean 'resources'?" in capsys.readouterr().err


def test_a_full_disk_is_one_line_and_exit_code_1() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "deviceplugin", "version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "error: the output cannot be written: No space left on device\n")
