"""The corpus: files that load, with what they say, and broken ones, with the lines that tell how to mend them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from deviceplugin.config.effective import as_yaml, flatten, spell
from deviceplugin.config.load import Loaded, load
from deviceplugin.config.origin import LARGEST
from deviceplugin.config.schema import schema
from deviceplugin.model.errors import ConfigError

CORPUS = Path(__file__).parents[1] / "config_corpus"
GOOD = sorted(path.name for path in (CORPUS / "good").iterdir() if path.suffix != ".expected")
BAD = sorted(path.name for path in (CORPUS / "bad").iterdir() if path.suffix != ".expected")

GO_ONLY = {"case.yaml", "idle-keys.yaml", "numbers-as-text.yaml", "words-of-truth.yaml"}
"""Taken as Go's libraries take them; an editor is right to mark them."""


def load_corpus(kind: str, name: str) -> Loaded:
    return load({"--config-file": f"{kind}/{name}"}, {}, read=lambda path: (CORPUS / path).read_bytes())


@cache
def defaults() -> dict[str, object]:
    return dict(flatten(load({}, {}).config))


def test_the_corpus_is_large_enough() -> None:
    assert len(GOOD) >= 20
    assert len(BAD) >= 40


@pytest.mark.parametrize("name", GOOD)
def test_a_good_file_says_what_is_expected(name: str) -> None:
    loaded = load_corpus("good", name)
    said = [
        f"{path}: {spell(path, value)}"
        for path, value in flatten(loaded.config)
        if value != defaults().get(path) and not (value is None and path not in defaults())
    ]
    said += [f"warning: {warning}" for warning in loaded.warnings if "NVIDIA_VISIBLE_DEVICES" not in warning]
    assert said == (CORPUS / "good" / f"{name}.expected").read_text().splitlines()


@pytest.mark.parametrize("name", GOOD)
def test_what_config_prints_loads_to_the_same(name: str) -> None:
    loaded = load_corpus("good", name)
    text = as_yaml(loaded.config, lambda path: str(loaded.sources[path]))
    again = load({"--config-file": "printed.yaml"}, {}, read=lambda _: text.encode())
    assert again.config == loaded.config
    assert again.stamp.hash == loaded.stamp.hash


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_names_every_place_and_remedy(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_corpus("bad", name)
    assert list(caught.value.problems) == (CORPUS / "bad" / f"{name}.expected").read_text().splitlines()
    for problem in caught.value.problems:
        assert problem.startswith(f"bad/{name}:")
        assert len(problem.splitlines()) == 1


def read_as_an_editor_does(path: Path) -> Any:
    text = path.read_bytes()
    return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)


@pytest.mark.parametrize("name", sorted(set(GOOD) - GO_ONLY))
def test_the_schema_accepts_good_files(name: str) -> None:
    document = read_as_an_editor_does(CORPUS / "good" / name)
    Draft202012Validator.check_schema(schema())
    assert [error.message for error in Draft202012Validator(schema()).iter_errors(document or {})] == []


@pytest.mark.parametrize(
    "name",
    [
        "bool-word.yaml",
        "choice-in-commas.yaml",
        "duration-word.yaml",
        "int-quoted.yaml",
        "list-wanted.yaml",
        "nesting-sharing.yaml",
        "replicas-missing.yaml",
        "section-is-list.yaml",
        "sharing-no-entries.yaml",
        "unknown-near.yaml",
        "version-unknown.yaml",
    ],
)
def test_the_schema_marks_wrong_shapes(name: str) -> None:
    document = read_as_an_editor_does(CORPUS / "bad" / name)
    assert not Draft202012Validator(schema()).is_valid(document)


def test_ten_megabytes_are_refused_without_being_parsed(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"version: v1 # " + b"x" * 10 * LARGEST)
    with pytest.raises(ConfigError, match=r"large\.yaml: is larger than 1 MiB, the most that a ConfigMap holds"):
        load({"--config-file": str(path)}, {})


def test_aliases_cannot_make_a_small_file_large() -> None:
    entry = "&a {pattern: x, name: y, pci: z, memory: '>1Gi', allocationPolicy: packed}"
    text = f"resources:\n  gpus: [{entry}{', *a' * 9000}]\n"
    with pytest.raises(ConfigError) as caught:
        load({"--config-file": "bomb.yaml"}, {}, read=lambda _: text.encode())
    (problem,) = caught.value.problems
    assert problem.endswith("the aliases (*name) of this file repeat too many values; write them out")


def test_hundreds_of_problems_are_cut_short() -> None:
    text = "\n".join(f"key{number}x{number}: 1" for number in range(200))
    with pytest.raises(ConfigError) as caught:
        load({"--config-file": "many.yaml"}, {}, read=lambda _: text.encode())
    assert len(caught.value.problems) == 31
    assert caught.value.problems[-1] == "and 170 more problems like these"
