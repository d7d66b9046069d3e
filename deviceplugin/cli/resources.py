"""`gpu-device-plugin resources`: what would be offered, as a table or as JSON; the dry run of a configuration."""

from __future__ import annotations

import argparse
import json
from typing import Any

from deviceplugin.cli.context import Context
from deviceplugin.model.inventory import Resource
from deviceplugin.model.snapshot import Snapshot


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Prints names, counts and ids per GPU, then what is left out and why."""
    snapshot = context.snapshot()
    print(json.dumps(as_json(snapshot), indent=2) if arguments.json else as_text(snapshot))
    return 0


def as_json(snapshot: Snapshot) -> dict[str, Any]:
    """The document that `--json` prints."""
    inventory = snapshot.inventory
    return {
        "driver": {"state": snapshot.node.state, "detail": snapshot.node.detail},
        "state": inventory.state,
        "config": {"hash": snapshot.config.hash, "source": snapshot.config.source},
        "resources": {
            name: {
                "count": len(resource.shares),
                "sharing": resource.sharing,
                "gpus": [_card_as_json(resource, uuid) for uuid in _cards(resource)],
            }
            for name, resource in inventory.resources.items()
        },
        "left_out": [
            {"device": out.device, "gpu": out.gpu_index, "reason": out.reason, "detail": out.detail}
            for out in inventory.left_out
        ],
        "warnings": list(inventory.warnings),
    }


def as_text(snapshot: Snapshot) -> str:
    """The same for people."""
    node, inventory = snapshot.node, snapshot.inventory
    lines = [f"driver: {node.state}" + (f" ({node.detail})" if node.detail else ""), f"state:  {inventory.state}"]
    for name, resource in inventory.resources.items():
        shared = "" if resource.sharing == "none" else f"  shared by {resource.sharing}"
        lines.append(f"{name}: {len(resource.shares)}{shared}")
        for uuid in _cards(resource):
            shares = [s for s in resource.shares if s.gpu == uuid]
            lines.append(f"  GPU {shares[0].gpu_index}  {_span([s.id for s in shares])}")
    if not inventory.resources:
        lines.append("no resource is offered")
    lines += [f"left out: GPU {out.gpu_index} {out.device}: {out.detail}" for out in inventory.left_out]
    lines += [f"warning: {warning}" for warning in inventory.warnings]
    return "\n".join(lines)


def _card_as_json(resource: Resource, uuid: str) -> dict[str, Any]:
    shares = [share for share in resource.shares if share.gpu == uuid]
    return {"index": shares[0].gpu_index, "uuid": uuid, "ids": [share.id for share in shares]}


def _cards(resource: Resource) -> list[str]:
    return list(dict.fromkeys(share.gpu for share in resource.shares))


def _span(ids: list[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} .. {ids[-1]} ({len(ids)})"
