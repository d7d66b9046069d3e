"""Rehearsals by a file."""

import os
from pathlib import Path

import pytest

from deviceplugin.files.inject import InjectFile, parse
from deviceplugin.model.evidence import Injected, Injection
from deviceplugin.model.health import Verdict


def test_each_line_is_a_fault() -> None:
    text = """
    # drill of Tuesday
    0 xid 79
    GPU-a xid 94 page the night shift   # not really
    0:1\tunhealthy\tthe fan howls
    0000:10:00.0 rank-last
    """
    assert parse(text) == (
        (
            Injection("0", xid=79),
            Injection("GPU-a", xid=94, note="page the night shift"),
            Injection("0:1", note="the fan howls"),
            Injection("0000:10:00.0", Verdict.RANK_LAST),
        ),
        (),
    )


@pytest.mark.parametrize(
    "line", ["0", "0 xid", "0 xid x", "0 xid 0", "0 xid -3", "0 xid 123456", "0 xid ٣", "0 burn", "\0"]
)
def test_a_line_that_is_none_is_named_and_costs_itself_alone(line: str) -> None:
    injections, (problem,) = parse(f"{line}\n1 unhealthy\n")
    assert injections == (Injection("1"),)
    assert problem.startswith("line 1 is ")
    assert "DEVICE xid NUMBER" in problem


def test_off_by_default_and_none_without_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert InjectFile("").read() == Injected()
    assert InjectFile(str(tmp_path / "none")).read() == Injected()
    assert caplog.records == []


def test_a_line_holds_while_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "drill"
    file = InjectFile(str(path))
    path.write_text("0 unhealthy\n")
    assert file.read() == Injected((Injection("0"),))
    path.write_text("")
    assert file.read() == Injected()


def test_problems_are_said_once_for_each_content(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "drill"
    file = InjectFile(str(path))
    for content, said in (("0 burn", 1), ("0 burn", 1), ("0 unhealthy", 1), ("0 burn", 2)):
        path.write_text(content)
        file.read()
        assert len(caplog.records) == said
    path.unlink()
    file.read()
    path.write_text("0 burn")
    file.read()
    assert len(caplog.records) == 3


@pytest.mark.parametrize("kind", ["folder", "pipe", "large", "unreachable"])
def test_a_file_that_cannot_be_read_changes_nothing(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "drill"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        path.write_bytes(b"#" * (64 * 1024 + 1))
    else:
        path.write_text("")
        path /= "below-a-file"
    file = InjectFile(str(path))
    assert file.read() is None
    assert file.read() is None
    (record,) = caplog.records
    assert "rehearsals stay as they are" in record.getMessage()


def test_bytes_that_are_no_text_are_lines_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "drill"
    path.write_bytes(b"\xff\xfe\n0 unhealthy\n")
    assert InjectFile(str(path)).read() == Injected((Injection("0"),))
