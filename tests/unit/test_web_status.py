"""The status document: what it says, that it is documented, and how a terminal shows it."""

import argparse
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

import fake_nvml
from deviceplugin.cli import health, status
from deviceplugin.cli.context import Context
from deviceplugin.cli.screen import draw, silent, span
from deviceplugin.model.errors import PluginError
from deviceplugin.model.health import Verdict
from deviceplugin.web.advice import ADVICE, XID_ADVICE, advise
from deviceplugin.web.exhibition import Exhibition
from deviceplugin.web.status import document
from deviceplugin.web.view import Finding, View
from tests.web_views import NOW, view_of

DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "status.md").read_text()
DATA = {"reloads", "resources"}
"""Keys whose own keys are data."""


def shown(view: View) -> dict[str, Any]:
    exhibition = Exhibition(clock=lambda: NOW)
    exhibition.update(view)
    return exhibition.status_document()


def text(view: View, width: int = 140) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(draw(shown(view)))
    return console.export_text()


def keys(value: object, within: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if within not in DATA:
                yield key
            yield from keys(inner, key if isinstance(inner, Mapping) else "")
    elif isinstance(value, list):
        for one in value:
            yield from keys(one)


@pytest.mark.parametrize("machine", fake_nvml.names())
def test_every_field_is_documented(machine: str) -> None:
    missing = {
        key
        for key in keys(shown(view_of(machine, sick=[0], last=[1], exclude=[2])))
        if not re.search(rf"\b{key}\b", DOCUMENTATION)
    }
    assert missing == set()


def test_a_gpu_says_where_it_is_how_it_is_and_who_holds_it() -> None:
    gpu = shown(view_of(sick=[0]))["gpus"][0]
    assert (gpu["index"], gpu["numa"], gpu["domain"], gpu["health"]) == (0, 0, 0, "unhealthy")
    assert gpu["causes"][0]["reason"] == "xid-79"
    assert gpu["causes"][0]["todo"].startswith("The GPU has fallen off the bus")
    assert gpu["holders"][0]["pod"] == "llama-70b-train-0"
    assert gpu["nvlinks"] == {"active": 18, "total": 18}
    assert gpu["resources"] == {"nvidia.com/gpu": 1}


def test_a_resource_counts_what_is_held_free_and_unhealthy() -> None:
    (resource,) = shown(view_of(sick=[3]))["resources"]
    assert [resource[key] for key in ("offered", "healthy", "unhealthy", "allocated", "free")] == [8, 7, 1, 6, 1]
    assert (resource["phase"], resource["streams"], resource["trouble"]) == ("streaming", 1, "")


def test_what_pods_hold_is_unknown_while_nobody_can_tell() -> None:
    (resource,) = shown(view_of(pods_seen=False))["resources"]
    assert (resource["allocated"], resource["free"]) == (None, None)


def test_a_mig_instance_has_its_own_health_and_holder() -> None:
    gpu = shown(view_of("dgx-a100-8-mig-mixed", sick=[0]))["gpus"][0]
    assert {one["health"] for one in gpu["instances"]} == {"unhealthy"}
    assert gpu["instances"][0]["holders"]
    assert gpu["instances"][0]["resources"] == {"nvidia.com/mig-1g.5gb": 1}


def test_a_gpu_that_is_ranked_last_says_so() -> None:
    assert shown(view_of(last=[2]))["gpus"][2]["health"] == "rank-last"


def test_a_gpu_that_is_left_out_says_why() -> None:
    gpu = shown(view_of(exclude=[6]))["gpus"][6]
    assert gpu["left_out"]["reason"] == "excluded"
    assert gpu["resources"] == {}


@pytest.mark.parametrize(
    ("machine", "wirings"),
    [
        ("hgx-h100-8", ["switch"]),
        ("dgx1-v100-8", ["direct"]),
        ("h100-nvl-8-pairs", ["direct"] * 4),
        ("hgx-b200-8", ["switch"]),
        ("rtx4090-2", ["none", "none"]),
    ],
)
def test_domains_say_how_they_are_wired(machine: str, wirings: list[str]) -> None:
    assert [domain["wiring"] for domain in shown(view_of(machine))["domains"]] == wirings


def test_transitions_come_newest_first_with_advice() -> None:
    transitions = shown(view_of(sick=[3, 5]))["transitions"]
    assert [one["gpu"] for one in transitions] == [5, 3]
    assert transitions[0]["todo"]


def test_a_view_of_nothing_is_a_document() -> None:
    assert document(View())["gpus"] == []


@pytest.mark.parametrize("reason", [*ADVICE, *(f"xid-{xid}" for xid in XID_ADVICE), "xid-9999", "news"])
def test_there_is_advice_for_every_cause(reason: str) -> None:
    assert advise(reason).endswith((".", ")"))


def test_a_terminal_shows_gpus_resources_and_changes() -> None:
    screen = text(view_of(sick=[3], exclude=[6]))
    assert "gpu-node-17  ready" in screen
    assert "unhealthy xid-79" in screen
    assert "research/llama-70b-train-0" in screen
    assert re.search(r"nvidia.com/gpu +7 +6 +0 +1 +streaming", screen)
    assert "not offered: GPU 6" in screen
    assert re.search(r"→ +The GPU has fallen off the bus", screen)


def test_a_recovery_needs_no_advice() -> None:
    view = view_of(sick=[3])
    back = replace(view.books.transitions[0], to=Verdict.HEALTHY, detail="xid-79 is over", over=True)
    view = replace(view, books=replace(view.books, transitions=(back,)))
    assert shown(view)["transitions"][0]["todo"] == ""
    assert "→" not in text(view)


def test_a_terminal_shows_mig_instances() -> None:
    assert re.search(r"0:3 1g\.5gb +healthy", text(view_of("dgx-a100-8-mig-mixed")))


def test_a_terminal_shows_what_is_wrong() -> None:
    view = view_of(replicas=2)
    plugin = replace(
        view.plugin,
        ready=Finding(ok=False, reasons=("nvidia.com/gpu: not registered",)),
        troubles={"nvidia.com/gpu": "no answer"},
        config_refused="/c.yaml:3: no such key",
        warnings=("one warning",),
    )
    screen = text(replace(view, plugin=plugin))
    assert "not ready" in screen
    assert "✗ nvidia.com/gpu: not registered" in screen
    assert "refused: /c.yaml:3" in screen
    assert "! one warning" in screen
    assert "streaming  no answer" in screen
    assert "nvidia.com/gpu (time-slicing)" in screen


def test_a_terminal_shows_a_node_without_gpus() -> None:
    assert "no-hardware · nothing-to-offer · no figures yet" in text(view_of("none"))


def test_a_narrow_terminal_keeps_health_and_holders_readable() -> None:
    screen = text(view_of(sick=[3]), width=80)
    assert re.search(r"^3 .* unhealthy", screen, re.MULTILINE)
    assert re.search(r"research/llama-70b- *\n +train-0", screen), "the end of a name is lost"
    assert max(map(len, screen.splitlines())) <= 80


def test_several_models_are_told_apart() -> None:
    view = view_of("rtx4090-2")
    first, second = view.snapshot.node.gpus
    node = replace(view.snapshot.node, gpus=(first, replace(second, name="NVIDIA L40S")))
    screen = text(replace(view, snapshot=replace(view.snapshot, node=node)))
    assert "1 x NVIDIA GeForce RTX 4090, 1 x NVIDIA L40S" in screen
    assert re.search(r"^1 +NVIDIA L40S", screen, re.MULTILINE)


def test_names_with_brackets_are_no_markup() -> None:
    view = view_of("t4x1")
    gpu = replace(view.snapshot.node.gpus[0], name="[red]T4")
    node = replace(view.snapshot.node, gpus=(gpu,))
    assert "[red]T4" in text(replace(view, snapshot=replace(view.snapshot, node=node)))


@pytest.mark.parametrize(
    ("seconds", "said"), [(-1, "0 s"), (59, "59 s"), (60, "1 min"), (7199, "1 h"), (86_400 * 3, "3 d")]
)
def test_spans_are_said_in_their_largest_unit(seconds: float, said: str) -> None:
    assert span(seconds) == said


def command(monkeypatch: pytest.MonkeyPatch, *words: str, ready: bool = True) -> int:
    """The subcommand against a daemon that answers the document of a sound node."""
    view = view_of("t4x1")
    answer = shown(replace(view, plugin=replace(view.plugin, ready=Finding(ok=ready))))
    monkeypatch.setattr(status, "ask_daemon", lambda _context, _request: answer)
    parser = argparse.ArgumentParser()
    status.add_arguments(parser)
    arguments = parser.parse_args(words)
    return status.run(arguments, Context(arguments))


def test_json_is_the_document(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch, "--json") == 0
    assert json.loads(capsys.readouterr().out)["api"] == 1


def test_without_options_it_is_drawn_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch) == 0
    assert "Tesla T4" in capsys.readouterr().out


def test_a_plugin_that_is_not_ready_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, "--json", ready=False) == 1


def test_watching_goes_on_over_silence_until_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Iterator[Any] = iter(
        [shown(view_of("t4x1")), PluginError("nobody"), shown(view_of("t4x1")), KeyboardInterrupt()]
    )

    def ask(context: Context, request: dict[str, Any]) -> dict[str, Any]:
        del context, request
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return dict(answer)

    monkeypatch.setattr(status, "ask_daemon", ask)
    arguments = argparse.Namespace(json=False, watch=0.0)
    with pytest.raises(KeyboardInterrupt):
        status.run(arguments, Context(arguments))
    assert next(answers, None) is None


def test_silence_is_shown_with_its_reason() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(silent("no plugin answers on /run/x.sock"))
    assert "no plugin answers on /run/x.sock" in console.export_text()


def test_both_subcommands_ask_the_same_way() -> None:
    assert status.ask_daemon is health.ask_daemon  # type: ignore[attr-defined]
