"""`gpu-device-plugin cdi` on pretend machines."""

import json
from pathlib import Path

import jsonschema
import pytest

from deviceplugin.cli import main
from tests.cdi_schema import SCHEMA

GPU_FILE = "k8s.device-plugin.nvidia.com-gpu.json"


def test_it_prints_a_valid_specification(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cdi", "--output", "-", "--driver", "fake:hgx-h100-8-partial-mig"]) == 0
    out, err = capsys.readouterr()
    specification = json.loads(out)
    jsonschema.validate(specification, SCHEMA)
    names = [device["name"] for device in specification["devices"]]
    assert [name for name in names if not name.startswith(("GPU-", "MIG-"))] == [
        "0",
        *(f"0:{slot}" for slot in range(7)),
        "1",
        "1:0",
        "1:1",
        *"234567",
        "all",
    ]
    assert err == ""


def test_it_writes_into_a_folder_and_removes_from_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--driver", "fake:t4x1", "--cdi-folder", str(tmp_path)]
    assert main(["cdi", "--output", str(tmp_path), *arguments, "--gds-enabled"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(tmp_path / GPU_FILE), str(tmp_path / GPU_FILE.replace("gpu", "gds"))]
    assert err.startswith("warning: flags.gdsEnabled is set and no device node matches")
    assert main(["cdi", "--remove", *arguments]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_none_is_an_error_of_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["cdi", "--output", str(tmp_path / "file"), "--driver", "fake:t4x1"]) == 1
    assert capsys.readouterr().err == f"error: {tmp_path / 'file'}: File exists\n"


def test_a_driver_without_files_is_an_error_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cdi", "--driver", "fake:wsl-1"]) == 1
    assert capsys.readouterr().err.startswith("error: no device can be described: libcuda.so.")
