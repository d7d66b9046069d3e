"""The CDI folder: written whole, kept, rewritten, removed; and specifications that others keep."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from deviceplugin.config.document import (
    Cdi,
    CdiSpec,
    Config,
    Flags,
    IdStrategy,
    Imex,
    ListStrategy,
    MigStrategy,
    PluginFlags,
)
from deviceplugin.files import cdi
from deviceplugin.files.cdi import CdiFolder, Upkeep
from deviceplugin.model.node import DriverState, Node
from deviceplugin.rules.offer import offer, withhold
from tests.cdi_schema import SCHEMA
from tests.driver_roots import touch, ubuntu
from tests.strategies.nodes import card, cards, cut_card, instance, node

GPU_FILE = "k8s.device-plugin.nvidia.com-gpu.json"


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with a driver and four cards."""
    ubuntu(tmp_path / "host")
    touch(tmp_path / "host", "/dev/nvidiactl", *(f"/dev/nvidia{100 + n}" for n in range(4)))
    touch(tmp_path / "host", *(f"/dev/nvidia-caps/nvidia-cap{n}" for n in range(1, 5)))
    return tmp_path / "host"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cdi"


@pytest.fixture
def configured(folder: Path) -> Callable[..., Config]:
    def make(strategy: ListStrategy = ListStrategy.CDI_CRI, flags: Any = None, **cdi_section: Any) -> Config:
        plugin = PluginFlags(device_list_strategy=(strategy,), container_driver_root="/nowhere", **(flags or {}))
        return Config(
            flags=Flags(mig_strategy=MigStrategy.MIXED, plugin=plugin),
            cdi=Cdi(folder=str(folder), **cdi_section),
        )

    return make


def names_in(path: Path) -> list[str]:
    content = json.loads(path.read_text())
    jsonschema.validate(content, SCHEMA)
    return [device["name"] for device in content["devices"]]


def test_a_specification_is_written_and_valid(root: Path, folder: Path, configured: Callable[..., Config]) -> None:
    upkeep = CdiFolder().keep(cards(2), configured(), str(root))
    assert upkeep == Upkeep(written=(str(folder / GPU_FILE),))
    assert names_in(folder / GPU_FILE) == [card(0).uuid, "0", card(1).uuid, "1", "all"]
    assert stat.S_IMODE((folder / GPU_FILE).stat().st_mode) == 0o644
    assert listing(folder) == [GPU_FILE]


def test_it_is_left_alone_until_something_changes(root: Path, folder: Path, configured: Callable[..., Config]) -> None:
    keeper = CdiFolder()
    keeper.keep(cards(2), configured(), str(root))
    before = (folder / GPU_FILE).stat()
    assert keeper.keep(cards(2), configured(), str(root)).written == ()
    assert (folder / GPU_FILE).stat().st_ino == before.st_ino
    assert keeper.keep(cards(1), configured(), str(root)).written == (str(folder / GPU_FILE),)
    assert names_in(folder / GPU_FILE) == [card(0).uuid, "0", "all"]


def test_a_mig_change_is_followed(root: Path, folder: Path, configured: Callable[..., Config]) -> None:
    keeper = CdiFolder()
    for profiles in (("1g.10gb",), ("1g.10gb", "3g.40gb")):
        assert keeper.keep(node(cut_card(0, *profiles)), configured(), str(root)).left_out == ()
        assert instance(0, len(profiles) - 1).uuid in names_in(folder / GPU_FILE)


def test_a_leftover_of_another_plugin_is_overwritten(
    root: Path, folder: Path, configured: Callable[..., Config]
) -> None:
    folder.mkdir()
    (folder / GPU_FILE).write_bytes(b"\xff half a file")
    CdiFolder().keep(cards(1), configured(), str(root))
    assert names_in(folder / GPU_FILE) == [card(0).uuid, "0", "all"]


def test_other_kinds_have_their_own_files(root: Path, folder: Path, configured: Callable[..., Config]) -> None:
    base = configured()
    flags = Flags(gds_enabled=True, gdrcopy_enabled=True, mofed_enabled=True, plugin=base.flags.plugin)
    config = Config(flags=flags, cdi=base.cdi, imex=Imex(channel_ids=(0,)))
    upkeep = CdiFolder().keep(cards(1), config, str(root))
    kinds = ("gpu", "imex-channel", "gds", "gdrcopy", "mofed")
    assert listing(folder) == sorted(f"k8s.device-plugin.nvidia.com-{kind}.json" for kind in kinds)
    assert len(upkeep.warnings) == 3
    for kind in kinds:
        names_in(folder / f"k8s.device-plugin.nvidia.com-{kind}.json")


def test_without_a_cdi_strategy_nothing_is_touched(root: Path, folder: Path, configured: Callable[..., Config]) -> None:
    assert CdiFolder().keep(cards(1), configured(ListStrategy.ENVVAR), str(root)) == Upkeep()
    assert not folder.exists()


def test_a_scan_that_could_not_be_made_changes_nothing(
    root: Path, folder: Path, configured: Callable[..., Config]
) -> None:
    keeper = CdiFolder()
    keeper.keep(cards(1), configured(), str(root))
    assert keeper.keep(Node(state=DriverState.FAILING), configured(), str(root)) == Upkeep()
    assert names_in(folder / GPU_FILE) == [card(0).uuid, "0", "all"]


def test_when_the_last_card_is_gone_so_is_its_file(root: Path, folder: Path, configured: Callable[..., Config]) -> None:
    keeper = CdiFolder()
    keeper.keep(cards(1), configured(), str(root))
    keeper.keep(node(), configured(), str(root))
    assert listing(folder) == []


def test_while_the_driver_is_exchanged_the_old_file_stays(
    root: Path, folder: Path, configured: Callable[..., Config]
) -> None:
    keeper = CdiFolder()
    keeper.keep(cards(1), configured(), str(root))
    upgraded = replace(cards(1), driver_version="590.1.2")
    (out,) = keeper.keep(upgraded, configured(), str(root)).left_out
    assert "libcuda.so.590.1.2 is not found below" in out.detail
    assert names_in(folder / GPU_FILE) == [card(0).uuid, "0", "all"]


def test_a_device_without_its_node_is_withheld_from_the_offer(
    root: Path, folder: Path, configured: Callable[..., Config]
) -> None:
    what, config = cards(5), configured()
    upkeep = CdiFolder().keep(what, config, str(root))
    inventory = withhold(offer(what, config, str(root)), upkeep.left_out)
    assert [share.visible_index for share in inventory.resources["nvidia.com/gpu"].shares] == ["0", "1", "2", "3"]
    (out,) = inventory.left_out
    assert (out.device, out.reason) == (card(4).uuid, "cdi-incomplete")
    assert "/dev/nvidia104 is not there" in out.detail
    assert card(4).uuid not in names_in(folder / GPU_FILE)


def test_a_folder_that_cannot_be_written_is_named(root: Path, folder: Path, configured: Callable[..., Config]) -> None:
    folder.touch()
    (out,) = CdiFolder().keep(cards(1), configured(), str(root)).left_out
    assert out.reason == "cdi-not-written"
    assert f"{folder}: File exists; make {folder} writable, or name another by --cdi-folder" in out.detail


def test_a_file_that_cannot_be_replaced_leaves_no_rubbish(
    root: Path, folder: Path, configured: Callable[..., Config]
) -> None:
    (folder / GPU_FILE / "in the way").mkdir(parents=True)
    (out,) = CdiFolder().keep(cards(1), configured(), str(root)).left_out
    assert out.reason == "cdi-not-written"
    assert listing(folder) == [GPU_FILE]


def test_a_reader_never_sees_half_a_file(
    root: Path, folder: Path, configured: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    real = os.fsync

    def look(number: int) -> None:
        seen.append(listing(folder))
        real(number)

    monkeypatch.setattr(os, "fsync", look)
    CdiFolder().keep(cards(1), configured(), str(root))
    ((unfinished,),) = seen
    assert unfinished.startswith(".")
    assert not unfinished.endswith((".json", ".yaml"))


def test_remove_takes_ours_and_leaves_the_others(root: Path, folder: Path, configured: Callable[..., Config]) -> None:
    CdiFolder().keep(cards(1), configured(), str(root))
    (folder / "nvidia.yaml").touch()
    assert cdi.remove(folder) == (str(folder / GPU_FILE),)
    assert listing(folder) == ["nvidia.yaml"]
    assert cdi.remove(folder) == ()


@pytest.fixture(autouse=True)
def no_standard_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cdi, "STANDARD_FOLDERS", (str(tmp_path / "etc-cdi"),))


def external(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


YAML = f"""
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits: {{}}
- name: {card(0).uuid}
  containerEdits: {{}}
"""


@pytest.mark.parametrize("where", ["cdi", "etc-cdi"])
def test_devices_that_an_external_specification_names_are_fit(
    tmp_path: Path, where: str, configured: Callable[..., Config]
) -> None:
    external(tmp_path / where, "nvidia.yaml", YAML)
    upkeep = CdiFolder().keep(cards(2), configured(spec=CdiSpec.EXTERNAL))
    (out,) = upkeep.left_out
    assert (out.device, out.reason) == (card(1).uuid, "cdi-external-missing")
    assert upkeep.written == ()


def test_under_the_index_strategy_indices_are_looked_for(tmp_path: Path, configured: Callable[..., Config]) -> None:
    external(
        tmp_path / "cdi",
        "nvidia.json",
        json.dumps({"kind": "nvidia.com/gpu", "devices": [{"name": "1"}, {"name": 5}, 7]}),
    )
    config = configured(spec=CdiSpec.EXTERNAL, flags={"device_id_strategy": IdStrategy.INDEX})
    (out,) = CdiFolder().keep(cards(2), config).left_out
    assert out.device == card(0).uuid


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "kind: [unclosed"),
        ("a.json", "{"),
        ("a.json", '{"kind": "example.com/gpu", "devices": [{"name": "0"}]}'),
        ("a.json", '{"kind": "nvidia.com/gpu", "devices": "0"}'),
        ("a.json", "[]"),
        ("a.txt", YAML),
    ],
)
def test_what_is_no_such_specification_names_nothing(
    tmp_path: Path, name: str, text: str, configured: Callable[..., Config]
) -> None:
    external(tmp_path / "cdi", name, text)
    (out,) = CdiFolder().keep(cards(1), configured(spec=CdiSpec.EXTERNAL)).left_out
    assert out.reason == "cdi-external-missing"


def test_external_files_are_read_again_only_when_they_change(
    tmp_path: Path, configured: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    real = cdi._parsed

    def counted(path: Path) -> Any:
        reads.append(path)
        return real(path)

    monkeypatch.setattr(cdi, "_parsed", counted)
    external(tmp_path / "cdi", "nvidia.yaml", YAML)
    keeper, config = CdiFolder(), configured(spec=CdiSpec.EXTERNAL)
    assert keeper.keep(cards(1), config).left_out == keeper.keep(cards(1), config).left_out == ()
    assert len(reads) == 1
    external(tmp_path / "cdi", "nvidia.yaml", YAML.replace(card(0).uuid, "GPU-new"))
    assert len(keeper.keep(cards(1), config).left_out) == 1
    assert len(reads) == 2


def test_a_dry_run_says_what_keeping_would_come_to_and_writes_nothing(
    root: Path, folder: Path, configured: Callable[..., Config]
) -> None:
    without = CdiFolder().examine(cards(5), configured(), str(root))
    assert [(out.gpu_index, out.reason) for out in without.left_out] == [(4, "cdi-incomplete")]
    assert without == replace(CdiFolder().keep(cards(5), configured(), str(root)), written=())
    (folder / GPU_FILE).unlink()
    assert CdiFolder().examine(cards(1), configured(spec=CdiSpec.EXTERNAL), str(root)).left_out
    assert CdiFolder().examine(cards(1), configured(ListStrategy.ENVVAR), str(root)) == Upkeep()
    assert listing(folder) == []
