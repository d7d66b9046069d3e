"""The configuration that a node label chose, over restarts."""

import logging
from pathlib import Path

import pytest

from deviceplugin.config.document import Cluster, Config, Daemon, ProcessOptions
from deviceplugin.config.load import Loaded
from deviceplugin.daemon.choice import Choice
from deviceplugin.files.watch import identity
from deviceplugin.model.errors import ConfigError
from deviceplugin.model.snapshot import ConfigStamp


def loaded(state_dir: Path | str, name: str = "", *, by_label: bool = True) -> Loaded:
    return Loaded(
        config=Config(cluster=Cluster(config_label=by_label), daemon=Daemon(state_dir=str(state_dir))),
        process=ProcessOptions(config_dir="/configs"),
        sources={},
        stamp=ConfigStamp(source=name or "defaults"),
    )


def choice(state_dir: Path | str, *known: str) -> Choice:
    def load(name: str) -> Loaded:
        if name and name not in known:
            raise ConfigError(f"--config-name {name}: no such configuration")
        return loaded(state_dir, name)

    return Choice(load)


def chosen(state_dir: Path, name: str) -> None:
    one = choice(state_dir, name)
    one.wanted = name
    one.took(str(state_dir))


def test_what_was_chosen_last_is_begun_with(tmp_path: Path) -> None:
    chosen(tmp_path / "state", "shared")
    one = choice(tmp_path / "state", "shared")
    assert one.begin(loaded(tmp_path / "state")).stamp.source == "shared"
    assert one.load().stamp.source == "shared"


def test_a_choice_that_is_taken_back_is_forgotten(tmp_path: Path) -> None:
    chosen(tmp_path, "shared")
    chosen(tmp_path, "")
    assert choice(tmp_path, "shared").begin(loaded(tmp_path)).stamp.source == "defaults"


def test_a_choice_that_no_longer_loads_is_said_and_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chosen(tmp_path, "gone")
    one = choice(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert one.begin(loaded(tmp_path)).stamp.source == "defaults"
    assert one.wanted == ""
    assert "no such configuration" in caplog.text


def test_without_the_label_nothing_is_remembered(tmp_path: Path) -> None:
    chosen(tmp_path, "shared")
    assert choice(tmp_path, "shared").begin(loaded(tmp_path, by_label=False)).stamp.source == "defaults"


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    one = choice(tmp_path / "file" / "state", "shared")
    one.wanted = "shared"
    one.took(str(tmp_path / "file" / "state"))
    one.took("")
    assert one.begin(loaded(tmp_path / "file" / "state")).stamp.source == "defaults"
    assert one.begin(loaded("")).stamp.source == "defaults"


def test_the_note_is_written_only_when_it_differs(tmp_path: Path) -> None:
    chosen(tmp_path, "shared")
    before = identity(tmp_path / "chosen-config")
    chosen(tmp_path, "shared")
    assert identity(tmp_path / "chosen-config") == before
    assert [path.name for path in tmp_path.iterdir()] == ["chosen-config"]


def only_by_label(state_dir: Path, *known: str) -> Choice:
    def load(name: str) -> Loaded:
        if name not in known:
            raise ConfigError(f"--config-name {name}: no such configuration" if name else "no fallback applies")
        return loaded(state_dir, name)

    return Choice(load)


def test_where_only_a_label_chooses_a_fresh_process_can_begin_once_it_has_chosen(tmp_path: Path) -> None:
    one = only_by_label(tmp_path, "shared")
    with pytest.raises(ConfigError, match="no fallback applies"):
        one.check_start()
    one.wanted = "shared"
    one.check_start()


def test_the_last_choice_is_begun_with_before_the_node_is_asked(tmp_path: Path) -> None:
    def never(_node: str) -> str:
        raise AssertionError("the API need not be there")

    chosen(tmp_path, "shared")
    one = only_by_label(tmp_path, "shared")
    assert one.begin_without(loaded(tmp_path), never, ConfigError("no fallback")).stamp.source == "shared"


def test_where_no_label_chooses_the_fault_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^no fallback$"):
        only_by_label(tmp_path).begin_without(loaded(tmp_path, by_label=False), str, ConfigError("no fallback"))
