"""`gpu-device-plugin allocate`: which devices a request would get, and criterion by criterion why."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from deviceplugin.cli.context import Context
from deviceplugin.model.errors import ConfigError, PluginError
from deviceplugin.model.inventory import Resource
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.prefer.explain import Explanation, explain

WHOLE = "nvidia.com/gpu"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the request's options."""
    devices = "GPU indices (`0,2,5-7`), `GPU:MIG` indices or ids"
    parser.add_argument("--size", type=int, required=True, metavar="K", help="how many devices")
    parser.add_argument("--available", metavar="LIST", help=f"what is free: {devices}; default: all")
    parser.add_argument("--include", default="", metavar="LIST", help="what must be among them, likewise")
    parser.add_argument("--resource", metavar="NAME", help=f"default: {WHOLE}, or the first that is offered")
    parser.add_argument(
        "--topo", metavar="FILE", help="a machine as `nvidia-smi topo -m` prints it; - is standard input"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Prints the preferred set."""
    if arguments.topo is not None:
        context.pretend(arguments.topo)
    snapshot = context.judged()
    resource = _resource(snapshot, arguments.resource)
    everything = [share.id for share in resource.shares]
    available = everything if arguments.available is None else _ids(resource, arguments.available, "--available")
    include = _ids(resource, arguments.include, "--include", each=1)
    found = explain(snapshot, resource, available, include, arguments.size)
    print(json.dumps(as_json(found)) if arguments.json else "\n".join(as_text(resource, found)))
    return 0


def as_json(found: Explanation) -> dict[str, Any]:
    """The document that `--json` prints."""
    answer = found.preference
    return {
        "indices": list(answer.gpu_indices),
        "ids": list(answer.ids),
        "domains": answer.domains,
        "min_nvlink": answer.min_nvlink,
        "sum_nvlink": answer.sum_nvlink,
        "numa_nodes": answer.numa_nodes,
        "sum_pcie": answer.sum_pcie,
        "exact": answer.exact,
        "decided_by": str(answer.decided_by),
    }


def as_text(resource: Resource, found: Explanation) -> Iterator[str]:
    """The set, then it and the runner-up side by side."""
    answer = found.preference
    yield f"{resource.name}, {len(answer.ids)} of {len(resource.shares)}: {_cards(resource, answer.ids)}"
    yield from (f"  GPU {resource.by_id[name].gpu_index}  {name}" for name in answer.ids)
    yield ""
    if not found.rows:
        yield f"decided by {answer.decided_by}"
        return
    titles = ("", _cards(resource, answer.ids), f"runner-up: {_cards(resource, found.runner_up)}")
    rows = [(str(row.rule), _value(row.chosen), _value(row.runner_up)) for row in found.rows]
    wide = [max(len(row[column]) for row in (titles, *rows)) for column in range(3)]
    for row in (titles, *rows):
        mark = "  <- decides" if row is rows[-1] else ""
        yield f"  {row[0]:<{wide[0]}}  {row[1]:>{wide[1]}}  {row[2]:>{wide[2]}}{mark}".rstrip()
    if not answer.exact:
        yield "  the search was bounded: a better set may exist"


def _value(value: int | tuple[int, ...]) -> str:
    return str(value) if isinstance(value, int) else _numbers(value)


def _numbers(values: Sequence[int]) -> str:
    return " ".join(map(str, values))


def _cards(resource: Resource, ids: Sequence[str]) -> str:
    return f"GPU {_numbers([resource.by_id[name].gpu_index for name in ids])}"


def _resource(snapshot: Snapshot, name: str | None) -> Resource:
    resources = snapshot.inventory.resources
    if not resources:
        detail = f": {snapshot.node.detail}" if snapshot.node.detail else ""
        raise PluginError(
            f"this node offers nothing (driver {snapshot.node.state}{detail}); see the resources subcommand"
        )
    if name is None:
        return resources.get(WHOLE) or next(iter(resources.values()))
    if name not in resources:
        raise ConfigError(f"--resource {name}: not offered; this node has {', '.join(resources)}")
    return resources[name]


def _ids(resource: Resource, text: str, option: str, each: int | None = None) -> list[str]:
    """The ids that a list stands for; `each` is how many shares an index means, all if not given."""
    found: list[str] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = word.partition("-")
        if word in resource.by_id:
            found.append(word)
        elif first.isdecimal() and (not dash or last.isdecimal()):
            if dash and int(last) < int(first):
                raise ConfigError(f"{option} {word}: a range goes from the lower index to the higher: {last}-{first}")
            for index in range(int(first), int(last or first) + 1):
                found += _of(resource, str(index), option, each)
        else:
            found += _of(resource, word, option, each)
    return found


def _of(resource: Resource, word: str, option: str, each: int | None) -> list[str]:
    shares = [s.id for s in resource.shares if word in (str(s.gpu_index), s.visible_index, s.device, s.gpu)]
    if not shares:
        known = dict.fromkeys(share.gpu_index for share in resource.shares)
        raise ConfigError(f"{option} {word}: {resource.name} has no such device; its GPUs are {_numbers(list(known))}")
    return shares[:each]
