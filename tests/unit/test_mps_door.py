"""The door to MPS: finding the program, asking a daemon, keeping one, and what is said where a piece is missing."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deviceplugin.model.errors import MpsError
from deviceplugin.model.mps import MpsDevice, MpsPlan
from deviceplugin.mps import control, keeper, places, ready, shm, standing
from deviceplugin.mps.control import Control, find_program
from deviceplugin.mps.keeper import Keeper
from deviceplugin.mps.places import Places
from tests.fake_mps import FakeMps
from tests.waiting import wait_until

GPU = "nvidia.com/gpu"
PLAN = MpsPlan((MpsDevice("GPU-a", 0, 10194), MpsDevice("GPU-b", 1, None)), 25)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMps:
    fake = FakeMps(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")
    return fake


@pytest.fixture
def root(tmp_path: Path) -> Places:
    (tmp_path / "mps" / "shm").mkdir(parents=True)
    return Places(tmp_path / "mps", "/run/nvidia/mps")


@pytest.fixture
def kept(fake: FakeMps, root: Places) -> Iterator[Keeper]:
    kept = Keeper(GPU, Control(str(fake.program), root.of(GPU)))
    yield kept
    kept.stop()


def applied(root: Places) -> MpsPlan:
    return standing.applied(root, GPU, "/nowhere")


def following(kept: Keeper, then: Callable[[], object]) -> Callable[[], object]:
    """The keeper's next round, and what is asked after it."""

    def round_() -> object:
        kept.follow(PLAN, "abc")
        return then()

    return round_


# where things are


def test_the_root_is_below_the_host_root_or_at_mps_or_as_the_host_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert places.find("/run/nvidia/mps", "/host/") == Places(Path("/host/run/nvidia/mps"), "/run/nvidia/mps")
    monkeypatch.setattr(places, "CONTAINER_ROOT", str(tmp_path / "mounted"))
    assert places.find("/run/nvidia/mps").root == Path("/run/nvidia/mps")
    (tmp_path / "mounted").mkdir()
    found = places.find("/run/nvidia/mps")
    assert (found.root, found.host) == (tmp_path / "mounted", "/run/nvidia/mps")
    assert found.of(GPU) == tmp_path / "mounted" / "nvidia.com" / "gpu"


def test_the_program_is_found_on_path_or_below_the_driver_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MpsError, match=r"is neither on PATH nor below .*; set NVIDIA_DRIVER_CAPABILITIES"):
        find_program(str(tmp_path))
    below = FakeMps(tmp_path / "usr" / "local" / "nvidia" / "bin")
    assert find_program(str(tmp_path)) == str(below.program)
    first = FakeMps(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(first.folder))
    assert find_program(str(tmp_path)) == str(first.program)


# asking


def test_nobody_there_is_said_in_the_program_s_words(fake: FakeMps, root: Places) -> None:
    root.of(GPU).joinpath("pipe").mkdir(parents=True)
    with pytest.raises(MpsError, match="says: Cannot find MPS control daemon process"):
        Control(str(fake.program), root.of(GPU)).thread_percentage()


def test_a_client_that_hangs_is_given_up(fake: FakeMps, root: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "PATIENCE", 0.3)
    fake.behave(mute=True)
    with pytest.raises(MpsError, match=r"did not answer 'get_server_list' within 0.3 s"):
        Control(str(fake.program), root.of(GPU)).servers()


def test_a_program_that_cannot_be_run_is_named(root: Places) -> None:
    with pytest.raises(MpsError, match="/nowhere/at-all cannot be run: No such file"):
        Control("/nowhere/at-all", root.of(GPU)).ask("quit")
    with pytest.raises(MpsError, match="No such file"):
        Control("/nowhere/at-all", root.of(GPU)).start()


def test_an_answer_that_is_no_percentage_is_no_answer(kept: Keeper, fake: FakeMps, root: Places) -> None:
    kept.follow(PLAN, "abc")
    fake.behave(percentage="what?")
    with pytest.raises(MpsError, match="answered 'what\\?' where a percentage was asked for"):
        Control(str(fake.program), root.of(GPU)).thread_percentage()


# keeping


def test_a_daemon_is_begun_told_its_limits_and_reported_ready(kept: Keeper, fake: FakeMps, root: Places) -> None:
    kept.follow(PLAN, "abc")
    assert fake.orders() == [
        "start",
        "set_default_device_pinned_mem_limit 0 10194M",
        "set_default_active_thread_percentage 25",
    ]
    assert ready.read(root.of(GPU)) == ready.Ready(PLAN, "abc")
    assert applied(root) == PLAN
    kept.follow(PLAN, "abc")
    assert fake.orders().count("start") == 1


def test_other_limits_are_told_to_the_daemon_and_its_servers_and_nobody_is_ended(
    kept: Keeper, fake: FakeMps, root: Places
) -> None:
    kept.follow(PLAN, "abc")
    pid = fake.pid(root.root)
    Control(str(fake.program), root.of(GPU)).ask("start_server -uid 7")
    before = len(fake.orders())
    other = MpsPlan((MpsDevice("GPU-a", 0, 5000), MpsDevice("GPU-b", 1, None)), 50)
    kept.follow(other, "def")
    assert fake.orders()[before:] == [
        "set_default_device_pinned_mem_limit 0 5000M",
        "set_default_active_thread_percentage 50",
        "set_device_pinned_mem_limit 10007 0 5000M",
        "set_active_thread_percentage 10007 50",
    ]
    assert fake.pid(root.root) == pid
    assert ready.read(root.of(GPU)) == ready.Ready(other, "def")


def test_a_limit_that_is_lifted_takes_a_fresh_daemon(kept: Keeper, fake: FakeMps, root: Places) -> None:
    kept.follow(PLAN, "abc")
    kept.follow(MpsPlan((MpsDevice("GPU-a", 0, None),), 25), "def")
    assert fake.orders().count("start") == 2
    assert fake.orders()[-1] == "set_default_active_thread_percentage 25"
    assert applied(root).devices == (MpsDevice("GPU-a", 0, None),)


def test_a_daemon_that_dies_is_not_ready_and_begun_again(
    kept: Keeper, fake: FakeMps, root: Places, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeper, "FIRST_PAUSE", 0.1)
    kept.follow(PLAN, "abc")
    os.kill(fake.pid(root.root), signal.SIGKILL)
    wait_until(lambda: not kept._alive(), what="the daemon's end")
    kept.follow(PLAN, "abc")
    assert ready.read(root.of(GPU)) is None
    assert "the control daemon ended by itself, exit code -9; trying again in 0.1 s" in caplog.text
    wait_until(following(kept, lambda: ready.read(root.of(GPU))), what="a fresh daemon")
    assert applied(root) == PLAN


def test_a_daemon_that_does_not_start_is_tried_with_longer_and_longer_pauses(
    kept: Keeper, fake: FakeMps, root: Places, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeper, "FIRST_PAUSE", 0.01)
    fake.behave(refuse=True)
    wait_until(following(kept, lambda: "in 0.04 s" in caplog.text), what="three attempts")
    assert "in 0.01 s" in caplog.text
    assert "in 0.02 s" in caplog.text
    assert ready.read(root.of(GPU)) is None
    fake.behave()
    wait_until(following(kept, lambda: ready.read(root.of(GPU))), what="the daemon")


def test_a_daemon_that_insists_on_another_percentage_is_never_ready(
    kept: Keeper, fake: FakeMps, root: Places, caplog: pytest.LogCaptureFixture
) -> None:
    fake.behave(percentage=100)
    kept.follow(PLAN, "abc")
    assert "says 100 % of the threads after 25 % was set" in caplog.text
    assert ready.read(root.of(GPU)) is None


def test_what_an_earlier_life_left_running_is_ended_first(kept: Keeper, fake: FakeMps, root: Places) -> None:
    left = Control(str(fake.program), root.of(GPU))
    process = left.start()
    wait_until(fake.told, what="the old daemon")
    wait_until((root.of(GPU) / "pipe" / "control").exists, what="its socket")
    kept.follow(PLAN, "abc")
    assert process.wait(5) == 0
    assert fake.orders()[:3] == ["start", "quit -t 5", "start"]
    assert applied(root) == PLAN


def test_stopping_takes_the_ready_file_away_and_ends_the_daemon(kept: Keeper, fake: FakeMps, root: Places) -> None:
    kept.follow(PLAN, "abc")
    pid = fake.pid(root.root)
    kept.stop()
    assert ready.read(root.of(GPU)) is None
    assert fake.orders()[-1] == "quit -t 5"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_daemon_that_does_not_quit_is_made_to(
    kept: Keeper, fake: FakeMps, root: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.follow(PLAN, "abc")
    pid = fake.pid(root.root)
    monkeypatch.setattr(control, "PATIENCE", 0.1)
    monkeypatch.setattr(keeper, "GOING_DOWN", 0.2)
    fake.behave(mute=True)
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    kept.stop()
    assert time.monotonic() - began < 2
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# what is missing


def test_each_missing_piece_is_named_with_its_remedy(
    fake: FakeMps, root: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MpsError, match="/absent is not there; mount the host's /run/nvidia/mps into this container"):
        standing.applied(Places(tmp_path / "absent", "/run/nvidia/mps"), GPU, "/nowhere")
    root.shm.rmdir()
    with pytest.raises(MpsError, match="/run/nvidia/mps/shm is not there, which containers get as /dev/shm; run `gpu"):
        applied(root)
    root.shm.mkdir()
    with pytest.raises(MpsError, match=r"/run/nvidia/mps/nvidia.com/gpu/ready.json is not there; run `gpu-device-plug"):
        applied(root)
    root.of(GPU).joinpath("pipe").mkdir(parents=True)
    ready.write(root.of(GPU), ready.Ready(PLAN))
    with pytest.raises(MpsError, match=r"control daemon does not answer on /run/nvidia/mps/nvidia.com/gpu/pipe: .*Can"):
        applied(root)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MpsError, match="is neither on PATH nor below /nowhere"):
        applied(root)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"devices": [{}]}', '{"devices": 7, "threadPercentage": 1}', "\xff"])
def test_a_ready_file_that_cannot_be_understood_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "ready.json").write_text(text, encoding="latin-1")
    assert ready.read(tmp_path) is None


def test_ready_files_of_earlier_configurations_are_taken_away(root: Places) -> None:
    for name in ("nvidia.com/gpu", "nvidia.com/gpu.shared", "example.com/h100"):
        root.of(name).mkdir(parents=True)
        ready.write(root.of(name), ready.Ready(PLAN))
    ready.forget_all(root.root)
    assert list(root.root.rglob("ready.json")) == []


# shared memory


def test_what_is_mounted_already_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_mount", lambda _: True)
    assert shm.mount(tmp_path / "shm") is False


def test_a_kernel_that_refuses_is_told_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Libc:
        calls: list[tuple[object, ...]] = []  # noqa: RUF012 - one test's book

        def mount(self, *words: object) -> int:
            self.calls.append(words)
            return len(self.calls) - 1

    libc = Libc()
    monkeypatch.setattr("ctypes.CDLL", lambda *_args, **_more: libc)
    assert shm.mount(tmp_path / "shm") is True
    assert libc.calls == [(b"shm", str(tmp_path / "shm").encode(), b"tmpfs", 0x20000E, b"size=65536k")]
    with pytest.raises(MpsError, match=r"a tmpfs cannot be mounted at .*; run this container privileged"):
        shm.mount(tmp_path / "shm")


def test_a_root_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MpsError, match="Not a directory; mount mpsRoot into this container at /mps"):
        shm.mount(tmp_path / "file" / "shm")
