"""`allocate` and `topology` as people and scripts use them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deviceplugin.cli import main
from deviceplugin.cli.allocate import as_text
from deviceplugin.rules.prefer.explain import explain
from tests.strategies.fabrics import ROOT, closeness, whole_cards

PAIRS = str(ROOT / "tests" / "machines" / "h100-nvl-8-pairs.topo")

Capture = pytest.CaptureFixture[str]


def printed(capsys: Capture, *words: str) -> str:
    assert main(words) == 0
    out, error = capsys.readouterr()
    assert error == ""
    return out


def as_json(capsys: Capture, *words: str) -> Any:
    return json.loads(printed(capsys, *words, "--json"))


def test_json_has_the_set_and_what_it_is_made_of(capsys: Capture) -> None:
    answer = as_json(capsys, "allocate", "--driver", "fake:hgx-h100-8", "--size", "4")
    ids = answer.pop("ids")
    assert len(ids) == len({*ids}) == 4
    assert all(name.startswith("GPU-") for name in ids)
    assert answer == {
        "indices": [0, 1, 2, 3],
        "domains": 1,
        "min_nvlink": 18,
        "sum_nvlink": 108,
        "numa_nodes": 1,
        "sum_pcie": 12,
        "exact": True,
        "decided_by": "lowest indices",
    }


def test_lists_name_what_is_free_and_what_must_be_in(capsys: Capture) -> None:
    words = ("allocate", "--topo", PAIRS, "--available", "0,2,5-7", "--include", "0")
    assert as_json(capsys, *words, "--size", "1")["indices"] == [0]
    assert as_json(capsys, *words, "--size", "3")["indices"] == [0, 6, 7]


def test_a_topology_text_comes_by_standard_input_too(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(Path(PAIRS).read_text()))
    assert as_json(capsys, "allocate", "--topo", "-", "--size", "2")["min_nvlink"] == 12


def test_text_says_criterion_by_criterion_why_it_beat_the_runner_up(capsys: Capture) -> None:
    text = printed(capsys, "allocate", "--topo", PAIRS, "--size", "1", "--available", "0-6")
    assert text.startswith("nvidia.com/gpu, 1 of 8: GPU 6\n  GPU 6  GPU-")
    assert " ".join(text.split()).endswith("largest blocks left in NVLink domains 2 2 2 0 2 2 1 1 <- decides")
    assert "runner-up: GPU 4" in text


def test_text_of_the_only_choice_says_so(capsys: Capture) -> None:
    text = printed(capsys, "allocate", "--topo", PAIRS, "--size", "8")
    assert text.endswith("\ndecided by the only choice\n")


def test_a_search_that_was_bounded_is_owned_up_to() -> None:
    snapshot, resource = whole_cards(closeness(3, lambda a, b: 1))
    found = explain(snapshot, resource, [share.id for share in resource.shares], [], 2)
    bounded = replace(found, preference=replace(found.preference, exact=False))
    assert list(as_text(resource, bounded))[-1] == "  the search was bounded: a better set may exist"


@pytest.mark.parametrize(
    ("policy", "criterion"),
    [("distributed", "most even load"), ("packed", "fewest holders opened"), ("spread", "most holders")],
)
def test_shares_are_explained_by_their_policy(capsys: Capture, tmp_path: Path, policy: str, criterion: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
        f"    - {{name: nvidia.com/gpu, replicas: 4, allocationPolicy: {policy}}}\n"
    )
    words = ("--driver", "fake:hgx-h100-8", "--config-file", str(config))
    text = printed(capsys, "allocate", *words, "--size", "3")
    assert text.startswith("nvidia.com/gpu, 3 of 32: GPU ")
    assert text.count("::") == 3
    assert criterion in text
    assert text.splitlines()[-1].endswith("<- decides")


def test_mig_instances_are_asked_for_by_resource(capsys: Capture) -> None:
    words = ("allocate", "--driver", "fake:hgx-h100-8-partial-mig", "--mig-strategy", "mixed")
    assert as_json(capsys, *words, "--size", "2")["indices"] == [2, 3]
    answer = as_json(capsys, *words, "--size", "2", "--resource", "nvidia.com/mig-1g.10gb", "--available", "0:1,0:2")
    assert answer["indices"] == [0]
    again = ("--resource", "nvidia.com/mig-1g.10gb", "--available", answer["ids"][1])
    assert as_json(capsys, *words, "--size", "1", *again)["ids"] == answer["ids"][1:]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--driver", "fake:hgx-h100-8", "--size", "9"], 1, "9 devices asked for, 8 available"),
        (["--driver", "fake:hgx-h100-8", "--size", "0"], 1, "0 devices asked for"),
        (["--driver", "fake:hgx-h100-8", "--size", "1", "--include", "1,2"], 1, "2 must-include ids for a size of 1"),
        (
            ["--driver", "fake:hgx-h100-8", "--size", "1", "--available", "11"],
            2,
            "--available 11: nvidia.com/gpu has no",
        ),
        (["--driver", "fake:hgx-h100-8", "--size", "1", "--available", "x-y"], 2, "its GPUs are 0 1 2 3 4 5 6 7"),
        (
            ["--driver", "fake:hgx-h100-8", "--size", "1", "--available", "0,7-5"],
            2,
            "--available 7-5: a range goes from the lower index to the higher: 5-7",
        ),
        (["--driver", "fake:hgx-h100-8", "--size", "1", "--include", "3-2"], 2, "--include 3-2: a range goes from"),
        (["--driver", "fake:hgx-h100-8", "--size", "1", "--resource", "a/b"], 2, "--resource a/b: not offered"),
        (["--driver", "fake:none", "--size", "1"], 1, "this node offers nothing (driver no-hardware"),
        (["--topo", "/nowhere/box.topo", "--size", "1"], 2, "--topo /nowhere/box.topo: No such file"),
        (["--topo", __file__, "--size", "1"], 2, "no header line that names GPU0"),
        (["--topo", "/bin/true", "--size", "1"], 2, "--topo /bin/true: not a text file"),
    ],
)
def test_what_cannot_be_answered_is_one_line_and_an_exit_code(
    capsys: Capture, words: list[str], code: int, message: str
) -> None:
    assert main(["allocate", *words]) == code
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error


@pytest.mark.parametrize("command", [["topology"], ["allocate", "--size", "1"]])
@pytest.mark.parametrize("place", ["-", "box.topo"])
def test_a_text_that_is_no_topology_is_named_as_it_was_given(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("box.topo").write_text("a note\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("a note\n"))
    assert main([*command, "--topo", place]) == 2
    assert capsys.readouterr().err == (
        f"error: --topo {place}: line 1, column 1: no header line that names GPU0; "
        "is this the output of `nvidia-smi topo -m`?\n"
    )


def test_topology_is_a_matrix_with_domain_numa_and_health(capsys: Capture) -> None:
    lines = printed(capsys, "topology", "--driver", "fake:a100-pcie-4-bridges").splitlines()
    assert lines[0].split() == ["GPU0", "GPU1", "GPU2", "GPU3", "domain", "NUMA", "health"]
    assert lines[3].split() == ["GPU2", "SYS", "SYS", "X", "NV12", "1", "2", "healthy"]
    assert [line.partition("=")[0].strip() for line in lines[6:]] == ["X", "NV#", "SYS"]


def test_topology_says_what_the_driver_does_not(capsys: Capture) -> None:
    text = printed(capsys, "topology", "--topo", str(ROOT / "tests" / "machines" / "dgx1-v100-a.topo"))
    assert text.splitlines()[1].split()[-2:] == ["?", "healthy"]
    assert printed(capsys, "topology", "--driver", "fake:none").startswith("no GPUs (driver no-hardware: ")


def test_topology_as_json_has_the_matrices(capsys: Capture) -> None:
    document = as_json(capsys, "topology", "--driver", "fake:h100-nvl-8-pairs")
    assert document["nvlink"][0] == [0, 12, 0, 0, 0, 0, 0, 0]
    assert document["pcie"][0][4] == 1
    assert [gpu["domain"] for gpu in document["gpus"]] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {gpu["health"] for gpu in document["gpus"]} == {"healthy"}
    assert document["warnings"] == []


def test_a_picture_goes_to_a_file_or_to_standard_output(capsys: Capture, tmp_path: Path) -> None:
    place = tmp_path / "box.svg"
    assert printed(capsys, "topology", "--driver", "fake:hgx-h100-8", "--svg", str(place)) == ""
    assert place.read_text() == printed(capsys, "topology", "--driver", "fake:hgx-h100-8", "--svg", "-")
    assert main(["topology", "--driver", "fake:t4x1", "--svg", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"error: --svg {tmp_path}: Is a directory\n"
