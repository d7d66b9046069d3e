"""What is written in the values holds in the program, or is refused or warned about before there is a pod."""

import json
from typing import Any

import pytest

from deviceplugin.config.effective import flatten
from deviceplugin.config.load import load
from deviceplugin.config.options import OPTIONS
from deviceplugin.config.values import LISTS, Kind
from deviceplugin.model.errors import ConfigError
from tests.charting.helm import refusal, render
from tests.charting.places import merged, nest, variables

OPTION_OF = {
    path: next(option for option in OPTIONS if variable in option.variables) for path, variable in variables().items()
}
OPTION_OF["config.fallbackStrategies"] = next(option for option in OPTIONS if option.path == "cluster.fallback")
LISTED = [path for path, option in OPTION_OF.items() if option.kind in LISTS and path != "deviceListStrategy"]
DURATIONS = [path for path, option in OPTION_OF.items() if option.kind is Kind.DURATION]
CONTRARY = {
    "imex": {"channelIDs": [0]},
    "devices": {"include": [99], "exclude": [0]},
    "health": {"fatal": [1], "ignored": [2], "recoverable": [3]},
    "cdi": {"featureFlags": ["x"], "disableHooks": ["all"]},
    "cluster": {"fallback": ["single"]},
}
"""A configuration file of which no list is empty."""


@pytest.mark.parametrize("path", LISTED)
def test_an_empty_list_holds_over_the_file_and_over_the_default(path: str) -> None:
    file = json.dumps(CONTRARY)
    rendered = render(merged({"config": {"map": {"default": file}, "default": "default"}}, nest(path, [])))
    for text in (file, ""):
        where = {"CONFIG_DIR": "", "CONFIG_FILE": "/c"}
        loaded = load({}, {**rendered.env, **where}, read={"/c": text.encode()}.__getitem__)
        assert dict(flatten(loaded.config))[str(OPTION_OF[path].path)] == (("*",) if path == "devices.include" else ())


def test_an_imex_list_that_is_empty_opens_no_device_nodes_for_the_files_channels() -> None:
    config = {"config": {"map": {"default": json.dumps(CONTRARY)}}}
    assert "/driver-root/dev" in render(config).mounts
    assert "/driver-root/dev" not in render({**config, "imex": {"channelIDs": []}}).mounts


@pytest.mark.parametrize("path", ["devices.include", "devices.exclude", "cdi.featureFlags", "cdi.disableHooks"])
def test_a_list_of_nothing_but_blanks_is_refused(path: str) -> None:
    assert f"/{path.replace('.', '/')}/0" in refusal(nest(path, [" "]))


def test_there_are_lists_and_durations_in_the_chart() -> None:
    assert len(LISTED) >= len(CONTRARY)
    assert {"gfd.sleepInterval", "daemon.rescanInterval", "health.quietPeriod"} <= set(DURATIONS)


@pytest.mark.parametrize("path", DURATIONS)
def test_a_duration_that_the_program_refuses_is_refused_here(path: str) -> None:
    place = f"/{path.replace('.', '/')}"
    for number in (30, 0, 1.5):
        assert f"at '{place}': got number, want null or string" in refusal(nest(path, number))
    for text in ("30", "1.2.3s", "s", "-1s", "1 s"):
        assert place in refusal(nest(path, text))
    for text in ("0s", "0.0h", "1m30s", "1.5h", ".5s", "250ms", "2000us", "2000\u00b5s", "2000\u03bcs"):
        try:
            load({}, {variables()[path]: text})
        except ConfigError:
            assert place in refusal(nest(path, text))
        else:
            assert render(nest(path, text)).env[variables()[path]] == text


def monitored(**values: object) -> dict[str, Any]:
    return {"monitoring": {"podMonitor": {"enabled": True, **values}}}


@pytest.mark.parametrize("wrong", [15, "15", "1.5s", "15 s"])
def test_a_scrape_interval_is_one_of_prometheus(wrong: object) -> None:
    assert "/monitoring/podMonitor/interval" in refusal(monitored(interval=wrong))
    (endpoint,) = render(monitored(interval="1m30s")).one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint["interval"] == "1m30s"


UNLABELLED = "nodes without the label nvidia.com/device-plugin.config do not start; name config.default"


@pytest.mark.parametrize("fallbacks", [None, [], ["named"], ["single"], ["named", "single"], ["single", "empty"]])
@pytest.mark.parametrize("default", ["", "shared"])
@pytest.mark.parametrize("names", [("shared",), ("default",), ("plain", "shared"), ("default.yml", "shared")])
def test_whom_no_configuration_is_for_is_said_where_the_program_has_none(
    names: tuple[str, ...], default: str, fallbacks: list[str] | None
) -> None:
    values = {"map": dict.fromkeys(names, "{}"), "default": default if default in names else ""}
    config = {"config": {**values, "fallbackStrategies": fallbacks}}
    labelled = render({**config, "cluster": {"configLabel": True}})
    try:
        load({}, labelled.env, read=lambda _: b"", names=lambda _: names)
    except ConfigError:
        assert f"config.map: no fallback chooses among {', '.join(names)}, and {UNLABELLED}" in labelled.notes
        assert "and no node would start" in refusal({**config, "cluster": {"configLabel": False}})
    else:
        assert "do not start" not in labelled.notes
        assert render({**config, "cluster": {"configLabel": False}}).pod


def test_in_a_config_map_of_ones_own_it_is_said_with_its_condition() -> None:
    said = render({"config": {"name": "mine"}}).notes
    assert f"config.name: where no fallback chooses a file of mine, {UNLABELLED}" in said
    said = render({"config": {"name": "mine"}, "cluster": {"configLabel": False}}).notes
    assert "where no fallback chooses a file of mine, no node starts" in said
    for chosen in ({"default": "a"}, {"fallbackStrategies": ["empty"]}):
        assert "do not start" not in render({"config": {"name": "mine", **chosen}}).notes


def test_a_variable_of_ones_own_may_choose() -> None:
    env = {"containers": {"main": {"env": [{"name": "CONFIG_NAME", "value": "plain"}]}}}
    config = {"config": {"map": {"plain": "{}", "shared": "{}"}}}
    assert UNLABELLED in render(config).notes
    assert "do not start" not in render({**config, "devicePlugin": env}).notes
