"""docs/configuration.md ends with the tables of all options, as the code has them.

To renew them: `python -m tests.house.test_config_docs`.
"""

from __future__ import annotations

from pathlib import Path

from deviceplugin.config.options import OPTIONS, as_markdown

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
TITLE = "### Options of NVIDIA's plugin"


def test_the_tables_are_those_of_the_code() -> None:
    text = DOCS.read_text()
    assert text[text.index(TITLE) :] == as_markdown(), "run: python -m tests.house.test_config_docs"


def test_every_flag_and_variable_is_in_the_tables() -> None:
    text = DOCS.read_text()
    for option in OPTIONS:
        for name in (*option.flags, *option.variables):
            assert f"`{name}`" in text


def test_the_example_loads() -> None:
    from deviceplugin.config.load import load

    example = DOCS.read_text().split("```yaml\n")[1].split("```")[0]
    loaded = load({"--config-file": "example.yaml"}, {}, read=lambda _: example.encode())
    assert loaded.warnings == ()


def _renew() -> None:
    text = DOCS.read_text()
    DOCS.write_text(text[: text.index(TITLE)] + as_markdown())


if __name__ == "__main__":
    _renew()
