"""The root that processes share: state that survives them, and the host files in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pynvml
import pytest

import fake_nvml

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys, fake_nvml
fake = fake_nvml.attach(sys.argv[1])
fake.nvml.nvmlInit()
events = fake.nvml.nvmlEventSetCreate()
fake.nvml.nvmlDeviceRegisterEvents(fake.nvml.nvmlDeviceGetHandleByIndex(0), 8, events)
print("holding", flush=True)
fake.nvml.nvmlEventSetWait_v2(events, 60_000)
print("woken", flush=True)
"""


def _holder(root: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
    return process


def test_a_root_of_ones_own_goes_with_the_machine() -> None:
    with fake_nvml.open("t4x1") as fake:
        root = fake.root
        assert (root / "dev/nvidia0").is_file()
    assert not root.exists()
    fake.close()  # once more does nothing


def test_the_root_can_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML_ROOT", str(tmp_path))
    with fake_nvml.open("t4x1") as fake:
        assert fake.root == tmp_path
    assert (tmp_path / "control/journal").exists()


def test_state_outlives_every_process(tmp_path: Path) -> None:
    with fake_nvml.open("hgx-h100-8", tmp_path) as fake:
        fake.mig(0, ["3g.40gb"])
        fake.xid(3, 48)
        fake.load(1, 0.5)
    with fake_nvml.open("hgx-h100-8", tmp_path) as again:
        again.nvml.nvmlInit()
        assert again.nvml.nvmlDeviceGetMigMode(again.nvml.nvmlDeviceGetHandleByIndex(0)) == [1, 1]
        assert again.nvml.nvmlDeviceGetUtilizationRates(again.nvml.nvmlDeviceGetHandleByIndex(1)).gpu == 50
        lines = again.describe()
        assert "MIG 3g.40gb" in lines[1]
        assert "recovery action 1" in lines[4]
        assert lines[-1] == f"held open by process {os.getpid()}"


def test_an_imported_machine_needs_its_file_no_more(tmp_path: Path) -> None:
    text = "\tGPU0\nGPU0\t X \n"
    (tmp_path / "one.topo").write_text(text)
    root = tmp_path / "root"
    fake_nvml.open(str(tmp_path / "one.topo"), root).close()
    (tmp_path / "one.topo").unlink()
    with fake_nvml.attach(root) as fake:
        assert fake.spec == "one"


def test_a_root_is_not_taken_for_another_machine(tmp_path: Path) -> None:
    fake_nvml.open("t4x1", tmp_path).close()
    with pytest.raises(fake_nvml.UnknownMachine, match="already holds machine 't4x1', not 'l40s-8'"):
        fake_nvml.open("l40s-8", tmp_path)


def test_there_must_be_a_machine_to_attach_to(tmp_path: Path) -> None:
    with pytest.raises(fake_nvml.UnknownMachine, match="no pretend machine runs under"):
        fake_nvml.attach(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_failed_open_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(fake_nvml.UnknownMachine):
        fake_nvml.open("unheard-of")
    assert list(tmp_path.iterdir()) == []


def test_two_views_of_one_root_see_the_same_and_count_apart(tmp_path: Path) -> None:
    with fake_nvml.open("hgx-h100-8", tmp_path) as one, fake_nvml.open("hgx-h100-8", tmp_path) as two:
        two.nvml.nvmlInit()
        one.recovery(3, 1)
        handle = two.nvml.nvmlDeviceGetHandleByIndex(3)
        assert two.nvml.nvmlDeviceGetFieldValues(handle, [230])[0].value.uiVal == 1
        assert one.calls["nvmlInit"] == 0
        one.nvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            one.nvml.nvmlDeviceGetName(None)  # type: ignore[arg-type]


def test_a_line_cut_short_by_a_killed_writer_is_ignored_and_cut_off(tmp_path: Path) -> None:
    with fake_nvml.open("t4x1", tmp_path) as one:
        with (tmp_path / "control/journal").open("a") as journal:
            journal.write('{"op":"lose","gpu"')
        with fake_nvml.attach(tmp_path) as two:
            two.load(0, 0.5)
        one.nvml.nvmlInit()
        assert one.nvml.nvmlDeviceGetUtilizationRates(one.nvml.nvmlDeviceGetHandleByIndex(0)).gpu == 50
    lines = (tmp_path / "control/journal").read_text().splitlines()
    assert [json.loads(line)["op"] for line in lines] == ["machine", "load"]


def test_a_killed_holder_holds_no_more_and_its_listener_is_swept_away(tmp_path: Path) -> None:
    with fake_nvml.open("t4x1", tmp_path) as fake:
        holder = _holder(tmp_path)
        with pytest.raises(fake_nvml.InUse, match=f"process {holder.pid}"):
            fake.reset(0)
        holder.kill()
        holder.communicate()
        assert list((tmp_path / "control/holders").iterdir())
        fake.reset(0)
        assert not list((tmp_path / "control/holders").iterdir())
        assert not list((tmp_path / "control/listeners").iterdir())


def test_an_event_wakes_another_process(tmp_path: Path) -> None:
    with fake_nvml.open("t4x1", tmp_path) as fake:
        holder = _holder(tmp_path)
        fake.xid(0, 31)
        assert holder.communicate(timeout=30)[0] == "woken\n"
        assert holder.returncode == 0
        assert not list((tmp_path / "control/listeners").iterdir())


def test_host_files(tmp_path: Path) -> None:
    with fake_nvml.open("hgx-h100-8", tmp_path):
        pass
    devices = tmp_path / "sys/bus/pci/devices"
    assert (devices / "0000:1b:00.0/class").read_text() == "0x030200\n"
    assert (devices / "0000:1b:00.0/device").read_text() == "0x2330\n"
    assert (devices / "0000:9d:00.0/numa_node").read_text() == "1\n"
    assert (devices / "0000:07:00.0/class").read_text() == "0x068000\n"  # a switch, which is no GPU
    assert "580.95.05" in (tmp_path / "proc/driver/nvidia/version").read_text()
    assert (tmp_path / "sys/class/dmi/id/product_name").read_text() == "HGX H100 server\n"
    assert (tmp_path / "proc/sys/kernel/random/boot_id").read_text().count("-") == 4
    assert {path.name for path in (tmp_path / "dev").iterdir()} == {
        *(f"nvidia{minor}" for minor in range(8)),
        *("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps"),
    }


def test_host_files_of_odd_machines(tmp_path: Path) -> None:
    fake_nvml.open("gb200-4", tmp_path / "gb200").close()
    assert (tmp_path / "gb200/dev/nvidia-caps-imex-channels/channel0").exists()
    fake_nvml.open("wsl-1", tmp_path / "wsl").close()
    assert [path.name for path in (tmp_path / "wsl/dev").iterdir()] == ["dxg"]
    fake_nvml.open("none", tmp_path / "none").close()
    assert not (tmp_path / "none/dev").exists()
    vendors = {path.read_text() for path in (tmp_path / "none/sys/bus/pci/devices").glob("*/vendor")}
    assert vendors == {"0x8086\n"}
    fake_nvml.open("rtx4090-2", tmp_path / "rtx").close()
    assert (tmp_path / "rtx/sys/bus/pci/devices/0000:01:00.0/class").read_text() == "0x030000\n"
    fake_nvml.open("t4x1", tmp_path / "t4").close()
    assert (tmp_path / "t4/sys/bus/pci/devices/0000:00:1e.0/numa_node").read_text() == "-1\n"


def test_host_files_follow_the_driver(tmp_path: Path) -> None:
    with fake_nvml.open("t4x1", tmp_path) as fake:
        fake.driver("absent")
        assert not (tmp_path / "dev").exists() or not any((tmp_path / "dev").iterdir())
        assert not (tmp_path / "proc/driver/nvidia").exists()
        fake.driver("mismatch")
        assert "595.45.04" in (tmp_path / "proc/driver/nvidia/version").read_text()


def test_describe_tells_what_is_not_as_usual(tmp_path: Path) -> None:
    with fake_nvml.open("hgx-h100-8", tmp_path) as fake:
        fake.lose(0)
        fake.unplug(1)
        fake.mig(2, [], pending=True)
        fake.remap(3, "pending")
        fake.link(4, 5, up=False)
        fake.fabric(5, "in-progress")
        fake.fault("nvmlDeviceGetName", gpu=6, code=3, delay=0.5, after=1, times=2)
        fake.fault("nvmlDeviceGetUUID", value="")
        fake.hang("nvmlDeviceGetCount")
        words = [line.rpartition(": ")[2] for line in fake.describe()[1:]]
        assert words == [
            "lost, load 0",
            "unplugged, load 0",
            "load 0, MIG on pending",
            "load 0, pending 1",
            "load 0, links down [5]",
            "load 0, fabric state 2",
            "load 0",
            "load 0",
            "GPU 6, takes 0.5 s, answers code 3, after 1 calls, for 2 calls",
            "answers ''",
            "hangs",
        ]
        fake.driver("unloaded")
        assert "driver unloaded" in fake.describe()[0]
        fake.driver("absent")
        assert "driver absent" in fake.describe()[0]


def test_many_threads_and_views_order_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    with fake_nvml.open("hgx-h100-8", tmp_path) as one, fake_nvml.attach(tmp_path) as two:
        one.nvml.nvmlInit()
        handle = one.nvml.nvmlDeviceGetHandleByIndex(0)

        def order(fake: fake_nvml.Fake) -> None:
            for _ in range(20):
                fake.ecc(0, "corrected")
                one.nvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0)

        threads = [threading.Thread(target=order, args=(fake,)) for fake in (one, two, one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert one.nvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0) == 80
    assert len((tmp_path / "control/journal").read_text().splitlines()) == 81
