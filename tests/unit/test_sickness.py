"""The state file: kept whole, and never a reason not to start."""

import json
import logging
from pathlib import Path

import pytest

from deviceplugin.files.sickness import SicknessFile, boot_identity, decode, encode
from deviceplugin.model.health import Kind, Sickness
from deviceplugin.rules.judge.boots import another_load

ONE = Sickness(
    "GPU-a", "xid-79", Kind.RESET_REQUIRED, 1700000000.5, "It fell.", "00000000:10:00.0", "health.fatal", "b/1"
)
TWO = Sickness("MIG-b", "remap-failure", Kind.STATE, 5.0)


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet" / "there"
    assert SicknessFile(str(folder)).save((ONE, TWO))
    assert SicknessFile(str(folder)).load() == (ONE, TWO)
    assert [path.name for path in folder.iterdir()] == ["sickness.json"]


def test_people_can_read_the_file_line_by_line() -> None:
    text = encode((ONE, TWO)).decode()
    assert json.loads(text)["version"] == 1
    assert text.count("\n") == 4
    assert '"uuid": "GPU-a"' in text.splitlines()[1]


def test_an_empty_list_replaces_what_was_there(tmp_path: Path) -> None:
    file = SicknessFile(str(tmp_path))
    file.save((ONE,))
    file.save(())
    assert SicknessFile(str(tmp_path)).load() == ()


def test_the_disk_is_left_alone_while_nothing_changes(tmp_path: Path) -> None:
    file = SicknessFile(str(tmp_path))
    file.save((ONE,))
    before = (tmp_path / "sickness.json").stat().st_ino
    assert file.save((ONE,))
    assert (tmp_path / "sickness.json").stat().st_ino == before


def test_no_folder_no_file(caplog: pytest.LogCaptureFixture) -> None:
    file = SicknessFile("")
    assert file.load() == ()
    assert not file.save((ONE,))
    assert caplog.records == []


def test_a_first_start_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert SicknessFile(str(tmp_path)).load() == ()
    assert caplog.records == []


def test_a_folder_that_cannot_be_written_is_said_once_and_its_return_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    place = tmp_path / "state"
    place.write_text("a file where a folder should be")
    file = SicknessFile(str(place))
    assert file.load() == ()
    assert not file.save((ONE,))
    assert not file.save((ONE, TWO))
    (record,) = caplog.records
    assert "--state-dir" in record.getMessage()
    assert record.__dict__["path"] == str(place / "sickness.json")
    place.unlink()
    assert file.save((ONE,))
    assert [one.getMessage() for one in caplog.records[1:]] == ["the state file can be written again"]


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SicknessFile(str(tmp_path))
    file.save((ONE,))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert not file.save((TWO,))
    assert SicknessFile(str(tmp_path)).load() == (ONE,)
    assert [path.name for path in tmp_path.iterdir()] == ["sickness.json"]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "version 1"),
        (b'{"version": 2, "sicknesses": []}', "version 1"),
        (b'{"version": 1}', "no list"),
        (b'{"version": 1, "sicknesses": {}}', "no list"),
        (b" " * (1024 * 1024 + 1), "larger than"),
    ],
)
def test_a_file_of_garbage_is_named_and_replaced(
    content: bytes, named: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "sickness.json").write_bytes(content)
    file = SicknessFile(str(tmp_path))
    assert file.load() == ()
    (record,) = caplog.records
    assert named in record.getMessage()
    assert file.save((ONE,))
    assert SicknessFile(str(tmp_path)).load() == (ONE,)


GOOD = {"uuid": "GPU-a", "reason": "xid-79", "kind": "reset-required", "since": 1}


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (3, "is no object"),
        ({"uuid": "GPU-a"}, "lacks kind, reason, since"),
        (GOOD | {"since": True}, "no Unix time"),
        (GOOD | {"since": "1"}, "no Unix time"),
        (GOOD | {"since": -1}, "no Unix time"),
        (GOOD | {"since": 10**400}, "no Unix time"),
        (GOOD | {"since": float("nan")}, "no Unix time"),
        (GOOD | {"uuid": 7}, "no text as uuid"),
        (GOOD | {"bootId": None}, "no text as bootId"),
        (GOOD | {"uuid": ""}, "names the device ''"),
        (GOOD | {"kind": "odd"}, "the kind 'odd'"),
    ],
)
def test_an_entry_of_garbage_costs_that_entry(entry: object, named: str) -> None:
    content = json.dumps({"version": 1, "sicknesses": [entry, GOOD]}).encode()
    sicknesses, (problem,) = decode(content)
    assert [one.uuid for one in sicknesses] == ["GPU-a"]
    assert problem.startswith("sicknesses[0] ")
    assert named in problem


def test_keys_of_a_later_version_are_passed_over() -> None:
    content = json.dumps({"version": 1, "sicknesses": [GOOD | {"colour": "red"}], "more": 1}).encode()
    assert decode(content) == ((Sickness("GPU-a", "xid-79", "reset-required", 1),), ())


def test_the_boot_is_told_by_the_kernel_and_by_the_load_of_the_driver(tmp_path: Path) -> None:
    assert boot_identity(str(tmp_path)) == "//"
    random = tmp_path / "proc/sys/kernel/random"
    random.mkdir(parents=True)
    (random / "boot_id").write_text("0b5e-11\n")
    assert boot_identity(str(tmp_path)) == "0b5e-11//"
    module = tmp_path / "sys/module/nvidia"
    module.mkdir(parents=True)
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: 580.95.05")
    first = boot_identity(str(tmp_path))
    assert boot_identity(str(tmp_path)) == first
    version.write_text("NVRM version: 590.10")
    upgraded = boot_identity(str(tmp_path))
    module.rename(tmp_path / "sys/module/unloaded")
    module.mkdir()
    reloaded = boot_identity(str(tmp_path))
    assert another_load(first, upgraded)
    assert another_load(upgraded, reloaded)


@pytest.mark.parametrize(
    ("before", "after", "another"),
    [
        ("b/1/v", "b/1/v", False),
        ("b/1/v", "c/1/v", True),
        ("b/1/v", "b/2/v", True),
        ("b/1/v", "b/1/w", True),
        ("b//", "b/1/v", False),
        ("b/1/v", "//", False),
        ("", "b/1/v", False),
        ("//", "", False),
        ("b", "b/1", False),
    ],
)
def test_what_cannot_be_told_is_no_other_boot(before: str, after: str, another: bool) -> None:  # noqa: FBT001
    assert another_load(before, after) is another
