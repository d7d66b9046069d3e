"""The image's root file system, made by the Dockerfile's own script, and the plugin run inside it by chroot."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.charting.cases import MPS
from tests.charting.helm import ROOT, render
from tests.fake_kubelet import FakeKubelet
from tests.node import GPU, Plugin
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.needs("mmdebstrap", "chroot", "unshare", "setpriv"),
]

MEBIBYTE = 1 << 20
LARGEST = 112 * MEBIBYTE
PATH = "/usr/local/bin:/usr/bin"


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gdp-image"))
    root = folder / "root"
    environment = os.environ | {"PYTHON": sys.executable, "PIP": f"{sys.executable} -m pip"}
    built = subprocess.run(
        [ROOT / "daemonset/image/build.sh", root], env=environment, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    yield root
    shutil.rmtree(folder)


def inside(image: Path, *words: str, mounts: str = "", drop: bool = False) -> list[str]:
    """The command line that runs words in the image, in a mount namespace of its own."""
    least = "setpriv --bounding-set=-all,+sys_chroot --inh-caps=-all --no-new-privs" if drop else ""
    script = (
        f"set -e; R={image}; mount --bind $R $R; mount --rbind /dev $R/dev; mount -t proc proc $R/proc; "
        f"mount -t sysfs -o ro sysfs $R/sys; mount -t tmpfs tmpfs $R/tmp; {mounts}"
        f'mount -o remount,ro,bind $R; cd /; exec {least} chroot $R "$@"'
    )
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", *words]


def run(image: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": f"{PATH}:/usr/sbin:/sbin:/bin"}
    return subprocess.run(inside(image, *words), env=environment, capture_output=True, text=True, check=False)


def test_nothing_is_in_it_but_the_interpreter(image: Path) -> None:
    programs = {p.name for folder in ("usr/bin", "usr/sbin", "usr/local/bin") for p in (image / folder).iterdir()}
    aliases = {"nvidia-device-plugin", "gpu-feature-discovery", "mps-control-daemon"}
    assert programs == {"python3", "python3.11", "gpu-device-plugin", *aliases}
    assert run(image, "python3", "-c", "import pip").returncode != 0
    assert run(image, "python3", "-c", "import ensurepip").returncode != 0
    site = image / "usr/local/lib/python3.11/dist-packages"
    assert not {"pytest", "hatchling", "setuptools", "tests"} & {p.name for p in site.iterdir()}


def test_its_size(image: Path) -> None:
    size = sum(p.lstat().st_size for p in image.rglob("*") if not p.is_dir())
    print(f"image: {size / MEBIBYTE:.1f} MiB")
    assert size < LARGEST


def test_it_lists_its_packages_for_scanners(image: Path) -> None:
    listed = {path.name: path.read_text() for path in (image / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libssl3", "python3.11-minimal"} <= set(listed)
    assert all(text.startswith("Package: ") and "\nVersion: " in text for text in listed.values())


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("gpu-device-plugin", "version"), "gpu-device-plugin 0.1.0"),
        (("nvidia-device-plugin", "--help"), "usage: gpu-device-plugin serve"),
        (
            ("gpu-feature-discovery", "--oneshot", "--output", "-", "--driver", "fake:hgx-h100-8"),
            "nvidia.com/gpu.count=8",
        ),
        (("mps-control-daemon", "--help"), "usage: gpu-device-plugin mps"),
        (("gpu-device-plugin", "resources", "--driver", "fake:hgx-h100-8"), "nvidia.com/gpu: 8"),
        (("python3", "-c", "import deviceplugin.cluster, lightkube; print('door')"), "door"),
    ],
)
def test_its_names_and_subcommands(image: Path, words: tuple[str, ...], answer: str) -> None:
    done = run(image, *words)
    assert done.returncode == 0, done.stderr
    assert answer in done.stdout


def test_every_module_is_compiled_ahead(image: Path) -> None:
    site = image / "usr/local/lib/python3.11/dist-packages/deviceplugin"
    missing = [p for p in site.rglob("*.py") if not (p.parent / "__pycache__" / f"{p.stem}.cpython-311.pyc").exists()]
    assert missing == []


def test_the_demo_runs_in_it(image: Path) -> None:
    mounts = f"mkdir $R/tmp/demo; mount --bind {ROOT} $R/tmp/demo; mount -t tmpfs tmpfs $R/run; "
    program = (
        "import os, runpy, sys; os.mkdir('/run/demo'); os.symlink('/tmp/demo/tests', '/run/demo/tests'); "
        "os.chdir('/run/demo'); sys.path.insert(0, '/run/demo'); sys.argv = ['demo']; "
        "runpy.run_module('tests.demo', run_name='__main__')"
    )
    command = inside(image, "/usr/bin/python3", "-c", program, mounts=mounts)
    done = subprocess.run(command, env={"PATH": PATH + ":/usr/sbin:/bin"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "That was it" in done.stdout


def test_the_mps_init_container_mounts_its_shared_memory(image: Path) -> None:
    rendered = render({"config": {"map": {"default": MPS}}})
    (daemonset,) = [d for d in rendered.all("DaemonSet") if d["metadata"]["name"].endswith("-mps")]
    (container,) = daemonset["spec"]["template"]["spec"]["initContainers"]
    environment = {v["name"]: v["value"] for v in container["env"]} | {"PATH": f"{PATH}:/usr/sbin:/sbin:/bin"}
    (image / "mps").mkdir(exist_ok=True)
    command = inside(image, "gpu-device-plugin", *container["args"], mounts="mount -t tmpfs tmpfs $R/mps; ")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "/mps/shm: mounted" in done.stdout + done.stderr


def test_it_serves_with_the_charts_own_pod_no_capability_and_a_read_only_root(image: Path, tmp_path: Path) -> None:
    rendered = render({"cluster": {"configLabel": False}})
    assert rendered.container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    short = Path(tempfile.mkdtemp(prefix="gdp"))
    mounts = ""
    for number, (path, (_, writable)) in enumerate(sorted(rendered.mounts.items())):
        (short / str(number)).mkdir(mode=0o750)
        (image / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        mounts += f"mount --bind {short / str(number)} $R{path}; "
        mounts += "" if writable else f"mount -o remount,ro,bind $R{path}; "
    kubelet_folder = short / str(sorted(rendered.mounts).index("/var/lib/kubelet/device-plugins"))
    control = short / str(sorted(rendered.mounts).index("/run/gpu-device-plugin"))
    words = ["gpu-device-plugin", *rendered.container["args"], "--driver=fake:hgx-h100-8", "--metrics-address="]
    environment = {**rendered.env, "NODE_NAME": "node-1", "PATH": f"{PATH}:/usr/sbin:/sbin:/bin"}
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, short)
        kubelet = stack.enter_context(FakeKubelet(kubelet_folder))
        began = time.monotonic()
        plugin = Plugin(inside(image, *words, mounts=mounts, drop=True), environment, tmp_path / "plugin.log").start()
        stack.callback(plugin.kill)
        wait_until(lambda: len(kubelet.resources[GPU].healthy) == 8 if GPU in kubelet.resources else False, timeout=20)
        print(f"image: {time.monotonic() - began:.2f} s from start to the kubelet's list")
        status = Path(f"/proc/{plugin.pid}/status").read_text()
        sys_chroot = 1 << 18
        assert f"CapEff:\t{sys_chroot:016x}" in status
        assert (control / "control.sock").is_socket()
        probe = inside(image, *rendered.container["livenessProbe"]["exec"]["command"], mounts=mounts, drop=True)
        assert subprocess.run(probe, env=environment, check=False).returncode == 0
        assert plugin.stop() == 0, plugin.log
        assert "Read-only file system" not in plugin.log
        assert "Permission denied" not in plugin.log
