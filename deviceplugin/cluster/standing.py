"""How the health of GPUs is written on their Node object: a condition for tools, an annotation with the details."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from deviceplugin.cluster.api import Api
from deviceplugin.model.health import Sickness
from deviceplugin.model.snapshot import Snapshot

CONDITION = "GPUHealthy"
ANNOTATION = "nvidia.com/device-plugin.unhealthy"
MANAGER = "gpu-device-plugin-health"
_LONGEST = 1024


class Standing(Struct, frozen=True):
    """What is to be written."""

    status: str
    """True, False or Unknown."""
    reason: str
    message: str
    sick: str
    """JSON: reasons by UUID; empty where nothing is sick."""


def standing(snapshot: Snapshot) -> Standing | None:
    """The standing of a snapshot; None for a node without GPUs, of which there is nothing to say."""
    if not snapshot.node.gpus:
        return None
    reasons = {
        uuid: list(dict.fromkeys(one.reason for one in sicknesses))
        for uuid, sicknesses in sorted(snapshot.health.sick.items())
        if sicknesses
    }
    sick = json.dumps(reasons) if reasons else ""
    if reasons:
        return Standing("False", "GPUsUnhealthy", _sentence(snapshot.health.sick), sick)
    if not snapshot.health.checked:
        return Standing("Unknown", "HealthNotChecked", "no source of GPU health can be read", sick)
    return Standing("True", "AllGPUsHealthy", f"all {len(snapshot.node.gpus)} GPUs are healthy", sick)


def _sentence(sick: Mapping[str, tuple[Sickness, ...]]) -> str:
    parts = [f"{uuid}: {', '.join(one.reason for one in sick[uuid])}" for uuid in sorted(sick) if sick[uuid]]
    text = "; ".join(parts)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def condition(now: Standing, before: Mapping[str, Any] | None, at: float) -> dict[str, Any]:
    """The condition; its transition time stays as long as the status does."""
    time = timestamp(at)
    kept = before is not None and before.get("status") == now.status and before.get("lastTransitionTime")
    return {
        "type": CONDITION,
        "status": now.status,
        "reason": now.reason,
        "message": now.message,
        "lastHeartbeatTime": time,
        "lastTransitionTime": kept or time,
    }


def timestamp(at: float) -> str:
    """Unix time as the API writes it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def write(api: Api, now: Standing, at: float) -> None:
    """Writes condition and annotation.

    Raises:
        ClusterError: It did not work.
    """
    before = (await api.read_node()).conditions.get(CONDITION)
    await api.patch_condition(condition(now, before, at), MANAGER)
    await api.apply_node({"annotations": {ANNOTATION: now.sick} if now.sick else {}}, MANAGER)
