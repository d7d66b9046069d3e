from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from deviceplugin.config.document import (
    HealthPolicy,
    HealthSection,
    ListStrategy,
    MigStrategy,
    ProcessOptions,
    UnknownXid,
)
from deviceplugin.config.load import Loaded, load
from deviceplugin.config.origin import Origin
from deviceplugin.model.errors import ConfigError
from deviceplugin.model.inventory import Policy

FILES = {
    "/c.yaml": b"flags:\n  migStrategy: single\n  plugin:\n    deviceListStrategy: cdi-cri\nhealth: {fatal: [79]}\n",
    "/mps.yaml": b"sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}\n",
}


def read(path: str) -> bytes:
    try:
        return FILES[path]
    except KeyError:
        raise FileNotFoundError(2, "No such file or directory") from None


def loaded(flags: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    return load(flags or {}, environ or {}, read)


def problems(flags: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        loaded(flags, environ)
    return caught.value.problems


def test_without_anything_defaults_hold() -> None:
    nothing = loaded()
    assert nothing.config.flags.mig_strategy is MigStrategy.NONE
    assert nothing.process == ProcessOptions()
    assert nothing.stamp.source == "defaults"
    assert {source.origin for source in nothing.sources.values()} == {Origin.DEFAULT}


def test_flag_over_variable_over_file_over_default() -> None:
    flags, environ = {"--config-file": "/c.yaml"}, {"MIG_STRATEGY": "mixed"}
    path = "flags.migStrategy"
    in_file = loaded(flags)
    assert (in_file.config.flags.mig_strategy, str(in_file.sources[path])) == (MigStrategy.SINGLE, "/c.yaml:2")
    in_variable = loaded(flags, environ)
    assert (in_variable.config.flags.mig_strategy, str(in_variable.sources[path])) == (
        MigStrategy.MIXED,
        "MIG_STRATEGY",
    )
    in_flag = loaded({**flags, "--mig-strategy": "none"}, environ)
    assert (in_flag.config.flags.mig_strategy, str(in_flag.sources[path])) == (MigStrategy.NONE, "--mig-strategy")


def test_a_list_replaces_the_list_below_it() -> None:
    both = loaded({"--config-file": "/c.yaml"}, {"DEVICE_LIST_STRATEGY": "envvar,volume-mounts"})
    assert both.config.flags.plugin.device_list_strategy == (ListStrategy.ENVVAR, ListStrategy.VOLUME_MOUNTS)


@pytest.mark.parametrize(
    ("flag", "variable"),
    [
        ("--driver-root", "NVIDIA_DRIVER_ROOT"),
        ("--nvidia-driver-root", "NVIDIA_DRIVER_ROOT"),
    ],
)
def test_upstream_s_two_spellings_mean_one(flag: str, variable: str) -> None:
    assert loaded({flag: "/run/nvidia"}).config.flags.nvidia_driver_root == "/run/nvidia"
    assert loaded({}, {variable: "/run/nvidia"}).config.flags.nvidia_driver_root == "/run/nvidia"


def test_of_two_variables_the_first_counts() -> None:
    environ = {"CONTAINER_DRIVER_ROOT": "/b", "DRIVER_ROOT_CTR_PATH": "/a"}
    result = loaded({}, environ)
    assert result.config.flags.plugin.container_driver_root == "/a"
    assert str(result.sources["flags.plugin.containerDriverRoot"]) == "DRIVER_ROOT_CTR_PATH"


def test_the_dev_root_follows_the_driver_root() -> None:
    assert loaded({"--driver-root": "/run/nvidia"}).config.flags.nvidia_dev_root == "/run/nvidia"
    assert loaded({"--driver-root": "/run/nvidia", "--dev-root": "/"}).config.flags.nvidia_dev_root == "/"


@pytest.mark.parametrize("word", ["1", "t", "T", "TRUE", "true", "True"])
def test_switches_are_read_as_go_reads_them(word: str) -> None:
    assert loaded({}, {"PASS_DEVICE_SPECS": word}).config.flags.plugin.pass_device_specs is True


@pytest.mark.parametrize("word", ["0", "f", "F", "FALSE", "false", "False"])
def test_switches_off(word: str) -> None:
    assert loaded({"--fail-on-init-error": word}).config.flags.fail_on_init_error is False


def test_an_empty_variable_is_not_given_unless_empty_means_something() -> None:
    result = loaded({"--config-file": "/c.yaml"}, {"MIG_STRATEGY": "", "KUBELET_SOCKET": "", "METRICS_ADDRESS": ""})
    assert result.config.flags.mig_strategy is MigStrategy.SINGLE
    assert result.config.kubelet.socket == ""
    assert result.config.metrics.address == ""


def test_values_of_every_kind_from_variables() -> None:
    environ = {
        "SHARED_DEVICES_ALLOCATION_POLICY": "packed",
        "RESCAN_INTERVAL": "1m30s",
        "IMEX_CHANNEL_IDS": "0",
        "CDI_DISABLE_HOOKS": "a, b",
        "DEVICES_EXCLUDE": "0, GPU-1",
        "LOG_FORMAT": "json",
        "DRIVER": "fake:h100-nvl-8-pairs",
    }
    result = loaded({}, environ)
    assert result.config.flags.plugin.shared_devices_allocation_policy is Policy.PACKED
    assert result.config.daemon.rescan_interval == 90.0
    assert result.config.imex.channel_ids == (0,)
    assert result.config.cdi.disable_hooks == ("a", "b")
    assert result.config.devices.exclude == (0, "GPU-1")
    assert result.process == ProcessOptions(log_format="json", driver="fake:h100-nvl-8-pairs")  # type: ignore[arg-type]
    assert str(result.sources["log-format"]) == "LOG_FORMAT"


def test_problems_of_flags_variables_and_file_come_together() -> None:
    flags = {"--config-file": "/bad.yaml", "--rescan-interval": "soon"}
    environ = {"MIG_STRATEGY": "mxed", "PASS_DEVICE_SPECS": "yes", "IMEX_CHANNEL_IDS": "0,a", "LOG_LEVEL": "loud"}
    with pytest.raises(ConfigError) as caught:
        load(flags, environ, lambda _: b"flags:\n  gdsEnabled: 3\nversion: v9\n")
    assert caught.value.problems == (
        '/bad.yaml:2:15: flags.gdsEnabled: must be true or false, is "3"',
        'MIG_STRATEGY: must be one of none, single, mixed, is "mxed"; did you mean mixed?',
        'PASS_DEVICE_SPECS: must be true or false, is "yes"',
        'IMEX_CHANNEL_IDS: must be a whole number, is "a"',
        'LOG_LEVEL: must be one of debug, info, warning, error, is "loud"',
        '--rescan-interval: must be a duration such as 30s or 1m30s, is "soon"',
        '/bad.yaml:3:1: version: "v9" is not known; write version: v1',
    )


def test_a_combination_is_blamed_on_who_gave_it() -> None:
    assert problems({"--config-file": "/mps.yaml"}, {"MPS_ROOT": "mps"}) == (
        'MPS_ROOT: must be an absolute path, is "mps"; begin it with /',
    )
    (mixed,) = problems({"--config-file": "/mps.yaml", "--mig-strategy": "mixed"}, {"MPS_ROOT": "/mps"})
    assert mixed.startswith("/mps.yaml:1:11: sharing.mps: does not work under migStrategy mixed")


def test_what_hangs_on_a_wrong_value_is_not_reported_besides() -> None:
    text = b"flags: {mpsRoot: [x]}\nsharing: {mps: {resources: [{name: gpu, replicas: 2}]}}\n"
    with pytest.raises(ConfigError) as caught:
        load({"--config-file": "f"}, {}, lambda _: text)
    assert caught.value.problems == ("f:1:18: flags.mpsRoot: must be a text, is a list",)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            FileNotFoundError(2, "No such file or directory"),
            "/x (--config-file): no such file or directory; mount the configuration file there, or name another",
        ),
        (
            PermissionError(13, "Permission denied"),
            "/x (--config-file): permission denied; mount the configuration file there, or name another",
        ),
    ],
)
def test_a_file_that_cannot_be_read(error: OSError, line: str) -> None:
    def fail(_: str) -> bytes:
        raise error

    with pytest.raises(ConfigError) as caught:
        load({"--config-file": "/x"}, {"MIG_STRATEGY": "?"}, fail)
    assert caught.value.problems == (line, 'MIG_STRATEGY: must be one of none, single, mixed, is "?"')


def test_real_files(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("flags: {migStrategy: mixed}\n")
    assert load({"--config-file": str(tmp_path / "c.yaml")}, {}).config.flags.mig_strategy is MigStrategy.MIXED
    with pytest.raises(ConfigError, match="is a directory; mount"):
        load({"--config-file": str(tmp_path)}, {})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is a pipe, not a file; mount"):
        load({"--config-file": str(tmp_path / "pipe")}, {})
    assert load({"--config-file": "/dev/null"}, {}).config == load({}, {}).config


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the kubelet mounts a ConfigMap: links through ..data."""
    content = tmp_path / "..2026"
    content.mkdir()
    for name, strategy in (("a100", "mixed"), ("h100.yaml", "single"), ("default", "none")):
        (content / name).write_text(f"flags: {{migStrategy: {strategy}}}\n")
    (tmp_path / "..data").symlink_to(content)
    for name in ("a100", "h100.yaml", "default"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "file"),
    [
        ({"--config-name": "a100"}, "a100"),
        ({"--config-name": "h100"}, "h100.yaml"),
        ({"--config-name": "h100.yaml"}, "h100.yaml"),
        ({"--default-config": "a100"}, "a100"),
        ({"--default-config": "a100", "--config-name": "h100"}, "h100.yaml"),
        ({}, "default"),
        ({"--fallback-strategies": "single,named"}, "default"),
    ],
)
def test_one_of_several(folder: Path, flags: dict[str, str], file: str) -> None:
    assert load({**flags, "--config-dir": str(folder)}, {}).stamp.source == f"{folder}/{file}"


def test_the_only_one_and_none_at_all(folder: Path) -> None:
    assert load({"--config-dir": str(folder), "--fallback-strategies": "empty"}, {}).stamp.source == "defaults"
    (folder / "a100").unlink()
    (folder / "default").unlink()
    assert load({"--config-dir": str(folder)}, {}).stamp.source == f"{folder}/h100.yaml"


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            {"--config-name": "a10"},
            "--config-name a10: no such configuration in {folder}; did you mean a100?",
        ),
        (
            {"--config-name": "../etc/passwd"},
            "--config-name ../etc/passwd: no such configuration in {folder}; there are: a100, default, h100.yaml",
        ),
        (
            {"--fallback-strategies": "single"},
            (
                "--config-dir {folder}: no --config-name is given and no fallback (single) applies; "
                "there are: a100, default, h100.yaml"
            ),
        ),
        ({"--config-file": "/c"}, "--config-file /c and --config-dir {folder} are both given; drop one"),
    ],
)
def test_a_configuration_that_is_not_there(folder: Path, flags: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load({**flags, "--config-dir": str(folder)}, {})
    assert caught.value.problems == (line.format(folder=folder),)


def test_a_folder_that_is_not_there_and_a_name_without_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load({"--config-dir": f"{tmp_path}/x"}, {})
    assert caught.value.problems == (f"--config-dir {tmp_path}/x: no such file or directory; mount the folder there",)
    (tmp_path / "x").mkdir()
    with pytest.raises(ConfigError, match=r"no fallback \(named, single\) applies; there are: none"):
        load({"--config-dir": f"{tmp_path}/x"}, {})
    with pytest.raises(ConfigError, match="--config-name a needs --config-dir, the folder to find it in"):
        load({"--config-name": "a"}, {})


def test_idle_options_are_taken_with_a_warning() -> None:
    result = loaded({"--kubeconfig": "/x"}, {"RESTART_ON_DEVICE_UNHEALTHY": "true", "KUBECONFIG": "/home/x"})
    assert [warning for warning in result.warnings if "no effect" in warning] == [
        "RESTART_ON_DEVICE_UNHEALTHY has no effect: an Unhealthy device needs no restart here; drop it",
        "--kubeconfig has no effect: the pod's own service account is used; drop it",
    ]


def test_warnings_name_the_place() -> None:
    assert loaded({"--device-id-strategy": "index", "--device-list-strategy": "cdi-cri"}).warnings == (
        "--device-id-strategy: an index may mean another GPU after a reboot or when one is lost; uuid never does",
    )


def test_the_hash_tells_configurations_apart_and_nothing_else() -> None:
    plain = loaded().stamp.hash
    assert len(plain) == 12
    assert loaded({"--mig-strategy": "none", "--log-level": "debug"}).stamp.hash == plain
    assert loaded({"--mig-strategy": "single"}).stamp.hash != plain


def health(environ: Mapping[str, str], flags: Mapping[str, str] | None = None) -> HealthSection:
    return loaded(flags, environ).config.health


def test_disabled_xids_are_ignored() -> None:
    section = health({"DP_DISABLE_HEALTHCHECKS": "79, 94,13,5"})
    assert section.fatal == (48, 62, 64, 74, 95, 119, 120, 140, 143)
    assert section.recoverable == ()
    assert section.ignored == (13, 31, 43, 45, 68, 109, 5, 79, 94)
    assert section.unknown_xid is UnknownXid.FATAL


@pytest.mark.parametrize(("word", "ecc"), [("xids", HealthPolicy.UNHEALTHY), ("ALL", HealthPolicy.IGNORE)])
def test_every_xid_disabled(word: str, ecc: HealthPolicy) -> None:
    section = health({"DP_DISABLE_HEALTHCHECKS": word})
    assert (section.fatal, section.recoverable, section.unknown_xid) == ((), (), UnknownXid.IGNORE)
    assert section.ecc is section.recovery_action is ecc


def test_enabling_wins() -> None:
    section = health({"DP_DISABLE_HEALTHCHECKS": "all", "DP_ENABLE_HEALTHCHECKS": "79,94,31"})
    assert (section.fatal, section.recoverable) == ((31, 79), (94,))
    assert section.ignored == (13, 43, 45, 68, 109)
    assert section.unknown_xid is UnknownXid.IGNORE


def test_everything_enabled() -> None:
    section = health({"DP_DISABLE_HEALTHCHECKS": "all", "DP_ENABLE_HEALTHCHECKS": "all"})
    assert set(section.fatal) == {*HealthSection().fatal, *HealthSection().ignored}
    assert (section.ignored, section.recoverable) == ((), (94,))
    assert section.ecc is HealthPolicy.UNHEALTHY
    kept = health({"DP_ENABLE_HEALTHCHECKS": "xids"}, {"--health-unknown-xid": "recoverable"})
    assert kept.unknown_xid is UnknownXid.RECOVERABLE
    counted = health({"DP_ENABLE_HEALTHCHECKS": "xids", "HEALTH_UNKNOWN_XID": "ignore"})
    assert counted.unknown_xid is UnknownXid.FATAL


def test_flags_win_over_the_health_variables_and_sources_tell() -> None:
    result = loaded({"--health-fatal": "79"}, {"DP_DISABLE_HEALTHCHECKS": "all"})
    assert result.config.health.fatal == (79,)
    assert str(result.sources["health.fatal"]) == "--health-fatal"
    assert str(result.sources["health.recoverable"]) == "DP_DISABLE_HEALTHCHECKS"
    assert str(result.sources["health.ecc"]) == "DP_DISABLE_HEALTHCHECKS"
    assert str(result.sources["health.ignored"]) == "default"
    enabled = loaded({}, {"DP_DISABLE_HEALTHCHECKS": "79", "DP_ENABLE_HEALTHCHECKS": "31"})
    assert str(enabled.sources["health.fatal"]) == "DP_ENABLE_HEALTHCHECKS"


def test_the_file_s_xids_leave_the_default_lists() -> None:
    section = health({}, {"--config-file": "/c.yaml", "--health-ignored": "48,94"})
    assert (section.fatal, section.ignored, section.recoverable) == ((79,), (48, 94), ())


def test_what_the_health_variables_cannot_mean_is_said() -> None:
    result = loaded({}, {"DP_DISABLE_HEALTHCHECKS": "xid79,31"})
    assert 'DP_DISABLE_HEALTHCHECKS: "xid79" is left out; write Xid numbers, all or xids' in result.warnings


def seconds_to_load(entries: int) -> float:
    lines = "".join(f'  - {{pattern: "*A100-{n}*", name: gpu-{n}}}\n' for n in range(entries))
    data = f"resources:\n  gpus:\n{lines}".encode()
    assert len(data) > 40 * entries
    times = []
    for _ in range(3):
        start = time.process_time()
        load({"--config-file": "x"}, {}, lambda _: data)
        times.append(time.process_time() - start)
    return min(times)


def test_the_time_to_load_grows_with_the_size_and_no_faster() -> None:
    small, large = seconds_to_load(200), seconds_to_load(1600)
    assert large < 16 * small
    assert large < 1.0
