"""The documentation, followed to the letter: values render, configurations load, commands print what is shown."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deviceplugin.cli import main
from deviceplugin.config.load import load
from tests.charting.helm import ROOT, render
from tests.charting.schemas import VERSIONS, problems

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """Page and text of each fenced block in a language."""
    return [(page.name, text) for page in PAGES for found, text in BLOCK.findall(page.read_text()) if found == language]


def parsed(settings: str) -> dict[str, Any]:
    """What `--set a.b=c,d=e` gives."""
    values: dict[str, Any] = {}
    for pair in settings.split(","):
        path, _, value = pair.partition("=")
        *parents, last = path.split(".")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = yaml.safe_load(value) if value else ""
    return values


def commands() -> Iterator[tuple[str, list[str], str]]:
    """Page, words and expected output of each `$ ...` line, with continuation lines joined."""
    for page, text in blocks("console"):
        joined = re.sub(r"\\\n\s*", "", text)
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", joined, re.MULTILINE):
            if "<<" not in command:
                yield page, shlex.split(command, comments=True), output


COMMANDS = list(commands())
OBJECT = "daemonset/nvidia-device-plugin"
"""kubectl's name for the object, no file."""
OURS = [(p, w, o) for p, w, o in COMMANDS if w[0].endswith("gpu-device-plugin") and "fake:hgx-h100-8" in " ".join(w)]


@pytest.mark.parametrize("settings", re.findall(r"\| `([a-zA-Z]\S*=\S*)`", (ROOT / "docs" / "install.md").read_text()))
def test_the_values_for_each_kind_of_node_render(settings: str) -> None:
    rendered = render(parsed(settings))
    assert [p for v in VERSIONS for o in rendered.objects for p in problems(o, v)] == []


@pytest.mark.parametrize(
    ("page", "words"), [(p, w) for p, w, _ in COMMANDS if w[0] == "helm" and "daemonset/chart" in w]
)
def test_helm_commands_have_values_that_the_chart_takes(page: str, words: list[str]) -> None:
    given = [words[n + 1] for n, word in enumerate(words) if word == "--set"]
    values: dict[str, Any] = {}
    for settings in given:
        for key, value in parsed(settings).items():
            values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    namespace = words[words.index("--namespace" if "--namespace" in words else "-n") + 1]
    rendered = render(values, namespace=namespace.lower())
    assert rendered.one("DaemonSet")["metadata"]["namespace"] == namespace.lower(), page


@pytest.mark.parametrize(("page", "text"), [b for b in blocks("yaml") if "image:" in b[1] and "gfd:" in b[1]])
def test_values_files_render_with_their_comments_taken_out(page: str, text: str) -> None:
    assert render(yaml.safe_load(text)).pod["runtimeClassName"] == "nvidia", page
    everything = re.sub(r"^# (?=[a-z]\w*:)", "", text, flags=re.MULTILINE)
    values = yaml.safe_load(everything)
    assert values.keys() > yaml.safe_load(text).keys()
    assert render(values).mounts["/driver-root"] == ("/run/nvidia/driver", False)


CONFIGURATIONS = [b for b in blocks("yaml") if re.match(r"(version|health|sharing|flags):", b[1])]


@pytest.mark.parametrize(
    ("page", "text"), CONFIGURATIONS, ids=[f"{page}-{n}" for n, (page, _) in enumerate(CONFIGURATIONS)]
)
def test_configurations_load_without_a_warning(page: str, text: str) -> None:
    loaded = load({"--config-file": page}, {}, read=lambda _: text.encode())
    assert [w for w in loaded.warnings if "NVIDIA_VISIBLE_DEVICES=all" not in w] == []


@pytest.mark.parametrize(("page", "words", "output"), OURS, ids=[" ".join(w[1:]) for _, w, _ in OURS])
def test_commands_print_what_the_page_shows(
    page: str, words: list[str], output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(words[1:]) == 0, page
    printed = capsys.readouterr().out.splitlines()
    for line in output.splitlines():
        assert line == "..." or line in printed


def test_pods_in_the_pages_are_pods() -> None:
    pods = [
        yaml.safe_load(text)
        for page in PAGES
        for text in re.findall(r"<<'POD'\n(.*?)^POD$", page.read_text(), re.MULTILINE | re.DOTALL)
    ]
    assert pods
    for pod in pods:
        assert [p for version in VERSIONS for p in problems(pod, version)] == []


def test_files_that_commands_name_are_there() -> None:
    named = {word for _, words, _ in COMMANDS for word in words if word.startswith(("daemonset/", "docs/", "tests/"))}
    named.discard(OBJECT)
    assert named
    assert [word for word in named if not Path(ROOT, word).exists()] == []
