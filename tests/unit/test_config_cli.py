"""The subcommands config, check-config and config-schema, as they are called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deviceplugin.cli import main
from deviceplugin.config.load import load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text("flags:\n  migStrategy: mixed\ndaemon: {rescanInterval: 1m30s}\n")
    return path


def test_config_prints_a_file_with_sources(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPS_ROOT", "/mps")
    assert main(["config", "--config-file", str(file), "--log-level=debug"]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    loaded = load({"--config-file": str(file)}, {"MPS_ROOT": "/mps"})
    assert lines[0] == f"# hash {loaded.stamp.hash}, from {file}"
    assert "# --log-level debug  (--log-level)" in lines
    assert any(line.startswith("# warning: flags.plugin.deviceListStrategy: under envvar") for line in lines)
    for text, source in (
        ("  migStrategy: mixed", f"{file}:2"),
        ("  rescanInterval: 1m30s", f"{file}:3"),
        ("  mpsRoot: /mps", "MPS_ROOT"),
        ("  registration: socket", "default"),
    ):
        (line,) = (line for line in lines if line.startswith(f"{text} "))
        assert line.split("  # ")[1] == source
    again = load({"--config-file": "printed"}, {}, lambda _: printed.encode())
    assert again.config == loaded.config


def test_config_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--json", "--config-file", str(file)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == str(file)
    assert document["values"]["daemon.rescanInterval"] == {"value": 90.0, "origin": "file", "where": f"{file}:3"}
    assert document["values"]["flags.failOnInitError"] == {"value": True, "origin": "default", "where": "default"}
    assert document["process"]["config-file"] == {"value": str(file), "origin": "flag", "where": "--config-file"}


def test_check_config_of_a_good_file(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIG_STRATEGY", "not the pod's")
    assert main(["check-config", str(file)]) == 0
    *warnings, last = capsys.readouterr().out.splitlines()
    assert last == f"{file}: ok ({load({'--config-file': str(file)}, {}).stamp.hash})"
    assert [warning.split(":")[0] for warning in warnings] == ["warning"]


def test_check_config_of_a_bad_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("flgs: {}\nversion: v3\n")
    assert main(["check-config", str(path)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        f"error: {path}:1:1: flgs: is not known here; did you mean flags?",
        f'error: {path}:2:1: version: "v3" is not known; write version: v1',
    ]


def test_check_config_counts_flags_beside_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}\n")
    assert main(["check-config", str(file)]) == 2
    assert main(["check-config", str(file), "--mps-root=/mps"]) == 0
    assert "needs flags.mpsRoot" in capsys.readouterr().err


def test_config_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config-schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    flags = schema["$defs"]["Flags"]["properties"]
    assert flags["migStrategy"]["description"] == "how MIG instances are offered"
    assert flags["migStrategy"]["default"] == "none"
    assert schema["$defs"]["GfdFlags"]["properties"]["sleepInterval"]["default"] == "1m"


def test_every_key_of_the_schema_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    main(["config-schema"])
    schema = json.loads(capsys.readouterr().out)
    bare = [
        f"{title}.{key}"
        for title, definition in schema["$defs"].items()
        for key, held in definition.get("properties", {}).items()
        if not held.get("description") and "$ref" not in held["anyOf"][0]
    ]
    assert bare == []
