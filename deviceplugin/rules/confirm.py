"""Cards shared by MPS are fit only while their control daemon is known to run as the configuration wants it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from deviceplugin.model.health import Health, Sickness
from deviceplugin.model.inventory import Inventory
from deviceplugin.model.mps import MpsDevice, MpsPlan, MpsStanding

REASON, KIND, RULE = "mps-not-ready", "unready", "sharing.mps"
_UNASKED = MpsStanding()


def plans(inventory: Inventory) -> dict[str, MpsPlan]:
    """What each resource that is shared by MPS asks of its control daemon."""
    return {name: resource.mps for name, resource in inventory.resources.items() if resource.mps is not None}


def confirm(health: Health, inventory: Inventory, standings: Mapping[str, MpsStanding]) -> Health:
    """Health with every card as Unhealthy whose MPS control daemon is not there, or serves another configuration."""
    wanted = plans(inventory)
    if not wanted:
        return health
    sick = dict(health.sick)
    for name, plan in wanted.items():
        for device, detail, since in _unconfirmed(plan, standings.get(name, _UNASKED)):
            cause = Sickness(
                device.uuid, REASON, KIND, since, f"MPS of {name}: {detail}", rule=RULE, gpu_index=device.index
            )
            sick[device.uuid] = (*sick.get(device.uuid, ()), cause)
    return replace(health, sick=MappingProxyType(sick))


def missing(inventory: Inventory, standings: Mapping[str, MpsStanding]) -> list[str]:
    """What stands between the node and readiness, one sentence for each resource."""
    found: dict[str, str] = {}
    for name, plan in plans(inventory).items():
        for _, detail, _ in _unconfirmed(plan, standings.get(name, _UNASKED)):
            found.setdefault(name, f"MPS of {name}: {detail}")
    return list(found.values())


def _unconfirmed(plan: MpsPlan, standing: MpsStanding) -> Iterator[tuple[MpsDevice, str, float]]:
    """Cards that the daemon is not known to serve as planned, each with the reason."""
    applied = standing.plan
    for device in plan.devices:
        if applied is None:
            yield device, standing.missing, standing.since
        elif applied.thread_percentage != plan.thread_percentage or device not in applied.devices:
            yield device, _differs(device, plan, applied), standing.since


def _differs(device: MpsDevice, plan: MpsPlan, applied: MpsPlan) -> str:
    known = {other.uuid: other for other in applied.devices}
    has = known.get(device.uuid)
    if has is None:
        what = f"its control daemon was not told of GPU {device.index}"
    elif has != device:
        what = f"its control daemon limits GPU {has.index} to {_amount(has)}, {_amount(device)} is configured"
    else:
        what = (
            f"its control daemon gives {applied.thread_percentage:g} % of the threads, {plan.thread_percentage:g} % is "
            "configured"
        )
    return f"{what}; `gpu-device-plugin mps` must run with the same configuration, its log says why it does not follow"


def _amount(device: MpsDevice) -> str:
    return "no amount of memory" if device.memory_mib is None else f"{device.memory_mib} MiB"
