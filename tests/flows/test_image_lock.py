"""The image's wheels are those of constraints.txt, by hash, for both architectures; the Dockerfile runs the script."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.charting.helm import ROOT

IMAGE = ROOT / "daemonset" / "image"


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock", IMAGE / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pinned(path: Path) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([\w.]+)", path.read_text(), re.MULTILINE)
    return {name.lower().replace("_", "-"): version for name, version in found}


def test_versions_are_those_that_the_tests_ran_with() -> None:
    constraints = pinned(ROOT / "constraints.txt")
    locked = pinned(ROOT / "daemonset/requirements.lock") | pinned(IMAGE / "build.lock")
    assert {name: version for name, version in locked.items() if constraints.get(name) != version} == {}


def test_what_the_project_needs_is_locked_and_nothing_that_only_its_tests_need() -> None:
    locked = set(pinned(ROOT / "daemonset/requirements.lock"))
    assert {"grpcio", "msgspec", "nvidia-ml-py", "prometheus-client", "protobuf", "pyyaml", "lightkube"} <= locked
    assert not {"pytest", "ruff", "mypy", "grpcio-tools", "helm-python-sdk"} & locked


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_hash_is_that_of_a_wheel_for_the_machine(maker: ModuleType, machine: str, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PIP_REQUIRE_VIRTUALENV"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--dest", tmp_path),
            *(*maker.platforms(machine), "-r", maker.LOCK),
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wheels = [path.name for path in tmp_path.iterdir()]
    assert len(wheels) == len(pinned(maker.LOCK))
    native = [name for name in wheels if not name.endswith("-any.whl")]
    assert {name.split("-")[0].lower() for name in native} >= {"grpcio", "msgspec", "protobuf", "pyyaml"}
    assert all(name.endswith(f"{machine}.whl") for name in native)


def test_the_dockerfile_runs_the_script_and_leaves_the_build_behind() -> None:
    text = (ROOT / "daemonset" / "Dockerfile").read_text()
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    assert "RUN daemonset/image/build.sh /rootfs" in stages[0]
    assert stages[1].startswith("scratch\n")
    assert "RUN" not in stages[1]
    assert 'ENTRYPOINT ["/usr/local/bin/gpu-device-plugin"]' in stages[1]
    assert "USER 0:0" in stages[1]
    labels = set(re.findall(r"org\.opencontainers\.image\.(\w+)", stages[1]))
    assert {"title", "description", "licenses", "version", "revision", "created"} <= labels


def test_what_the_dockerfile_copies_is_there_and_let_through() -> None:
    text = (ROOT / "daemonset" / "Dockerfile").read_text()
    ignored = (ROOT / "daemonset" / "Dockerfile.dockerignore").read_text().split()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert copied
    for path in copied:
        assert (ROOT / path).exists()
        assert f"!{path}" in ignored
