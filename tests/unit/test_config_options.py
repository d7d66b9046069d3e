from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from deviceplugin.config.document import Config, Document, ProcessOptions
from deviceplugin.config.effective import flatten
from deviceplugin.config.load import load
from deviceplugin.config.options import OPTIONS, add_arguments, given, parse
from deviceplugin.config.shapes import Shape, keys
from deviceplugin.config.table import BY_PATH, Option
from deviceplugin.config.values import Kind
from deviceplugin.model.errors import ConfigError

CONTRACT = {
    "--mig-strategy",
    "MIG_STRATEGY",
    "--fail-on-init-error",
    "FAIL_ON_INIT_ERROR",
    "--driver-root",
    "--nvidia-driver-root",
    "NVIDIA_DRIVER_ROOT",
    "--dev-root",
    "--nvidia-dev-root",
    "NVIDIA_DEV_ROOT",
    "--pass-device-specs",
    "PASS_DEVICE_SPECS",
    "--device-list-strategy",
    "DEVICE_LIST_STRATEGY",
    "--device-id-strategy",
    "DEVICE_ID_STRATEGY",
    "--gdrcopy-enabled",
    "GDRCOPY_ENABLED",
    "--gds-enabled",
    "GDS_ENABLED",
    "--mofed-enabled",
    "MOFED_ENABLED",
    "--cdi-annotation-prefix",
    "CDI_ANNOTATION_PREFIX",
    "--nvidia-cdi-hook-path",
    "--nvidia-ctk-path",
    "NVIDIA_CDI_HOOK_PATH",
    "NVIDIA_CTK_PATH",
    "--driver-root-ctr-path",
    "--container-driver-root",
    "DRIVER_ROOT_CTR_PATH",
    "CONTAINER_DRIVER_ROOT",
    "--mps-root",
    "MPS_ROOT",
    "--shared-devices-allocation-policy",
    "SHARED_DEVICES_ALLOCATION_POLICY",
    "--device-discovery-strategy",
    "DEVICE_DISCOVERY_STRATEGY",
    "--imex-channel-ids",
    "IMEX_CHANNEL_IDS",
    "--imex-required",
    "IMEX_REQUIRED",
    "--cdi-feature-flags",
    "CDI_FEATURE_FLAGS",
    "--cdi-disable-hooks",
    "CDI_DISABLE_HOOKS",
    "--kubelet-socket",
    "KUBELET_SOCKET",
    "--config-file",
    "CONFIG_FILE",
}

WITHOUT_FLAG = {"version", "resources.gpus", "resources.mig", "health.cordon"}


def arguments(*words: str) -> dict[str, str]:
    parser = argparse.ArgumentParser(prog="serve", allow_abbrev=False)
    add_arguments(parser)
    return given(parse(parser, words))


def refusal(*words: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        arguments(*words)
    return caught.value.problems


def test_upstream_s_flags_and_variables_are_there() -> None:
    named = {name for option in OPTIONS for name in (*option.flags, *option.variables)}
    assert named >= CONTRACT


def test_no_flag_or_variable_has_two_meanings() -> None:
    names = [name for option in OPTIONS for name in (*option.flags, *option.variables)]
    assert len(names) == len(set(names))
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)


def test_every_plain_value_of_the_document_has_an_option() -> None:
    paths = {path for path, _ in flatten(Config())}
    assert set(BY_PATH) == paths - WITHOUT_FLAG - {"sharing.timeSlicing", "sharing.mps"}


def test_every_process_option_has_a_row() -> None:
    rows = {option.name.replace("-", "_") for option in OPTIONS if not option.path and not option.idle}
    assert rows == set(ProcessOptions.__struct_fields__)


def shape_at(path: str) -> Shape:
    section: type[Document] = Config
    *above, last = path.split(".")
    for key in above:
        inner = keys(section)[key].shape.section
        assert inner
        section = inner
    return keys(section)[last].shape


@pytest.mark.parametrize("path", sorted(BY_PATH))
def test_an_option_takes_what_its_place_in_the_document_takes(path: str) -> None:
    option, shape = BY_PATH[path], shape_at(path)
    expected = {
        Kind.BOOL: Shape(boolean=True),
        Kind.TEXT: Shape(text=True),
        Kind.PATH: Shape(text=True),
        Kind.DURATION: Shape(duration=True),
        Kind.INTEGERS: Shape(items=Shape(integer=True)),
        Kind.TEXTS: Shape(items=Shape(text=True, integer=option.devices)),
        Kind.CHOICE: Shape(choices=option.choices),
        Kind.CHOICES: Shape(items=Shape(choices=option.choices)),
    }
    assert shape == expected[option.kind]


def test_flags_are_kept_as_they_were_written() -> None:
    assert arguments("--mig-strategy=mixed", "--nvidia-driver-root", "/run/nvidia") == {
        "--mig-strategy": "mixed",
        "--nvidia-driver-root": "/run/nvidia",
    }
    assert arguments() == {}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("--pass-device-specs",), "true"),
        (("--pass-device-specs=false",), "false"),
        (("--pass-device-specs", "false"), "false"),
        (("--pass-device-specs", "--gds-enabled"), "true"),
        (("-pass-device-specs",), "true"),
        (("-pass-device-specs=0",), "0"),
    ],
)
def test_switches(words: tuple[str, ...], value: str) -> None:
    assert arguments(*words)["--pass-device-specs"] == value


def test_the_last_of_several_counts_whatever_its_spelling() -> None:
    assert arguments("--driver-root", "/a", "--nvidia-driver-root", "/b") == {"--nvidia-driver-root": "/b"}


def test_lists_add_up() -> None:
    words = ("--device-list-strategy=envvar", "--device-list-strategy", "cdi-cri,volume-mounts")
    assert arguments(*words) == {"--device-list-strategy": "envvar,cdi-cri,volume-mounts"}


def test_a_switch_leaves_the_subcommand_s_words_alone() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--output")
    add_arguments(parser)
    parsed = parse(parser, ["--gds-enabled", "x.yaml", "--output", "-"])
    assert (parsed.file, parsed.output, given(parsed)) == ("x.yaml", "-", {"--gds-enabled": "true"})
    assert parse(parser, ["--", "--gds-enabled"]).file == "--gds-enabled"


def test_a_subcommand_may_own_every_spelling_of_an_option() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output-file", "--output", "-o")
    add_arguments(parser)
    assert parse(parser, ["-o", "x"]).output_file == "x"


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("--mig-stratgy=x",), ("--mig-stratgy: no such option; did you mean --mig-strategy?",)),
        (
            ("--migstrategy", "x", "--zzz"),
            (
                "--migstrategy: no such option; did you mean --mig-strategy?",
                "--zzz: no such option; --help lists them",
            ),
        ),
        (("mixed",), ("mixed: not understood; see serve --help",)),
        (("--mps-root",), ("--mps-root: expected one argument",)),
    ],
)
def test_what_is_no_option_is_one_line(words: tuple[str, ...], lines: tuple[str, ...]) -> None:
    assert refusal(*words) == lines


def test_help_shows_both_groups_and_choices(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit) as exit_:
        parse(parser, ["--help"])
    shown = capsys.readouterr().out
    assert exit_.value.code == 0
    assert "options of NVIDIA's plugin:" in shown
    assert "--metrics-address METRICS_ADDRESS" in shown
    assert "(none, single, mixed)" in shown


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_flag_and_variable_does_the_same(option: object) -> None:
    from deviceplugin.config.table import Option

    assert isinstance(option, Option)
    if option.idle or option.name in {"config-file", "config-dir", "config-name"}:
        return
    text = {
        Kind.BOOL: "true",
        Kind.TEXT: "[::1]:1",
        Kind.PATH: "/some/where",
        Kind.DURATION: "7s",
        Kind.INTEGERS: "0" if option.name == "imex-channel-ids" else "7",
        Kind.TEXTS: "x,y",
    }.get(option.kind) or next(choice for choice in option.choices if choice != "tegra")
    beside = {"METRICS_TLS_CERT": "/c", "METRICS_TLS_KEY": "/k"} if "-tls-" in option.name else {}
    results = [load({flag: text}, beside) for flag in option.flags]
    results += [load({}, {**beside, variable: text}) for variable in option.variables]
    assert len({result.stamp.hash for result in results}) == 1
    assert len({str(result.process) for result in results}) == 1
    key = option.path or option.name
    assert [str(result.sources[key]) for result in results] == [*option.flags, *option.variables]


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.none], ids=lambda option: option.name)
def test_the_word_none_is_the_empty_list(option: Option) -> None:
    flag, variable, path = option.flags[0], option.variables[0], str(option.path)
    for result in (load({flag: "none"}, {}), load({}, {variable: " none "}), load({flag: "none,none"}, {})):
        assert dict(flatten(result.config))[path] == ()
        assert str(result.sources[path]) in {flag, variable}
    word = next(iter(option.choices), "7")
    with pytest.raises(ConfigError) as caught:
        load({flag: f"none,{word}"}, {})
    assert caught.value.problems == (f'{flag}: must be none alone or a list without it, is "none,{word}"',)


def test_none_is_a_word_like_others_where_no_list_can_be_empty() -> None:
    assert load({"--devices-include": "none"}, {}).config.devices.include == ("none",)
    with pytest.raises(ConfigError, match="must be one of envvar"):
        load({"--device-list-strategy": "none"}, {})


def test_loading_without_a_file_imports_no_yaml() -> None:
    program = (
        "import sys; from deviceplugin.config.load import load; load({'--mig-strategy': 'mixed'}, {});"
        "print(sorted({'yaml', 'difflib', 'argparse'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert shown.stdout == "[]\n"
