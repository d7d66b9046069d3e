"""Links in the documentation lead somewhere, and what it names (flags, subcommands, values) exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deviceplugin.cli import SUBCOMMANDS
from deviceplugin.config.options import OPTIONS
from tests.charting.upstream import GIVEN

ROOT = Path(__file__).parents[2]
FOUND = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=ROOT,
    check=True,
    capture_output=True,
    text=True,
)
PAGES = sorted(ROOT / name for name in FOUND.stdout.split() if (ROOT / name).is_file())
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^()\s]+(?:\([^()\s]*\))?)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def slug(heading: str) -> str:
    """A heading's anchor as code hosts make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        if link.startswith(("https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and (target.suffix != ".md" or anchor not in anchors(target))):
            broken.append(link)
    assert broken == []


def test_every_page_of_the_documentation_can_be_reached() -> None:
    seen: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen:
            continue
        seen.add(page)
        for link in LINK.findall(prose(page)):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.is_dir():
                ahead.append(target / "README.md")
            elif target.suffix == ".md":
                ahead.append(target)
    assert {page for page in PAGES if page.parent.name == "docs"} <= seen


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_subcommands_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`gpu-device-plugin ([a-z][a-z-]*)", text)
    named += re.findall(r"^\$ (?:.* )?gpu-device-plugin ([a-z][a-z-]*)", text, re.MULTILINE)
    assert set(named) - set(SUBCOMMANDS) - {"daemonset"} == set()


def test_the_migration_names_every_value_and_flag_of_nvidias() -> None:
    text = (ROOT / "docs" / "migrate.md").read_text()
    for key in GIVEN:
        assert f"`{key}`" in text, key
    table = (ROOT / "docs" / "configuration.md").read_text()
    for option in OPTIONS:
        if option.upstream:
            assert f"`--{option.name}`" in table


def test_values_of_the_chart_that_are_named_exist() -> None:
    def keys(values: object, path: str = "") -> set[str]:
        if not isinstance(values, dict):
            return {path}
        return {path}.union(*(keys(value, f"{path}.{name}".removeprefix(".")) for name, value in values.items()))

    known = keys(yaml.safe_load((ROOT / "daemonset" / "chart" / "values.yaml").read_text()))
    sections = {key.partition(".")[0] for key in known if "." in key} - {"resources"}
    for page in PAGES:
        named = re.findall(r"`([a-z]\w*(?:\.\w+)+)(?:=[^`]*)?`", prose(page))
        wrong = {
            name
            for name in named
            if name.partition(".")[0] in sections
            and page.name in {"install.md", "migrate.md", "security.md"}
            and name not in known
        }
        assert wrong == set(), page.name
