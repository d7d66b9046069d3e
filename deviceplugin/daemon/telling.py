"""Log lines about what is offered and what changed: each fact once, when it becomes true."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from deviceplugin.config.load import Loaded
from deviceplugin.daemon.world import News
from deviceplugin.model.health import Transition, Verdict
from deviceplugin.model.inventory import Inventory
from deviceplugin.model.node import LEFT_OUT, DriverState, Node, Problem
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.nvml.codes import Code
from deviceplugin.nvml.codes import name as code_name
from deviceplugin.nvml.events import EventStatus, WatchState
from deviceplugin.rules.judge import in_force
from deviceplugin.rules.retain import devices
from deviceplugin.web.advice import advise

log = logging.getLogger("deviceplugin.daemon")

_MOVED = ("nvmlDeviceGetHandleByIndex", 0)
"""Query and code of the note that a card has another index than before."""
_QUIET = {
    DriverState.READY: "the driver is ready",
    DriverState.NO_HARDWARE: "this node has no GPU: idle, and looking again from time to time",
    DriverState.RELEASED: "the driver is released",
}


def configuration(loaded: Loaded) -> None:
    """The configuration in force, its warnings, and which Xids count how."""
    log.info("configuration in force", extra={"source": loaded.stamp.source, "hash": loaded.stamp.hash})
    for warning in loaded.warnings:
        log.warning("configuration: %s", warning)
    table = "; ".join(f"{name} {', '.join(map(str, xids))}" for name, xids in in_force(loaded.config.health).items())
    log.info("Xids in force: %s; any other: %s", table, loaded.config.health.unknown_xid)


def news(news: News) -> None:
    """Changes of health, one line each, and what concerns no single device."""
    for transition in news.transitions:
        _transition(transition)
    for note in news.notes:
        log.log(logging.INFO if note.endswith("again") else logging.WARNING, "%s", note)


def _transition(one: Transition) -> None:
    well = one.to is Verdict.HEALTHY
    facts = {
        "uuid": one.uuid,
        "pci": one.pci,
        "reason": one.reason,
        "rule": one.rule,
        "kind": one.kind,
        **({"xid": one.xid} if one.xid is not None else {}),
        **({} if one.over else {"todo": advise(one.reason)}),
    }
    part = "a MIG instance of " if one.uuid.startswith("MIG-") else ""
    level = logging.INFO if well else logging.WARNING
    log.log(level, "%sGPU %d is %s: %s", part, one.gpu_index, one.to, one.detail, extra=facts)


def snapshot(before: Snapshot, now: Snapshot) -> None:
    """What differs between two snapshots apart from health."""
    _driver(before.node, now.node)
    _problems(before.node, now.node)
    if now.inventory is not before.inventory:
        _inventory(before, now)
    if now.inventory.handover.by_index:
        _order(before.node, now.node)


def _driver(before: Node, now: Node) -> None:
    if _plight(before) == _plight(now):
        return
    facts = {"state": now.state, **({"driver": now.driver_version} if now.driver_version else {})}
    detail = f" ({now.detail})" if now.detail else ""
    if now.state in _QUIET:
        log.info("%s%s", _QUIET[now.state], detail, extra=facts)
    else:
        log.warning("the driver cannot be used, looking again: %s", now.detail, extra=facts)


def _plight(node: Node) -> tuple[DriverState, object]:
    """What makes a line of its own: a driver that fails at another call with the same code fails as before."""
    ready = node.state is DriverState.READY or not node.problems
    return node.state, node.detail if ready else node.problems[0].code


def _problems(before: Node, now: Node) -> None:
    """What queries answered, once for each device and query; a driver that is away has its own line."""
    if now.state is not DriverState.READY:
        return
    known = {(problem.subject, problem.query, problem.code) for problem in before.problems}
    for problem in now.problems:
        if (problem.subject, problem.query, problem.code) not in known and (problem.query, problem.code) != _MOVED:
            _problem(problem, now)
    places = {gpu.uuid: gpu.index for gpu in before.gpus}
    # A lost card has no index of the driver's, only a place behind the others.
    moved = [
        f"{g.uuid} {places[g.uuid]} -> {g.index}"
        for g in now.gpus
        if places.get(g.uuid, g.index) != g.index and not g.lost
    ]
    if moved:
        log.info(
            "the driver numbers its GPUs anew; they are told apart by UUID, so nothing moves but what the "
            "configuration names by index: %s",
            ", ".join(moved),
        )


def _problem(problem: Problem, node: Node) -> None:
    answered = f"{problem.query} answered {code_name(problem.code)}"
    facts = {"device": problem.subject or "node", "query": problem.query, "code": problem.code}
    place = problem.subject.removeprefix("index ")
    if problem.query == LEFT_OUT and place == problem.subject:
        return  # What hangs is unhealthy, and has a line of its own.
    if problem.detail:
        log.warning("%s: %s", problem.subject or "the driver", problem.detail, extra=facts)
    elif place != problem.subject:
        if place not in {str(gpu.index) for gpu in node.gpus}:
            log.warning(
                "the GPU at index %s does not say who it is and is not offered: %s; look in the kernel log, then reset "
                "the GPU or reboot the node",
                place,
                answered,
                extra=facts,
            )
    elif problem.code != Code.GPU_IS_LOST:  # What is lost has a line of its own.
        log.info("a query failed; the fact is unknown, the device is served: %s", answered, extra=facts)


def events(before: EventStatus, now: EventStatus) -> None:
    """Whether Xids are heard, when that changes."""
    troubled = {WatchState.RETRYING, WatchState.FAILED}
    if now.state is WatchState.RETRYING and before.state is not WatchState.FAILED:
        log.info("waiting for Xid events failed, trying again: %s", now.detail)
    elif now.state is WatchState.UNSUPPORTED:
        log.warning("no GPU here has Xid events: health is judged by the states alone")
    elif now.state is WatchState.WATCHING and before.state in troubled:
        log.info("Xid events are heard again")
    if now.state is WatchState.WATCHING:
        for uuid in (u for u in now.refused if u not in before.refused and now.refused[u].code != Code.GPU_IS_LOST):
            log.warning(
                "no Xid events of this GPU, it is judged by its states alone: %s",
                now.refused[uuid],
                extra={"uuid": uuid},
            )


def _order(before: Node, now: Node) -> None:
    """Indices that mean another card than before, which containers were given under deviceIDStrategy index."""
    known = {gpu.uuid: gpu.index for gpu in before.gpus}
    for gpu in now.gpus:
        if known.get(gpu.uuid, gpu.index) != gpu.index and not gpu.lost:
            log.warning(
                "GPU %d was GPU %d before: under deviceIDStrategy index a container that starts again may get another "
                "GPU; set flags.plugin.deviceIDStrategy to uuid, which never changes",
                gpu.index,
                known[gpu.uuid],
                extra={"uuid": gpu.uuid, "pci": gpu.pci},
            )


def _inventory(before: Snapshot, now: Snapshot) -> None:
    old, new = before.inventory, now.inventory
    places, known = _places(new, now.node), _places(old, before.node)
    for gpu in now.node.gpus:
        if places[gpu.uuid] != known.get(gpu.uuid):
            log.info(
                "GPU %d goes to %s",
                gpu.index,
                ", ".join(name if n == 1 else f"{name} x{n}" for name, n in places[gpu.uuid].items()) or "nothing",
                extra={"uuid": gpu.uuid, "pci": gpu.pci, "model": gpu.name, "numa": gpu.numa},
            )
    for gpu in before.node.gpus:
        if gpu.uuid not in places:
            log.warning("GPU %d is gone", gpu.index, extra={"uuid": gpu.uuid, "pci": gpu.pci})
    for name in sorted(old.resources.keys() | new.resources.keys()):
        counts = [sum(card.get(name, 0) for card in cards.values()) for cards in (known, places)]
        if counts[0] != counts[1]:
            log.info("%s: %d offered%s", name, counts[1], f", {counts[0]} before" if counts[0] else "")
    if new.state != old.state:
        log.log(logging.WARNING if not new.resources else logging.INFO, "node state: %s", new.state)
    _new_sentences("not offered: ", (f"{o.detail} [{o.reason}]" for o in old.left_out), _left_out(new))
    _new_sentences("", old.warnings + old.conflicts, new.warnings + new.conflicts)
    _new_sentences("topology: ", old.closeness.warnings, new.closeness.warnings)


def _left_out(inventory: Inventory) -> Iterable[str]:
    return (f"{out.detail} [{out.reason}]" for out in inventory.left_out)


def _new_sentences(about: str, before: Iterable[str], now: Iterable[str]) -> None:
    known = set(before)
    for sentence in now:
        if sentence not in known:
            log.warning("%s%s", about, sentence)


def _places(inventory: Inventory, node: Node) -> dict[str, dict[str, int]]:
    """Where each card went: its resources with counts, none where it is left out.

    What has vanished is listed for a grace time, and not counted: it is not there.
    """
    placed: dict[str, dict[str, int]] = {gpu.uuid: {} for gpu in node.gpus}
    present = devices(node)
    for name, resource in inventory.resources.items():
        for share in resource.shares:
            if share.device in present and share.gpu in placed:
                counts = placed[share.gpu]
                counts[name] = counts.get(name, 0) + 1
    return placed
