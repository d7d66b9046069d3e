"""Every way to hand a GPU over, through the plugin's process, with the specifications on disk where CDI is one."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cdi_schema import SCHEMA
from tests.fake_kubelet import AdmissionFailed, Pod
from tests.fake_kubelet.model import Grant
from tests.node import GPU, FakeNode
from tests.waiting import wait_until

VENDOR = "k8s.device-plugin.nvidia.com"
MOUNTED = "/var/run/nvidia-container-devices"
STRATEGIES = (
    "envvar",
    "volume-mounts",
    "cdi-annotations",
    "cdi-cri",
    "envvar,volume-mounts",
    "envvar,cdi-annotations",
    "volume-mounts,cdi-cri",
    "cdi-annotations,cdi-cri",
    "envvar,volume-mounts,cdi-annotations,cdi-cri",
)


@contextmanager
def started(home: Path, *words: str, machine: str = "hgx-h100-8") -> Iterator[FakeNode]:
    with FakeNode(home, machine, ["--rescan-interval=1h", *words]) as node:
        node.plugin.start()
        wait_until(lambda: node.kubelet.resources, what="a resource")
        yield node


def grant(node: FakeNode, count: int, resource: str = GPU) -> Grant:
    return node.kubelet.admit(Pod("one", containers={"main": {resource: count}}))["main"]


def specifications(node: FakeNode) -> dict[str, dict[str, Any]]:
    """Kind -> the specification on disk, whole and valid."""
    found = {}
    for path in node.cdi_folder.iterdir() if node.cdi_folder.exists() else ():
        content = json.loads(path.read_text())
        jsonschema.validate(content, SCHEMA)
        assert path.name == f"{content['kind'].replace('/', '-')}.json"
        found[content["kind"]] = content
    return found


def resolve(node: FakeNode, names: Sequence[str]) -> list[str]:
    """Device nodes that a runtime would make for these names; fails where it would."""
    known = specifications(node)
    nodes: list[str] = []
    for name in names:
        kind, _, device = name.partition("=")
        (edits,) = [d["containerEdits"] for d in known[kind]["devices"] if d["name"] == device]
        nodes += [one["path"] for one in edits.get("deviceNodes", ())]
    return nodes


@pytest.mark.parametrize("ids", ["uuid", "index"])
@pytest.mark.parametrize("strategies", STRATEGIES)
def test_each_strategy_answers_in_its_form(tmp_path: Path, strategies: str, ids: str) -> None:
    chosen = strategies.split(",")
    with started(tmp_path, f"--device-list-strategy={strategies}", f"--device-id-strategy={ids}") as node:
        node.wait_healthy(8)
        given = grant(node, 8)
        wanted = [str(number) for number in range(8)] if ids == "index" else given.all_ids
        assert len(set(given.all_ids)) == 8
        assert ("NVIDIA_VISIBLE_DEVICES" in given.envs) is bool({"envvar", "volume-mounts"} & set(chosen))
        if "volume-mounts" in chosen:
            assert given.envs == {"NVIDIA_VISIBLE_DEVICES": MOUNTED}
            assert {mount.container_path for mount in given.mounts} == {f"{MOUNTED}/{name}" for name in wanted}
            assert {mount.host_path for mount in given.mounts} == {"/dev/null"}
        elif "envvar" in chosen:
            assert sorted(given.envs["NVIDIA_VISIBLE_DEVICES"].split(",")) == sorted(wanted)
        names = {f"{VENDOR}/gpu={name}" for name in wanted}
        assert set(given.cdi) == (names if "cdi-cri" in chosen else set())
        noted = {name for value in given.annotations.values() for name in value.split(",")}
        assert noted == (names if "cdi-annotations" in chosen else set())
        if {"cdi-cri", "cdi-annotations"} & set(chosen):
            assert set(resolve(node, sorted(names))) == {f"/dev/nvidia{number}" for number in range(8)}
        else:
            assert specifications(node) == {}
        assert node.kubelet.violations == []


def test_the_specification_names_files_that_are_there_by_the_paths_of_the_host(tmp_path: Path) -> None:
    with started(tmp_path, "--device-list-strategy=cdi-cri", "--driver-root=/run/nvidia/driver") as node:
        edits = specifications(node)[f"{VENDOR}/gpu"]["containerEdits"]
        assert edits["mounts"]
        for mount in edits["mounts"]:
            assert mount["hostPath"].startswith("/run/nvidia/driver/")
            seen = mount["hostPath"].removeprefix("/run/nvidia/driver").lstrip("/")
            assert (node.root / seen).exists(), mount
        nodes = [one["hostPath"] for one in edits["deviceNodes"]]
        assert nodes == [
            f"/run/nvidia/driver/dev/{name}"
            for name in ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
        ]
        assert "NVIDIA_VISIBLE_DEVICES=void" in edits["env"]
        assert [hook["args"][1] for hook in edits["hooks"]][:1] == ["hook"]


def test_mig_instances_are_named_with_their_capability_nodes(tmp_path: Path) -> None:
    words = ("--mig-strategy=mixed", "--device-list-strategy=cdi-cri", "--device-id-strategy=index")
    with started(tmp_path, *words, machine="dgx-a100-8-mig-mixed") as node:
        resource = "nvidia.com/mig-7g.40gb"
        wait_until(lambda: node.health(resource)[0], what=resource)
        given = grant(node, 1, resource)
        assert list(given.cdi) == [f"{VENDOR}/gpu=6:0"]
        assert resolve(node, given.cdi) == [
            "/dev/nvidia6",
            "/dev/nvidia-caps/nvidia-cap813",
            "/dev/nvidia-caps/nvidia-cap814",
        ]


def test_what_is_switched_on_beside_gpus_has_kinds_of_its_own(tmp_path: Path) -> None:
    words = ("--device-list-strategy=cdi-cri", "--gds-enabled", "--gdrcopy-enabled", "--mofed-enabled")
    with FakeNode(tmp_path, "gb200-4", [*words, "--imex-channel-ids=0"]) as node:
        for name in ("nvidia-fs0", "nvidia-fs1", "gdrdrv", "infiniband/uverbs0", "infiniband/rdma_cm"):
            (node.root / "dev" / name).parent.mkdir(exist_ok=True)
            (node.root / "dev" / name).touch()
        node.plugin.start()
        node.wait_healthy(4)
        given = grant(node, 1)
        kinds = ("gpu", "imex-channel", "gdrcopy", "gds", "mofed")
        assert [name.partition("=")[0] for name in given.cdi] == [f"{VENDOR}/{kind}" for kind in kinds]
        assert set(specifications(node)) == {f"{VENDOR}/{kind}" for kind in kinds}
        assert set(resolve(node, given.cdi)) >= {
            "/dev/nvidia-caps-imex-channels/channel0",
            "/dev/gdrdrv",
            "/dev/nvidia-fs0",
            "/dev/nvidia-fs1",
            "/dev/infiniband/uverbs0",
            "/dev/infiniband/rdma_cm",
        }
        assert given.envs == {"NVIDIA_GDS": "enabled", "NVIDIA_GDRCOPY": "enabled", "NVIDIA_MOFED": "enabled"}


def test_a_kind_without_device_nodes_is_warned_about_once(tmp_path: Path) -> None:
    with started(tmp_path, "--device-list-strategy=cdi-cri", "--gds-enabled") as node:
        node.wait_healthy(8)
        sentence = "CDI: flags.gdsEnabled is set and no device node matches"
        assert node.plugin.log.count(sentence) == 1
        node.plugin.signal(signal.SIGHUP)
        (node.root / "dev" / "nvidia7").unlink()
        node.wait_healthy(7)
        assert node.plugin.log.count(sentence) == 1


def test_a_card_whose_edits_would_be_incomplete_is_not_offered_and_says_why(tmp_path: Path) -> None:
    with FakeNode(tmp_path, arguments=["--device-list-strategy=cdi-cri", "--rescan-interval=1h"]) as node:
        (node.root / "dev" / "nvidia3").unlink()
        node.plugin.start()
        node.wait_healthy(7)
        assert "would not work under CDI: /dev/nvidia3 is not there; load the driver, and mount the host's /dev" in (
            node.plugin.log
        )
        shown = json.loads(
            node.command(
                "resources", "--json", "--device-list-strategy=cdi-cri", f"--driver=fake:{node.machine}"
            ).stdout
        )
        assert [(out["gpu"], out["reason"]) for out in shown["left_out"]] == [(3, "cdi-incomplete")]
        (node.root / "dev" / "nvidia3").touch()
        node.plugin.signal(signal.SIGHUP)
        node.wait_healthy(8)


def test_without_the_driver_s_libraries_nothing_is_offered_and_the_places_are_named(tmp_path: Path) -> None:
    with FakeNode(tmp_path, arguments=["--device-list-strategy=cdi-cri", "--rescan-interval=1h"]) as node:
        for path in (node.root / "usr" / "lib" / "x86_64-linux-gnu").iterdir():
            path.unlink()
        node.plugin.start()
        node.plugin.wait_for_log("[cdi-incomplete]")
        assert "libcuda.so.580.95.05 is not found below" in node.plugin.log
        assert "name it by --container-driver-root" in node.plugin.log
        assert not node.kubelet.resources


def test_a_dry_run_writes_no_specification(tmp_path: Path) -> None:
    with FakeNode(tmp_path) as node:
        words = ("resources", "--json", "--device-list-strategy=cdi-cri", f"--cdi-folder={node.cdi_folder}")
        said = json.loads(node.command(*words, f"--driver=fake:{node.machine}").stdout)
        assert said["resources"][GPU]["count"] == 8
        assert not node.cdi_folder.exists()


def test_a_change_to_cdi_writes_the_specification_before_the_first_allocate(tmp_path: Path) -> None:
    with FakeNode(tmp_path, arguments=[f"--config-file={tmp_path / 'config.yaml'}"]) as node:
        node.configure("version: v1\n")
        node.plugin.start()
        node.wait_healthy(8)
        assert specifications(node) == {}
        node.configure("flags: {plugin: {deviceListStrategy: cdi-cri}}\n")
        node.plugin.wait_for_log("configuration in force", count=2)
        assert resolve(node, grant(node, 1).cdi)


@pytest.mark.parametrize("required", [False, True])
def test_an_imex_channel_that_is_missing_matters_only_where_it_is_required(tmp_path: Path, *, required: bool) -> None:
    words = ("--imex-channel-ids=0", f"--imex-required={str(required).lower()}")
    with started(tmp_path, *words) as node:
        node.wait_healthy(8)
        if required:
            with pytest.raises(AdmissionFailed, match="IMEX channel 0 is required"):
                grant(node, 1)
            folder = node.root / "dev" / "nvidia-caps-imex-channels"
            folder.mkdir()
            (folder / "channel0").touch()
            assert grant(node, 1).envs["NVIDIA_IMEX_CHANNELS"] == "0"
        else:
            assert "NVIDIA_IMEX_CHANNELS" not in grant(node, 1).envs
