"""docs/faults.md says of each known kind of fault what must happen, and which tests prove it.

A test names the faults it is about by their codes: `test_H1_...`, or `test_M1_M2_...` for two. To renew the document:
`python -m tests.house.test_fault_docs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs" / "faults.md"
_NAME = re.compile(r"def test_((?:[A-Z][0-9]+_)+)(\w+)")

SECTIONS: Mapping[str, tuple[str, Mapping[int, str]]] = {
    "H": (
        "Health",
        {
            1: "An event of a whole card takes out all its shares and MIG instances, of an instance only that.",
            2: "A sick GPU comes back on evidence that fits its fault, after a quiet time, and that is announced.",
            3: "What is wrong at start is in the first list; restarts of plugin or kubelet wash nothing.",
            4: "Which Xids count is configured, shown, and changed while the plugin runs.",
            5: "ECC, remap, recovery, fabric and link states count by a policy each.",
            6: "Every change of health is one log line, one metric and one line of the status page, with its reason.",
            7: "A source that fails again and again costs neither CPU nor log; it is said who is at fault.",
            8: "Health that cannot be checked is said, counted and tried again; a policy decides what holds meanwhile.",
            9: "What cannot be told makes no GPU bad and none good.",
            10: "A cordon in the configuration takes a GPU out and back; a real fault outlives it.",
            11: "Failures can be rehearsed by a file, if one is named.",
        },
    ),
    "R": (
        "Registration and the kubelet",
        {
            1: "A stream that the kubelet ends is followed by a registration within seconds, with growing pauses.",
            2: "However often the kubelet's socket or folder is made anew, there is one live stream in the end.",
            3: "A registration that brings no stream is repeated.",
            4: "A stream that fails ends alone; the next one begins with the whole list.",
            5: "All streams see the newest whole list, and a slow one holds up nobody.",
            6: "A hundred streams leave no task, thread, file or memory behind.",
            7: "Two processes at once harm each other in nothing; a rival that keeps taking the resource is named.",
            8: "Without inotify the sockets are polled, which is said once.",
            9: "A kubelet that is absent, silent or refusing has a line of its own and is tried without haste.",
            10: "A change that leaves a resource as it was leaves its stream and ids as they were.",
            11: "A resource that becomes empty sends an empty list before it goes.",
            12: "A list too large for the kubelet is refused with the number that fits.",
            13: "The kubelet's folder is a setting, and the paths tried are said.",
            14: "Liveness asks the plugin's loops and sockets, readiness kubelet and driver; none restarts a good one.",
        },
    ),
    "E": (
        "Finding GPUs",
        {
            1: "What comes late is found without restart; no hardware, no driver and a failing one are told apart.",
            2: "A driver upgraded underneath is loaded by a fresh process that registers at once; nothing loops.",
            3: "A query that fails or answers nonsense costs its fact, not the GPU.",
            4: "GPUs and MIG instances that come and go are found; what vanished is Unhealthy before it is dropped.",
            5: "A MIG layout that cannot be served is a named state, and what can be served is.",
            6: "GPUs are chosen or left out by UUID, index, PCI id or product; labels and metrics agree.",
            7: "Several models go to resources by pattern, and one line per GPU says where.",
            8: "Devices are known by UUID, whatever index, position or minor number they have.",
        },
    ),
    "P": (
        "Preferred allocation",
        {
            1: "Answers come from memory, whatever the driver does; an unreadable link is unknown.",
            2: "Links are read once per scan, never in a call.",
            3: "Odd requests get a right answer or a clear refusal, never a padded or short list.",
            4: "A request for one GPU breaks up no linked pair while a single one is free.",
            5: "Work grows with the kinds of device, not with their number.",
            6: "Links behind switches are found; where they cannot be read that is said, and NUMA and PCI decide.",
            7: "Shares of one pod are spread or packed by the policy of their resource.",
        },
    ),
    "S": (
        "Sharing and Allocate",
        {
            1: "Renaming, choosing devices and patterns of resources take effect.",
            2: "Replica counts may differ by device; a device named twice is an error.",
            3: "Requests for several shares can be refused, and the refusal names the key.",
            4: "Shares of one GPU in one container name it once, in a stable order.",
            5: "Two resources in one container add up.",
            6: "What MPS lacks is named; nothing stale counts as ready.",
            7: "Memory limits and thread percentages of MPS can be set, and one share is allowed.",
            8: "Optional device nodes are looked up at Allocate, under the host's /dev.",
            9: "A MIG device without its capability nodes is not offered, and the missing path is named.",
            10: "CDI files are whole, current and valid, and stay at exit.",
            11: "Which strategies an image can get round is said at start.",
        },
    ),
    "C": (
        "Configuration",
        {
            1: "A changed file is noticed by its content and checked first; a bad one changes nothing.",
            2: "Requests to load during the start lead to one start with the newest configuration.",
            3: "An unknown key is an error with its place and the nearest known key.",
            4: "Source and hash of the configuration in force are shown, and a dry run tells what it would offer.",
        },
    ),
    "M": (
        "Metrics",
        {
            1: "Pods of shared and MIG devices have their labels, one series each, gone with the pod.",
            2: "A scrape never waits for the driver, and the age of the figures is one of them.",
            3: "Neither scrapes nor reconnects make memory grow.",
        },
    ),
    "L": (
        "Labels",
        {
            1: "Labels are the same after a restart, and mixed nodes have a stated rule.",
            2: "Labels of other owners are left alone.",
        },
    ),
    "D": (
        "Deployment",
        {
            1: "The DaemonSet runs anywhere and idles quietly without GPUs.",
            2: "It has no privilege that its strategy does not need.",
            3: "Its limits come from measured use.",
        },
    ),
}


class Proof(NamedTuple):
    """A test that names a code."""

    file: str
    sentence: str


def codes() -> Iterator[str]:
    for letter, (_, demands) in SECTIONS.items():
        yield from (f"{letter}{number}" for number in demands)


def proofs() -> dict[str, list[Proof]]:
    found: dict[str, list[Proof]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for named, words in _NAME.findall(path.read_text()):
            proof = Proof(str(path.relative_to(TESTS.parent)), words.replace("_", " "))
            for code in named.strip("_").split("_"):
                found.setdefault(code, []).append(proof)
    return found


def as_markdown() -> str:
    proven = proofs()
    parts = [
        "# Faults\n\nWhat breaks GPU device plugins in the field: what must happen, and the tests that prove it.\n"
    ]
    for letter, (title, demands) in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| | what must happen | tests |\n|---|---|---|\n")
        for number, demand in demands.items():
            tests = "<br>".join(f"{one.sentence} (`{one.file}`)" for one in proven.get(f"{letter}{number}", []))
            parts.append(f"| {letter}{number} | {demand} | {tests} |\n")
    return "".join(parts)


def test_every_fault_has_a_test_that_names_it() -> None:
    assert sorted(set(codes()) - proofs().keys()) == []


def test_no_test_names_a_fault_that_is_not_in_the_table() -> None:
    assert sorted(proofs().keys() - set(codes())) == []


def test_the_document_is_that_of_the_tests() -> None:
    assert DOCS.read_text() == as_markdown(), "run: python -m tests.house.test_fault_docs"


if __name__ == "__main__":
    DOCS.write_text(as_markdown())
