"""The status document drawn for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

Json = Mapping[str, Any]

_STYLES = {"healthy": "green", "rank-last": "yellow", "unhealthy": "bold red"}
_UNKNOWN = "-"
_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_CHANGES = 6
_BAR = 6


def draw(document: Json) -> RenderableType:
    """Everything that the page shows, as far as a terminal can."""
    parts: list[RenderableType] = [_headline(document), *_notices(document)]
    if document["gpus"]:
        parts += [_gpus(document), *_left_out(document)]
    if document["resources"]:
        parts += [Text(), _resources(document["resources"])]
    if document["transitions"]:
        parts += [Text(), _changes(document["transitions"][:_CHANGES], document["now"])]
    return Group(*parts)


def silent(message: str) -> RenderableType:
    """What is shown while nobody answers."""
    return Panel(Text(message), title="no answer", border_style="red")


def _headline(document: Json) -> RenderableType:
    node, plugin, config, sample = (document[key] for key in ("node", "plugin", "config", "sample"))
    ready = plugin["ready"]["ok"] and plugin["live"]["ok"]
    age = f"figures {span(document['now'] - sample['at'])} old" if sample["at"] else "no figures yet"
    versions = [f"driver {node['driver']}" if node["driver"] else "", f"CUDA {node['cuda']}" if node["cuda"] else ""]
    line = Text.assemble(
        (plugin["hostname"] or "node", "bold"),
        "  ",
        ("ready", "green") if ready else ("not ready", "bold red"),
        "  ",
        " · ".join([node["state"], node["offer"], *filter(None, versions), age]),
    )
    models = ", ".join(f"{number} x {name}" for name, number in _models(document["gpus"]).items())
    below = (
        f"{models}\n"
        * bool(models)
        + f"plugin {plugin['version']}, running for {span(document['now'] - plugin['started'])} · "
        f"configuration {config['source']} ({config['hash']}), taken in {span(document['now'] - config['loaded'])} ago"
    )
    return Group(line, Text(below, style="dim"))


def _notices(document: Json) -> Iterator[RenderableType]:
    plugin = document["plugin"]
    for reason in (*plugin["live"]["reasons"], *plugin["ready"]["reasons"]):
        yield Text(f"✗ {reason}", style="red")
    if document["node"]["detail"]:
        yield Text(f"! {document['node']['detail']}", style="yellow")
    if document["config"]["refused"]:
        yield Text(f"! the newest configuration was refused: {document['config']['refused']}", style="yellow")
    for warning in document["warnings"]:
        yield Text(f"! {warning}", style="yellow")


def _gpus(document: Json) -> RenderableType:
    gpus = document["gpus"]
    several = len(_models(gpus)) > 1
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("GPU", no_wrap=True)
    for name in ("model",) * several:
        table.add_column(name, overflow="fold")
    table.add_column("numa", justify="right", no_wrap=True)
    table.add_column("nvl", justify="right", no_wrap=True)
    table.add_column("health", overflow="fold", min_width=9)
    for name in ("SM", "memory GiB"):
        table.add_column(name, no_wrap=True)
    for name in ("W", "°C"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("held by", overflow="fold")
    for gpu in gpus:
        table.add_row(*_row(str(gpu["index"]), gpu, model=gpu["name"] if several else None))
        for one in gpu["instances"]:
            name = f"{gpu['index']}:{one['slot']} {one['profile'] or '?'}"
            table.add_row(*_row(name, one, model="" if several else None))
    return table


def _models(gpus: Sequence[Json]) -> dict[str, int]:
    names = [gpu["name"] for gpu in gpus]
    return {name: names.count(name) for name in names}


def _row(name: str, device: Json, model: str | None) -> Sequence[RenderableType]:
    return (
        escape(name),
        *([] if model is None else [escape(model)]),
        *(_known(device[key]) if key in device else "" for key in ("numa", "domain")),
        _health(device),
        _bar(device["utilization"]),
        _memory(device),
        _known(device["power"], ".0f") if "power" in device else "",
        _known(device["temperature"]) if "temperature" in device else "",
        _pods(device),
    )


def _health(device: Json) -> RenderableType:
    if device["health"] == "healthy" and not device["resources"]:
        return Text("not offered", style="dim")
    reasons = ", ".join(cause["reason"] for cause in device["causes"])
    return Text(f"{device['health']} {reasons}".rstrip(), style=_STYLES.get(device["health"], ""))


def _bar(ratio: float | None) -> RenderableType:
    if ratio is None:
        return Text(_UNKNOWN, style="dim")
    full = round(ratio * _BAR)
    return Text.assemble(("█" * full, "blue"), ("░" * (_BAR - full), "bright_black"), f" {ratio:4.0%}")


def _memory(device: Json) -> str:
    used, total = device["memory_used"], device["memory_total"]
    return _UNKNOWN if total is None else f"{_gib(used)} / {_gib(total)}"


def _gib(amount: int | None) -> str:
    return _UNKNOWN if amount is None else f"{amount / 2**30:.1f}"


def _pods(device: Json) -> str:
    return "\n".join(
        escape(f"{one['namespace']}/{one['pod']}") + (f" x{one['shares']}" if one["shares"] > 1 else "")
        for one in device["holders"]
    )


def _known(value: float | None, form: str = "") -> str:
    return _UNKNOWN if value is None else format(value, form)


def _left_out(document: Json) -> Iterator[RenderableType]:
    devices = [device for gpu in document["gpus"] for device in (gpu, *gpu["instances"])]
    for device in devices:
        if device["left_out"]:
            yield Text(f"not offered: {device['left_out']['detail']}", style="dim")


def _resources(resources: Sequence[Json]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("resource", overflow="fold")
    for name in ("offered", "in use", "free", "unhealthy"):
        table.add_column(name, justify="right")
    table.add_column("kubelet", overflow="fold")
    for one in resources:
        phase = Text(one["phase"], style="green" if one["phase"] == "streaming" else "yellow")
        table.add_row(
            escape(one["name"]) + ("" if one["sharing"] == "none" else f" ({one['sharing']})"),
            str(one["offered"]),
            _known(one["allocated"]),
            _known(one["free"]),
            Text(str(one["unhealthy"]), style="bold red" if one["unhealthy"] else ""),
            Text.assemble(phase, f"  {one['trouble']}" if one["trouble"] else ""),
        )
    return table


def _changes(transitions: Sequence[Json], now: float) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for one in transitions:
        text = Text.assemble(
            f"GPU {one['gpu']} ", (f"{one['to']} {one['reason']}", _STYLES.get(one["to"], "")), f"  {one['detail']}"
        )
        table.add_row(f"{span(now - one['at'])} ago", text)
        if one["todo"]:
            table.add_row("→", Text(one["todo"], style="yellow"))
    return table


def span(seconds: float) -> str:
    """A length of time in its largest unit."""
    for size, unit in _STEPS:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
