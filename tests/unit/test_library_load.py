"""Finding libnvidia-ml.so.1: by a real loader, on files made for the purpose."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from deviceplugin.model.errors import NvmlError
from deviceplugin.nvml.library import FOLDERS, SONAME, load_library, open_driver

MACHINES = {"x86_64": 62, "aarch64": 183}


def empty_library(path: Path, soname: str) -> None:
    """Writes the smallest ELF shared object that a loader takes: a name and no symbols."""
    import platform

    head, program, dynamic = 64, 56, 16
    strings = b"\0" + soname.encode() + b"\0"
    table_at = head + 2 * program
    entries = 6
    strings_at = table_at + entries * dynamic
    symbols_at = (strings_at + len(strings) + 7) & ~7
    hash_at = symbols_at + 24
    size = hash_at + 16
    tags = [(14, 1), (5, strings_at), (10, len(strings)), (6, symbols_at), (4, hash_at), (0, 0)]
    elf = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 3, MACHINES[platform.machine()], 1, 0, head, 0, 0,
        head, program, 2, 0, 0, 0,
    )  # fmt: skip
    elf += struct.pack("<IIQQQQQQ", 1, 6, 0, 0, 0, size, size, 0x1000)
    elf += struct.pack("<IIQQQQQQ", 2, 6, table_at, table_at, table_at, entries * dynamic, entries * dynamic, 8)
    elf += b"".join(struct.pack("<QQ", *tag) for tag in tags) + strings
    elf = elf.ljust(symbols_at, b"\0") + bytes(24) + struct.pack("<IIII", 1, 1, 0, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(elf)


def in_fresh_process(code: str) -> str:
    """What a program prints: a loaded library cannot be unloaded, so each test has its own process."""
    program = f"from deviceplugin.nvml.library import load_library, open_driver\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


SPEAKS = """
import pynvml
assert api is pynvml
try:
    api.nvmlInit()
except pynvml.NVMLError as error:
    print(error.value, pynvml.nvmlLib is not None)
"""


def test_the_file_named_is_the_one_that_speaks(tmp_path: Path) -> None:
    library = tmp_path / "odd" / "libnvidia-ml.so.580.95.05"
    empty_library(library, SONAME)
    # FUNCTION_NOT_FOUND: the binding found this library by its bare name, and it is empty.
    assert in_fresh_process(f"api = load_library({str(library)!r})\n{SPEAKS}") == "13 True\n"


@pytest.mark.parametrize("folder", [FOLDERS[0], FOLDERS[1], FOLDERS[-2]])
def test_the_usual_folders_are_searched_below_the_driver_root(tmp_path: Path, folder: str) -> None:
    empty_library(tmp_path / folder / SONAME, SONAME)
    assert in_fresh_process(f"api = load_library('', {str(tmp_path)!r})\n{SPEAKS}") == "13 True\n"


def test_a_file_of_another_name_inside_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "libnvidia-ml.so.1"
    empty_library(library, "libother.so.1")
    code = f"""
from deviceplugin.model.errors import NvmlError
try:
    load_library({str(library)!r})
except NvmlError as error:
    print(error)
"""
    printed = in_fresh_process(code)
    assert str(library) in printed
    assert "cannot open shared object" in printed or "another libnvidia-ml.so.1 is loaded already" in printed


def test_a_second_library_cannot_replace_the_first(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / SONAME, tmp_path / "b" / SONAME
    empty_library(first, SONAME)
    empty_library(second, SONAME)
    code = f"""
from deviceplugin.model.errors import NvmlError
load_library({str(first)!r})
load_library({str(first)!r})
try:
    load_library({str(second)!r})
except NvmlError as error:
    print(error)
"""
    assert "another libnvidia-ml.so.1 is loaded already" in in_fresh_process(code)


def test_the_error_names_every_place_tried_and_the_remedy(tmp_path: Path) -> None:
    broken = tmp_path / FOLDERS[2] / SONAME
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"not a library")
    code = f"""
from deviceplugin.model.errors import NvmlError
import ctypes, os
plain = ctypes.CDLL
def without_system_library(name, *args, **kwargs):
    if name == "libnvidia-ml.so.1":
        raise OSError("libnvidia-ml.so.1: cannot open shared object file: No such file or directory")
    return plain(name, *args, **kwargs)
ctypes.CDLL = without_system_library
try:
    load_library('', {str(tmp_path)!r})
except NvmlError as error:
    print(error.code, error)
"""
    printed = in_fresh_process(code)
    assert printed.startswith(f"12 libnvidia-ml.so.1 cannot be loaded; {broken} (")
    for folder in FOLDERS:
        assert f"{tmp_path}/{folder}/{SONAME}" in printed
    assert str(broken) not in printed.partition("not there: ")[2]
    assert "the loader's own path; mount" in printed
    assert "--nvml-library" in printed
    assert "--container-driver-root" in printed
    assert printed.count("\n") == 1


def test_a_named_file_that_is_missing_is_not_replaced_by_another(tmp_path: Path) -> None:
    with pytest.raises(NvmlError, match=r"not there: \S*nothing; name another file by --nvml-library") as caught:
        load_library(str(tmp_path / "nothing"), str(tmp_path))
    assert caught.value.code == 12


def test_opening_a_driver_touches_nothing_until_it_is_used(tmp_path: Path) -> None:
    driver = open_driver(str(tmp_path / "nothing"), "/", str(tmp_path))
    assert driver.generation == 0
    node = driver.scan()
    assert "nothing; name another file" in node.detail
