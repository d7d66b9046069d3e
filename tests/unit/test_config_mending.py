"""Every broken file of the corpus was mended by what its messages say, at the lines or keys that they name."""

import re
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from deviceplugin.config.load import load
from deviceplugin.model.errors import ConfigError

CORPUS = Path(__file__).parents[1] / "config_corpus"
BAD = sorted(path.name for path in (CORPUS / "bad").iterdir() if path.suffix != ".expected")
NOT_TEXT = frozenset({"binary.yaml", "utf-16.yaml", "configmap.yaml", "deep.json"})
"""What is no configuration at all is replaced by one."""


def lines(folder: str, name: str) -> list[str]:
    return (CORPUS / folder / name).read_bytes().decode("utf-8", "replace").split("\n")


def messages(name: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load({"--config-file": name}, {}, read=lambda _: (CORPUS / "bad" / name).read_bytes())
    return tuple(caught.value.problems)


def test_every_broken_file_is_mended() -> None:
    assert {path.name for path in (CORPUS / "mended").iterdir()} == set(BAD)


@pytest.mark.parametrize("name", BAD)
def test_the_mended_file_loads(name: str) -> None:
    load({"--config-file": name}, {}, read=lambda _: (CORPUS / "mended" / name).read_bytes())


@pytest.mark.parametrize("name", sorted(set(BAD) - NOT_TEXT))
def test_each_change_is_at_a_line_or_key_that_a_message_names(name: str) -> None:
    said = "\n".join(messages(name))
    places = re.findall(rf"{re.escape(name)}:(\d+)|line (\d+)", said)
    named = {int(number) for pair in places for number in pair if number}
    before, after = lines("bad", name), lines("mended", name)
    for kind, first, end, other, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        keys = set(re.findall(r"(\w+):", "\n".join(after[other:last])))
        by_key = any(re.search(rf"\b{key}\b", said) for key in keys)
        by_line = bool(named & set(range(first, end + 2)))
        assert kind == "equal" or by_line or by_key, f"line {first + 1} was changed and is not named by:\n{said}"
