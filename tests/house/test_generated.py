"""Generated code is what protos/generate.sh makes with the pinned grpcio-tools, to the byte."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIRE = Path("deviceplugin/kubelet/wire")
GENERATED = sorted(path.name for path in (ROOT / WIRE).glob("*_pb2*"))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    environment = os.environ | {"PYTHON": sys.executable}
    subprocess.run([ROOT / "protos/generate.sh", folder], check=True, env=environment, timeout=60)
    return folder / WIRE


def test_three_definitions_give_three_kinds_of_file_each(fresh: Path) -> None:
    assert sorted(path.name for path in fresh.iterdir()) == GENERATED
    assert len(GENERATED) == 9


@pytest.mark.parametrize("name", GENERATED)
def test_generated_code_is_fresh(fresh: Path, name: str) -> None:
    assert (fresh / name).read_text() == (ROOT / WIRE / name).read_text()
