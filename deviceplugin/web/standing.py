"""Small sums that metrics, page and terminal share, so that they never disagree."""

from __future__ import annotations

from deviceplugin.model.health import Health
from deviceplugin.model.inventory import Resource
from deviceplugin.web.view import View


def healthy_shares(health: Health, resource: Resource) -> int:
    """How many shares of a resource the kubelet may give away."""
    sick = health.sick
    return sum(share.device not in sick and share.gpu not in sick for share in resource.shares)


def free_shares(view: View, resource: Resource) -> int:
    """Healthy shares that no pod holds."""
    sick, held = view.snapshot.health.sick, view.attribution.ids.get(resource.name, frozenset())
    return sum(share.device not in sick and share.gpu not in sick and share.id not in held for share in resource.shares)


def free_cards(view: View) -> dict[int, list[str]]:
    """By NVLink domain: the whole cards on offer that are healthy and that no pod holds."""
    inventory, sick, held = view.snapshot.inventory, view.snapshot.health.sick, view.attribution.cards
    domains = dict(zip(inventory.closeness.uuids, inventory.closeness.domain, strict=False))
    offered = {
        share.gpu
        for resource in inventory.resources.values()
        for share in resource.shares
        if share.device == share.gpu and share.gpu in domains
    }
    free: dict[int, list[str]] = {domains[uuid]: [] for uuid in sorted(offered, key=domains.__getitem__)}
    for uuid in sorted(offered):
        if uuid not in sick and uuid not in held:
            free[domains[uuid]].append(uuid)
    return free
