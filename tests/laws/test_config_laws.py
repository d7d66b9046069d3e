from __future__ import annotations

import json
from collections.abc import Mapping

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from deviceplugin.config.durations import format_duration, parse_duration
from deviceplugin.config.effective import as_yaml, flatten
from deviceplugin.config.load import Loaded, load
from deviceplugin.config.table import BY_PATH, Option
from deviceplugin.config.values import LISTS, Kind
from deviceplugin.model.errors import ConfigError

FREE = [option for option in BY_PATH.values() if "-tls-" not in option.name and not option.name.startswith("health-")]
"""Options whose values are right or wrong by themselves."""

TEXTS = st.text("abcXYZ019./:-_ ", min_size=1, max_size=12).map(str.strip).filter(bool)

VALUES: Mapping[Kind, st.SearchStrategy[str]] = {
    Kind.BOOL: st.sampled_from(["true", "false"]),
    Kind.TEXT: TEXTS,
    Kind.PATH: TEXTS.map(lambda text: f"/{text}"),
    Kind.DURATION: st.integers(1, 10**7).map(lambda milliseconds: format_duration(milliseconds / 1000)),
    Kind.INTEGERS: st.lists(st.integers(1, 300), min_size=1, max_size=4, unique=True).map(
        lambda numbers: ",".join(map(str, numbers))
    ),
    Kind.TEXTS: st.lists(st.from_regex(r"\A[a-m]{1,6}\Z"), min_size=1, max_size=4, unique=True).map(",".join),
}
PARTICULAR = {
    "imex-channel-ids": st.just("0"),
    "metrics-address": st.integers(0, 65535).map(lambda port: f"[::1]:{port}"),
    "cdi-annotation-prefix": st.just("example.com/"),
    "device-discovery-strategy": st.just("nvml"),
    "devices-exclude": st.just("excluded"),
}


def texts_of(option: Option) -> st.SearchStrategy[str]:
    if option.name in PARTICULAR:
        return PARTICULAR[option.name]
    if option.choices:
        return st.sampled_from(option.choices)
    return VALUES[option.kind]


@st.composite
def settings_of(draw: st.DrawFn) -> dict[str, str]:
    chosen = draw(st.lists(st.sampled_from(FREE), max_size=8, unique_by=lambda option: option.name))
    return {option.path: draw(texts_of(option)) for option in chosen if option.path}


def as_document(values: Mapping[str, str]) -> dict[str, object]:
    document: dict[str, object] = {}
    for path, text in values.items():
        *above, last = path.split(".")
        section = document
        for key in above:
            inner = section.setdefault(key, {})
            assert isinstance(inner, dict)
            section = inner
        option = BY_PATH[path]
        words = text.split(",") if option.kind in LISTS else text
        section[last] = json.loads(f"[{text}]") if option.kind is Kind.INTEGERS else words
        if option.kind is Kind.BOOL:
            section[last] = text == "true"
    return document


def from_file(text: str, **environ: str) -> Loaded:
    return load({"--config-file": "f"}, environ, lambda _: text.encode())


@given(settings_of())
def test_flags_variables_yaml_and_json_mean_the_same(values: dict[str, str]) -> None:
    by_flag = load({BY_PATH[path].flags[-1]: text for path, text in values.items()}, {})
    by_variable = load({}, {BY_PATH[path].variables[-1]: text for path, text in values.items()})
    by_yaml = from_file(yaml.safe_dump(as_document(values)))
    by_json = from_file(json.dumps(as_document(values)))
    assert by_flag.config == by_variable.config == by_yaml.config == by_json.config
    assert len({loaded.stamp.hash for loaded in (by_flag, by_variable, by_yaml, by_json)}) == 1


@given(settings_of(), settings_of(), settings_of())
def test_the_strongest_source_wins_value_by_value(
    in_file: dict[str, str], in_variables: dict[str, str], in_flags: dict[str, str]
) -> None:
    environ = {BY_PATH[path].variables[0]: text for path, text in in_variables.items()}
    flags = {BY_PATH[path].flags[0]: text for path, text in in_flags.items()}
    text = yaml.safe_dump(as_document(in_file))
    merged = load({**flags, "--config-file": "f"}, environ, lambda _: text.encode())
    winners = {**in_file, **in_variables, **in_flags}
    assert merged.config == from_file(yaml.safe_dump(as_document(winners))).config
    for path in winners:
        origin = "flag" if path in in_flags else "variable" if path in in_variables else "file"
        assert merged.sources[path].origin == origin


@given(settings_of())
def test_what_is_printed_says_the_same(values: dict[str, str]) -> None:
    loaded = from_file(yaml.safe_dump(as_document(values)))
    printed = as_yaml(loaded.config, lambda path: str(loaded.sources[path]))
    assert from_file(printed).config == loaded.config


@given(settings_of(), settings_of())
def test_the_hash_is_that_of_the_values(first: dict[str, str], second: dict[str, str]) -> None:
    one, other = (from_file(yaml.safe_dump(as_document(values))) for values in (first, second))
    assert (one.stamp.hash == other.stamp.hash) == (dict(flatten(one.config)) == dict(flatten(other.config)))


WORDS = ["all", "gpu", "1m", "0:1", "*"]
LEAVES = st.none() | st.booleans() | st.integers(-5, 200) | st.floats() | st.sampled_from(WORDS)
KEYS = st.sampled_from(sorted({key for path in BY_PATH for key in path.split(".")})) | st.sampled_from(
    ["resources", "gpus", "migs", "sharing", "mps", "timeSlicing", "name", "replicas", "pattern", "cordon", "device"]
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=15
)


@given(TREES)
@settings(max_examples=300)
def test_any_tree_loads_or_is_refused_in_lines(tree: object) -> None:
    loads_or_refuses(yaml.safe_dump(tree).encode())


@given(st.binary(max_size=60) | st.text("ab:-[]{}&*!|>'\"%@`#,? \n\t<", max_size=60).map(str.encode))
@settings(max_examples=300)
def test_any_bytes_load_or_are_refused_in_lines(data: bytes) -> None:
    loads_or_refuses(data)


def loads_or_refuses(data: bytes) -> None:
    for problem in problems_of({"--config-file": "f"}, data):
        assert problem.startswith("f:")
        assert problem.isprintable()
        assert len(problem) < 500


def problems_of(flags: Mapping[str, str], data: bytes = b"") -> tuple[str, ...]:
    try:
        load(flags, {}, lambda _: data)
    except ConfigError as error:
        return error.problems
    return ()


@given(st.dictionaries(st.sampled_from([flag for o in BY_PATH.values() for flag in o.flags]), st.text(max_size=8)))
def test_any_flags_load_or_are_refused_by_name(flags: dict[str, str]) -> None:
    for problem in problems_of(flags):
        assert problem.partition(":")[0] in flags


@given(st.integers(0, 9 * 10**12))
def test_durations_survive_printing(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == round(seconds * 10**9) / 10**9
