"""The feature file, and what the PCI tree tells."""

import os
from pathlib import Path

import pytest

from deviceplugin.files.labels import LabelFile, Outcome, parse, render
from deviceplugin.files.pcifacts import host_driver, read_facts
from deviceplugin.files.watch import identity
from deviceplugin.model.hostfacts import HostDriver

STAMP = "nvidia.com/gfd.timestamp"
LABELS = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.count": "8", STAMP: "1796098077"}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_line_for_each_label_by_key(tmp_path: Path) -> None:
    file = LabelFile(str(tmp_path / "gfd"))
    assert file.publish(LABELS) is Outcome.WRITTEN
    assert file.path.read_text() == (
        "nvidia.com/gfd.timestamp=1796098077\nnvidia.com/gpu.count=8\nnvidia.com/gpu.product=NVIDIA-L40S\n"
    )
    assert file.read() == LABELS
    assert names(tmp_path) == ["gfd"]


def test_another_user_can_read_it_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        LabelFile(str(tmp_path / "gfd")).publish(LABELS)
    finally:
        os.umask(before)
    assert (tmp_path / "gfd").stat().st_mode & 0o777 == 0o644


def test_a_younger_timestamp_alone_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    LabelFile(str(path)).publish(LABELS)
    before = identity(path)
    assert LabelFile(str(path)).publish(LABELS | {STAMP: "1796098999"}) is Outcome.SAME
    assert identity(path) == before
    assert LabelFile(str(path)).publish(LABELS | {STAMP: "1796099000", "nvidia.com/gpu.count": "7"}) is Outcome.WRITTEN
    assert "timestamp=1796099000" in path.read_text()


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LabelFile(str(tmp_path / "gfd"))
    file.publish(LABELS)
    seen: list[tuple[list[str], dict[str, str], dict[str, str]]] = []
    rename = Path.replace

    def spy(self: Path, target: Path) -> Path:
        seen.append((names(tmp_path), parse(self.read_text()), parse(target.read_text())))
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", spy)
    file.publish(LABELS | {"nvidia.com/gpu.count": "7"})
    [(during, new, old)] = seen
    assert len(during) == 2
    assert during[0].startswith(".gfd.")
    assert (new["nvidia.com/gpu.count"], old["nvidia.com/gpu.count"]) == ("7", "8")


def test_a_rename_that_fails_leaves_the_old_file_and_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LabelFile(str(tmp_path / "gfd"))
    file.publish(LABELS)

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        file.publish({"nvidia.com/gpu.count": "7"})
    assert file.read() == LABELS
    assert names(tmp_path) == ["gfd"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "features.d" / "gfd"
    assert LabelFile(str(path)).publish(LABELS) is Outcome.NO_FOLDER
    assert names(tmp_path) == []
    assert LabelFile(str(path), make_folder=True).publish(LABELS) is Outcome.WRITTEN
    assert LabelFile(str(path)).read() == LABELS


def test_an_empty_set_is_written_where_there_is_no_file(tmp_path: Path) -> None:
    assert LabelFile(str(tmp_path / "gfd")).publish({}) is Outcome.WRITTEN
    assert LabelFile(str(tmp_path / "gfd")).publish({}) is Outcome.SAME


def test_comments_and_what_is_no_label_are_skipped() -> None:
    assert parse("# expiry\n\nnonsense\n a=b=c \nd=\n") == {"a": "b=c", "d": ""}
    assert parse(render(LABELS)) == LABELS


def device(root: Path, name: str, **files: bytes) -> None:
    folder = root / "sys/bus/pci/devices" / name
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / file.replace("_", "class")).write_bytes(content)


def space(capabilities: bytes, first: int = 0x40) -> bytes:
    """Configuration space with a capability list at 0x40."""
    head = bytearray(0x40)
    head[6], head[0x34] = 0x10, first
    return bytes(head) + capabilities.ljust(192, b"\0")


def text(word: str) -> bytes:
    return word.encode().ljust(10, b"\0")


VGPU = b"\x09\x00\x24VF" + bytes([7, 4, 1, 1]) + bytes([0, 22]) + text("580.126.08") + text("r582_12")
"""The vendor-specific capability: another record first, then the one of the host's driver."""


def test_classes_by_the_bus_id_of_the_driver(tmp_path: Path) -> None:
    device(tmp_path, "0000:1b:00.0", **{"class": b"0x030200\n"})
    device(tmp_path, "000f:01:00.0", **{"class": b"0x030000\n"})
    device(tmp_path, "0000:43:00.0", **{"class": b"garbage"})
    facts = read_facts(
        str(tmp_path), ["00000000:1B:00.0", "0000000F:01:00.0", "00000000:43:00.0", "00000000:99:00.0", ""]
    )
    assert facts.classes == {"00000000:1B:00.0": 0x0302, "0000000F:01:00.0": 0x0300}
    assert facts.hypervisor is None


def test_the_hypervisor_s_driver_is_read_from_the_card(tmp_path: Path) -> None:
    device(tmp_path, "0000:02:00.0", **{"class": b"0x030000\n", "config": space(VGPU)})
    assert read_facts(str(tmp_path), ["00000000:02:00.0"]).hypervisor == HostDriver("580.126.08", "r582_12")


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (space(b"\x05\x50\x08".ljust(16, b"\0") + VGPU), HostDriver("580.126.08", "r582_12")),
        (space(b"\x09\x00\x10VF" + bytes([7, 11])), HostDriver()),
        (space(b"\x09\x00\x20VF" + bytes([7, 0])), HostDriver()),
        (space(b"\x09\x00\x08VF"), HostDriver()),
        (space(b"\x09\x00\x14NV"), None),
        (space(b"\x05\x40\x08"), None),
        (space(b"", first=0), None),
        (space(b"", first=0xFF), None),
        (bytes(256), None),
        (b"", None),
        (b"\xff" * 256, None),
    ],
    ids=[
        "second capability",
        "no record of the driver",
        "record without end",
        "no records",
        "another signature",
        "a list that goes round",
        "no capabilities",
        "beyond the end",
        "capabilities not supported",
        "not readable",
        "a lost card",
    ],
)
def test_configuration_spaces(config: bytes, found: HostDriver | None) -> None:
    assert host_driver(config) == found
