"""`python -m fake_nvml.control`: a second process that changes the machine."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pynvml
import pytest

import fake_nvml
from fake_nvml import control

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_nvml.Fake]:
    monkeypatch.setenv("FAKE_NVML_ROOT", str(tmp_path))
    with fake_nvml.open("hgx-h100-8") as opened:
        opened.nvml.nvmlInit()
        yield opened


def _field(fake: fake_nvml.Fake, gpu: int, field: int) -> int:
    return int(fake.nvml.nvmlDeviceGetFieldValues(fake.nvml.nvmlDeviceGetHandleByIndex(gpu), [field])[0].value.uiVal)


def test_a_real_second_process_raises_an_xid(fake: fake_nvml.Fake, tmp_path: Path) -> None:
    events = fake.nvml.nvmlEventSetCreate()
    fake.nvml.nvmlDeviceRegisterEvents(fake.nvml.nvmlDeviceGetHandleByIndex(3), 8, events)
    command = [sys.executable, "-m", "fake_nvml.control", "--root", str(tmp_path), "xid", "3", "79"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""
    assert fake.nvml.nvmlEventSetWait_v2(events, 10_000).eventData == 79


def test_a_real_second_process_is_refused_what_a_driver_refuses(fake: fake_nvml.Fake, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fake_nvml.control", "--root", str(tmp_path), "reset", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("control: reset: in use by process ")
    assert "Traceback" not in done.stderr
    assert subprocess.run([*command, "--force"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("order", "line", "words"),
    [
        ("lose 2", 3, "lost"),
        ("unplug 2", 3, "unplugged"),
        ("mig 0 3g.40gb,1c.2g.20gb --force", 1, "MIG 3g.40gb 1c.2g.20gb"),
        ("mig 0 off --pending", 1, "load 0"),
        ("remap 2 pending --correctable 3", 3, "correctable 3"),
        ("remap 2 failure --uncorrectable 4", 3, "failure 1"),
        ("recovery 3 1", 4, "recovery action 1"),
        ("recovery 3 drain-and-reset", 4, "recovery action 4"),
        ("xid 3 79", 4, "recovery action 2"),
        ("fabric 3 in-progress", 4, "fabric state 2"),
        ("link 3 5 down", 4, "links down [5]"),
        ("link 3 all down", 4, "links down [0, 1"),
        ("load 0 0.8", 1, "load 0.8"),
        ("load all 0.4 --memory 0.2 --throttle 0x4", 8, "load 0.4"),
        ("fault nvmlDeviceGetName --gpu 3 --code NOT_SUPPORTED", 9, "GPU 3, answers code 3"),
        ("fault nvmlDeviceGetName --code 15 --after 2 --times 3", 9, "code 15, after 2 calls, for 3 calls"),
        ("fault nvmlDeviceGetUUID --value [1]", 9, "answers [1]"),
        ("fault nvmlDeviceGetUUID --delay 0.5", 9, "takes 0.5 s"),
        ("hang", 9, "fault on nvml*: hangs"),
        ("hang nvmlDeviceGetName --gpu 1", 9, "fault on nvmlDeviceGetName: GPU 1, hangs"),
        ("driver old --force", 0, "driver 450.80.02"),
        ("driver mismatch --force", 0, "driver 595.45.04"),
        ("driver absent --force", 0, "driver absent"),
        ("driver version 570.10 --force", 0, "driver 570.10"),
    ],
)
def test_orders_take_effect(
    fake: fake_nvml.Fake, capsys: pytest.CaptureFixture[str], order: str, line: int, words: str
) -> None:
    assert control.main(order.split()) == 0
    assert control.main(["show"]) == 0
    assert words in capsys.readouterr().out.splitlines()[line]


def test_orders_that_undo(fake: fake_nvml.Fake) -> None:
    usual = fake.describe()
    for order in (
        "lose 2",
        "back 2",
        "unplug 3",
        "plug 3",
        "link 3 5 down",
        "link 3 5 up",
        "fault nvmlDeviceGetName --code 3",
        "clear",
        "hang",
        "release",
        "swap 0 1",
        "swap 1 0",
        "process 0 77 100",
        "process 0 77 gone",
    ):
        assert control.main(order.split()) == 0
    assert fake.describe() == usual


def test_gpus_can_be_named_by_uuid(fake: fake_nvml.Fake) -> None:
    assert control.main(["recovery", fake.uuids()[5], "gpu-reset"]) == 0
    assert _field(fake, 5, 230) == 1


def test_orders_on_memory_and_events(fake: fake_nvml.Fake) -> None:
    events = fake.nvml.nvmlEventSetCreate()
    handle = fake.nvml.nvmlDeviceGetHandleByIndex(0)
    fake.nvml.nvmlDeviceRegisterEvents(
        handle, pynvml.nvmlEventTypeDoubleBitEccError | pynvml.nvmlEventTypeClock, events
    )
    assert control.main(["ecc", "0", "uncorrected", "3"]) == 0
    assert fake.nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0) == 3
    assert control.main(["event", "0", "clock"]) == 0
    kinds = [fake.nvml.nvmlEventSetWait_v2(events, 0).eventType for _ in range(2)]
    assert kinds == [pynvml.nvmlEventTypeDoubleBitEccError, pynvml.nvmlEventTypeClock]
    assert control.main(["xid", "0", "94", "--bare"]) == 0


def test_page_retirement(tmp_path: Path) -> None:
    with fake_nvml.open("t4x1", tmp_path) as fake:
        assert control.main(["--root", str(tmp_path), "retire", "0", "pending", "--double", "2"]) == 0
        assert "pages double 2" in fake.describe()[1]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("lose 9", "no GPU 9; hgx-h100-8 has 8"),
        ("lose GPU-0", "'GPU-0' is no GPU; give a number from 0 to 7 or a uuid"),
        ("mig 0 9g.1gb --force", "has no MIG profile '9g.1gb'; it has: 1g.10gb"),
        ("fault nvmlDeviceGetNames --code 3", "did you mean nvmlDeviceGetName"),
        ("fault nvmlDeviceGetName --value {", "fault: "),
        ("load 0 1.5", "from 0 to 1"),
        ("fabric 0 completed --health ill", "'ill' is none of degraded"),
        ("retire 0 pending", "does not retire pages; try `remap`"),
        ("link 0 first down", "link: "),
    ],
)
def test_orders_that_cannot_be_done(
    fake: fake_nvml.Fake, capsys: pytest.CaptureFixture[str], order: str, message: str
) -> None:
    assert control.main(order.split()) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("order", ["", "dance 3", "xid", "xid 3", "recovery 3 tea", "remap 3 maybe", "xid 3 many"])
def test_orders_that_are_not_understood(fake: fake_nvml.Fake, capsys: pytest.CaptureFixture[str], order: str) -> None:
    with pytest.raises(SystemExit) as caught:
        control.main(order.split())
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_help_lists_every_order(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        control.main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert all(f"    {name} " in text for name in control.COMMANDS)


def test_without_a_root_it_says_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("FAKE_NVML_ROOT", raising=False)
    assert control.main(["show"]) == 2
    assert "give --root DIR or set FAKE_NVML_ROOT" in capsys.readouterr().err
    assert control.main(["--root", str(tmp_path), "show"]) == 2
    assert "no pretend machine runs under" in capsys.readouterr().err
