"""The orders that `fake_nvml.control` takes: name, what it says, its arguments, what it does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pynvml

from fake_nvml.card import EVENTS
from fake_nvml.fabric import HEALTH_BITS
from fake_nvml.problem import Refused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from fake_nvml import Fake

ACTIONS = {
    "none": 0,
    "gpu-reset": 1,
    "node-reboot": 2,
    "drain-p2p": 3,
    "drain-and-reset": 4,
    "recover-imex": 5,
    "bus-reset": 6,
    "system-reboot": 7,
}
GPU = ("gpu", {"help": "number in PCI order, or uuid"})
FORCE = ("--force", {"action": "store_true", "help": "also while a process holds the driver open"})
GI, CI = ("--gi", {"type": int, "help": "GPU instance"}), ("--ci", {"type": int, "help": "compute instance"})
Argument = tuple[str, dict[str, Any]]
Command = tuple[str, tuple[Argument, ...], "Callable[[Fake, argparse.Namespace], None]"]


def _number(text: str) -> int:
    return int(text, 0)


def _code(text: str) -> int:
    found = getattr(pynvml, f"NVML_ERROR_{text.upper()}", None)
    return found if isinstance(found, int) else int(text)


def _named(table: dict[str, int]) -> Callable[[str], int]:
    def value(text: str) -> int:
        return table[text] if text in table else int(text, 0)

    value.__name__ = f"one of {', '.join(table)}"
    return value


def _layout(text: str) -> list[str] | None:
    return None if text == "off" else [item for item in text.split(",") if item]


def _load(fake: Fake, a: argparse.Namespace) -> None:
    fake.load(None if a.gpu == "all" else _gpu(fake, a.gpu), a.load, a.memory, throttle=a.throttle)


def _remap(fake: Fake, a: argparse.Namespace) -> None:
    fake.remap(_gpu(fake, a.gpu), a.state, correctable=a.correctable, uncorrectable=a.uncorrectable)


def _fabric(fake: Fake, a: argparse.Namespace) -> None:
    health = [] if a.health is None else a.health.split(",")
    if unknown := sorted(set(health) - set(HEALTH_BITS)):
        raise Refused(f"health {unknown[0]!r} is none of {', '.join(HEALTH_BITS)}")
    more = {"status": a.status, "clique": a.clique, "cluster": a.cluster, "health": health}
    fake.fabric(_gpu(fake, a.gpu), a.state, **more)


def _fault(fake: Fake, a: argparse.Namespace) -> None:
    more = {"value": json.loads(a.value)} if a.value is not None else {}
    gpu = None if a.gpu is None else _gpu(fake, a.gpu)
    rest = {"delay": a.delay, "hang": a.hang, "after": a.after, "times": a.times}
    fake.fault(a.call, gpu=gpu, code=a.code, **rest, **more)


COMMANDS: dict[str, Command] = {
    "xid": (
        "raise an Xid",
        (
            GPU,
            ("xid", {"type": int}),
            GI,
            CI,
            ("--bare", {"action": "store_true", "help": "leave the recovery action alone"}),
        ),
        lambda fake, a: fake.xid(_gpu(fake, a.gpu), a.xid, gi=a.gi, ci=a.ci, effects=not a.bare),
    ),
    "event": (
        "send any event",
        (
            GPU,
            ("kind", {"type": _named(EVENTS), "help": ", ".join(EVENTS)}),
            ("data", {"type": int, "nargs": "?", "default": 0}),
        ),
        lambda fake, a: fake.event(_gpu(fake, a.gpu), a.kind, a.data),
    ),
    "lose": (
        "let a GPU fall off the bus",
        (GPU, ("--silent", {"action": "store_true", "help": "without Xid 79"})),
        lambda fake, a: fake.lose(_gpu(fake, a.gpu), silent=a.silent),
    ),
    "back": ("let a lost GPU answer again", (GPU,), lambda fake, a: fake.back(_gpu(fake, a.gpu))),
    "unplug": ("take a GPU out", (GPU,), lambda fake, a: fake.unplug(_gpu(fake, a.gpu))),
    "plug": ("put an unplugged GPU in again", (GPU,), lambda fake, a: fake.plug(_gpu(fake, a.gpu))),
    "reset": ("reset a GPU", (GPU, FORCE), lambda fake, a: fake.reset(_gpu(fake, a.gpu), force=a.force)),
    "mig": (
        "cut a GPU into instances",
        (
            GPU,
            ("layout", {"type": _layout, "help": "3g.40gb,2g.20gb,1c.3g.40gb,3g.40gb/1c/2c; '' for none; off"}),
            FORCE,
            ("--pending", {"action": "store_true", "help": "only the mode after the next reset"}),
        ),
        lambda fake, a: fake.mig(_gpu(fake, a.gpu), a.layout, force=a.force, pending=a.pending),
    ),
    "ecc": (
        "count ECC errors",
        (
            GPU,
            ("kind", {"nargs": "?", "default": "uncorrected", "choices": ("corrected", "uncorrected")}),
            ("count", {"type": int, "nargs": "?", "default": 1}),
        ),
        lambda fake, a: fake.ecc(_gpu(fake, a.gpu), a.kind, a.count),
    ),
    "remap": (
        "set the state of row remapping",
        (
            GPU,
            ("state", {"choices": ("none", "pending", "failure")}),
            ("--correctable", {"type": int, "help": "rows"}),
            ("--uncorrectable", {"type": int, "help": "rows"}),
        ),
        _remap,
    ),
    "retire": (
        "set the state of page retirement",
        (GPU, ("state", {"choices": ("none", "pending")}), ("--single", {"type": int}), ("--double", {"type": int})),
        lambda fake, a: fake.retire(_gpu(fake, a.gpu), a.state, single=a.single, double=a.double),
    ),
    "recovery": (
        "change the recovery action",
        (GPU, ("action", {"type": _named(ACTIONS), "help": ", ".join(ACTIONS)})),
        lambda fake, a: fake.recovery(_gpu(fake, a.gpu), a.action),
    ),
    "fabric": (
        "change what the fabric manager says of a GPU",
        (
            GPU,
            ("state", {"choices": ("not-supported", "not-started", "in-progress", "completed")}),
            ("--status", {"type": _code, "default": 0, "help": "NVML code"}),
            ("--clique", {"type": int}),
            ("--cluster", {"help": "32 hex digits"}),
            ("--health", {"help": ",".join(HEALTH_BITS)}),
        ),
        _fabric,
    ),
    "link": (
        "let an NVLink go down or come up",
        (GPU, ("link", {"help": "number, or all"}), ("state", {"choices": ("up", "down")})),
        lambda fake, a: fake.link(_gpu(fake, a.gpu), a.link if a.link == "all" else int(a.link), up=a.state == "up"),
    ),
    "load": (
        "set how busy a GPU is",
        (
            ("gpu", {"help": "number, uuid, or all"}),
            ("load", {"type": float, "help": "0 to 1"}),
            ("--memory", {"type": float, "help": "how full its memory is, 0 to 1; default as busy"}),
            ("--throttle", {"type": _number, "help": "mask of nvmlClocksThrottleReason*"}),
        ),
        _load,
    ),
    "process": (
        "list a process on a GPU",
        (GPU, ("pid", {"type": int}), ("memory", {"help": "MiB, or gone"}), GI, CI),
        lambda fake, a: fake.process(
            _gpu(fake, a.gpu), a.pid, None if a.memory == "gone" else int(a.memory), gi=a.gi, ci=a.ci
        ),
    ),
    "swap": (
        "let two GPUs change places in the index order",
        (GPU, ("other", {"help": "the other one"})),
        lambda fake, a: fake.swap(_gpu(fake, a.gpu), _gpu(fake, a.other)),
    ),
    "fault": (
        "lay a fault on calls",
        (
            ("call", {"help": "name, pattern (nvmlDeviceGet*), or field:<id>"}),
            ("--gpu", {"help": "only on this GPU"}),
            ("--code", {"type": _code, "help": "NVML code, by number or name (NOT_SUPPORTED)"}),
            ("--value", {"help": "JSON to answer instead"}),
            ("--delay", {"type": float, "default": 0.0, "help": "seconds"}),
            ("--hang", {"action": "store_true", "help": "until release"}),
            ("--after", {"type": int, "default": 0, "help": "calls that still go through"}),
            ("--times", {"type": int, "help": "calls it hits"}),
        ),
        _fault,
    ),
    "hang": (
        "let calls hang until release",
        (("call", {"nargs": "?", "default": "nvml*"}), ("--gpu", {"help": "only on this GPU"})),
        lambda fake, a: fake.hang(a.call, gpu=None if a.gpu is None else _gpu(fake, a.gpu)),
    ),
    "release": (
        "let hanging calls go on",
        (("call", {"nargs": "?", "default": "*"}),),
        lambda fake, a: fake.release(a.call),
    ),
    "clear": ("take every fault away", (), lambda fake, _a: fake.clear()),
    "driver": (
        "change the driver",
        (
            ("state", {"choices": ("absent", "unloaded", "present", "mismatch", "old", "version")}),
            ("version", {"nargs": "?", "help": "as 595.45.04"}),
            FORCE,
        ),
        lambda fake, a: fake.driver(a.state, a.version, force=a.force),
    ),
}


def _gpu(fake: Fake, text: str) -> int:
    if text in fake.uuids():
        return fake.uuids().index(text)
    if text.isdigit():
        return int(text)
    raise Refused(f"{text!r} is no GPU; give a number from 0 to {len(fake.uuids()) - 1} or a uuid")
