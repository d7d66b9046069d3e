# ruff: noqa: INP001 - a script beside the Dockerfile, no package
"""Locks the image's wheels: versions of constraints.txt, hashes for amd64 and arm64.

    python daemonset/image/lock.py

Writes daemonset/requirements.lock (what the image holds) and daemonset/image/build.lock (what builds the project's own
wheel and stays out of it).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "daemonset" / "requirements.lock"
BUILD_LOCK = ROOT / "daemonset" / "image" / "build.lock"
PYTHON = "3.11"
MACHINES = ("x86_64", "aarch64")
GLIBC = ("2_28", "2_17")
"""Oldest that wheels of today ask for; Debian bookworm has 2.36."""

HEAD = f"# Made by daemonset/image/lock.py: Python {PYTHON}, linux/amd64 and linux/arm64.\n"


def platforms(machine: str) -> list[str]:
    """Options of pip for wheels of a machine."""
    names = [*(f"manylinux_{glibc}_{machine}" for glibc in GLIBC), f"manylinux2014_{machine}"]
    options = [word for name in names for word in ("--platform", name)]
    return [*options, "--implementation", "cp", "--python-version", PYTHON, "--only-binary", ":all:"]


def resolve(requirements: Sequence[str], machine: str) -> dict[str, str]:
    """`name==version` -> hash of the wheel that pip would take on that machine."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run(  # noqa: S603 - pip
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"),
                *("--target", folder, "--report", str(report), "-c", str(ROOT / "constraints.txt")),
                *platforms(machine),
                *requirements,
            ],
            check=True,
        )
        installed = json.loads(report.read_text())["install"]
    return {
        f"{item['metadata']['name']}=={item['metadata']['version']}": item["download_info"]["archive_info"]["hash"]
        for item in installed
    }


def lock(requirements: Sequence[str]) -> str:
    """The text of a lock file."""
    hashes: dict[str, set[str]] = {}
    for machine in MACHINES:
        for pinned, digest in resolve(requirements, machine).items():
            hashes.setdefault(pinned, set()).add(digest.replace("=", ":", 1))
    entries = (
        " \\\n".join((pinned, *(f"    --hash={digest}" for digest in sorted(hashes[pinned]))))
        for pinned in sorted(hashes, key=str.lower)
    )
    return HEAD + "\n".join(entries) + "\n"


def main() -> None:
    """Writes both."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["cluster"]
    LOCK.write_text(lock(runtime))
    BUILD_LOCK.write_text(lock(project["build-system"]["requires"]))


if __name__ == "__main__":
    main()
