"""Names, identity and the sweep of socket files, and who else listens."""

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from deviceplugin.kubelet import rivals, sockets
from deviceplugin.model.errors import KubeletError


@contextlib.contextmanager
def listening(path: Path, backlog: int = 8) -> Iterator[socket.socket]:
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        listener.listen(backlog)
        yield listener


def dead(path: Path) -> Path:
    with listening(path):
        return path


@pytest.mark.parametrize(
    ("resource", "slug"),
    [
        ("nvidia.com/gpu", "gpu"),
        ("nvidia.com/gpu.shared", "gpu-shared"),
        ("nvidia.com/mig-1g.10gb.me", "mig-1g-10gb-me"),
        ("example.org/A_100", "a-100"),
        ("example.org/...", "gpu"),
    ],
)
def test_the_slug_of_a_resource(resource: str, slug: str) -> None:
    assert sockets.slug(resource) == slug


def test_a_fresh_path_is_ours_by_name_and_never_the_same() -> None:
    paths = {sockets.fresh_path(Path("/var/lib/kubelet/device-plugins"), "nvidia.com/gpu") for _ in range(50)}
    assert len(paths) == 50
    assert all(sockets.OURS.fullmatch(path.name) for path in paths)


@pytest.mark.parametrize("length", range(60, 83))
def test_a_fresh_path_fits_into_a_socket_address(length: int) -> None:
    folder = Path("/" + "f" * (length - 1))
    path = sockets.fresh_path(folder, "nvidia.com/" + "mig-1g.10gb.me" * 4)
    assert len(os.fsencode(path)) < 107
    assert sockets.OURS.fullmatch(path.name)


def test_a_folder_that_leaves_no_room_is_refused_by_name() -> None:
    folder = Path("/" + "f" * 90)
    with pytest.raises(KubeletError, match=re.escape(f"{folder}: too long a path for a socket in it")):
        sockets.fresh_path(folder, "nvidia.com/gpu")


def test_a_folder_that_cannot_be_used_is_told_by_its_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sockets.check_folder(tmp_path)
    with pytest.raises(KubeletError, match=re.escape(f"{tmp_path / 'absent'}: no such folder")):
        sockets.check_folder(tmp_path / "absent")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(KubeletError, match=re.escape(f"{tmp_path}: not writable for uid {os.geteuid()}")):
        sockets.check_folder(tmp_path)


def test_the_identity_tells_a_socket_from_one_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.sock"
    assert sockets.identity(path) is None
    with listening(path):
        first = sockets.identity(path)
        assert first is not None
        assert sockets.identity(path) == first
        path.rename(tmp_path / "old.sock")
        with listening(path):
            assert sockets.identity(path) not in {None, first}


def test_who_listens_is_told_from_who_does_not(tmp_path: Path) -> None:
    with listening(tmp_path / "alive.sock", 0):
        assert sockets.answers(tmp_path / "alive.sock") is True
        clients = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for client in clients:
            client.settimeout(0)
            with contextlib.suppress(OSError):
                client.connect(str(tmp_path / "alive.sock"))
        assert sockets.answers(tmp_path / "alive.sock") is True, "a full backlog is a busy process"
        for client in clients:
            client.close()
    assert sockets.answers(tmp_path / "alive.sock") is False
    assert sockets.answers(tmp_path / "absent.sock") is None


def test_the_sweep_takes_dead_sockets_of_our_naming_only(tmp_path: Path) -> None:
    ours = dead(tmp_path / "nvidia-gpu-01234567.sock")
    stock = dead(tmp_path / "nvidia-gpu.sock")
    file = tmp_path / "nvidia-gpu-11111111.sock"
    file.write_text("no socket")
    with listening(tmp_path / "nvidia-gpu-89abcdef.sock"):
        assert asyncio.run(sockets.sweep(tmp_path, 0.0)) == (ours,)
        assert not ours.exists()
        assert stock.exists()
        assert file.exists()
        assert asyncio.run(sockets.sweep(tmp_path, 0.0)) == ()
    assert asyncio.run(sockets.sweep(tmp_path / "absent", 0.0)) == ()


def test_the_sweep_leaves_a_socket_that_is_bound_and_about_to_listen(tmp_path: Path) -> None:
    path = tmp_path / "nvidia-gpu-01234567.sock"

    async def sweep_while_it_begins(starting: socket.socket) -> tuple[Path, ...]:
        sweeping = asyncio.create_task(sockets.sweep(tmp_path, 0.01))
        await asyncio.sleep(0)
        starting.listen()
        return await sweeping

    with contextlib.closing(socket.socket(socket.AF_UNIX)) as starting:
        starting.bind(str(path))
        assert asyncio.run(sweep_while_it_begins(starting)) == ()
    assert path.exists()


def test_rivals_come_and_go_by_name_and_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "_YOUNG", 0.0)
    looking = rivals.Rivals(tmp_path, "nvidia.com/gpu")
    own = tmp_path / "nvidia-gpu-00000000.sock"
    dead(tmp_path / "nvidia-gpu-33333333.sock")
    with (
        listening(own),
        listening(tmp_path / "nvidia-mig-1g-10gb-11111111.sock"),
        listening(tmp_path / "kubelet.sock"),
        listening(tmp_path / "intel.sock"),
    ):
        assert looking.look(own) == {}
        assert looking.present == {}
        second = tmp_path / "nvidia-gpu-22222222.sock"
        with listening(second), listening(tmp_path / "nvidiaGPU-1.sock"):
            assert looking.look(own) == {}
            assert {path.name for path in looking.present} == {second.name, "nvidiaGPU-1.sock"}
            assert looking.look(own) == {}
        words = f"{second.name} (pid {os.getpid()}, {Path('/proc/self/comm').read_text().strip()})"
        assert looking.look(own)[second] == words
        assert looking.present == {}
        assert looking.look(own) == {}


def test_a_rival_counts_from_when_its_socket_is_made_and_is_gone_when_it_stops_to_listen(tmp_path: Path) -> None:
    looking = rivals.Rivals(tmp_path, "nvidia.com/gpu")
    path = tmp_path / "nvidia-gpu-11111111.sock"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as starting:
        starting.bind(str(path))
        looking.look(None)
        assert path in looking.present
        starting.listen()
        assert looking.look(None) == {}
    assert path in looking.look(None)
    assert looking.present == {}
    path.unlink()
    assert rivals._just_made(path) is False


def test_neighbours_are_of_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(tmp_path / "kubelet.sock"), listening(tmp_path / "other.sock"):
        assert rivals.neighbours(tmp_path, "kubelet.sock") == ()
        pid = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: pid + 1)
        [named] = rivals.neighbours(tmp_path, "kubelet.sock")
        assert named.startswith(f"other.sock (pid {pid}, ")
    assert rivals.neighbours(tmp_path / "absent", None) == ()


def test_processes_that_cannot_be_seen_are_said_so(tmp_path: Path) -> None:
    assert rivals._process(0) == "a process of another container"
    assert rivals._process(2**22 + 1) == f"pid {2**22 + 1}"
    with listening(tmp_path / "busy.sock", 0), contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
        client.connect(str(tmp_path / "busy.sock"))
        assert rivals._listener(tmp_path / "busy.sock") == 0
