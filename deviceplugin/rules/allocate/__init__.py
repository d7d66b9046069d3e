"""Allocate: from the ids that the kubelet chose to what the container gets. No driver, no lock, no file but a stat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deviceplugin.model.errors import Refusal, RequestError
from deviceplugin.model.grant import Grant
from deviceplugin.model.health import Health
from deviceplugin.model.inventory import Policy, Resource, Share, Sharing
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.allocate.nodes import dev_root_here, imex_channels
from deviceplugin.rules.allocate.order import Order
from deviceplugin.rules.allocate.strategies import grant

__all__ = ["allocate"]

_FAIL_KEY = {
    Sharing.TIME_SLICING: "sharing.timeSlicing.failRequestsGreaterThanOne",
    Sharing.MPS: "sharing.mps.failRequestsGreaterThanOne",
}


def allocate(
    snapshot: Snapshot,
    resource: Resource,
    ids: Sequence[str],
    exists: Callable[[str], bool],
    unique: Callable[[], str],
) -> Grant:
    """Answers one container's request (v1beta1 ContainerAllocateRequest).

    Args:
        snapshot: The world to answer from.
        resource: The resource that was asked for.
        ids: Ids of its shares, in any order.
        exists: Whether a path of this process's file system is there; asked for optional nodes under
            `handover.dev_root_seen`, and for the nodes of granted devices.
        unique: A fresh suffix for the key of the CDI annotation.

    Returns:
        The grant; devices in the order of their index.

    Raises:
        RequestError: INVALID_ARGUMENT for ids that are not there, given twice, or more than sharing allows;
            FAILED_PRECONDITION for devices that are Unhealthy or gone, and for what the configuration requires.
    """
    # A pod waits for this: what does not apply, which is most of it, is not even called.
    positions = resource.positions
    try:
        places = sorted([positions[name] for name in ids])
    except KeyError as error:
        raise _unknown(resource, error.args[0]) from error
    shares = tuple([resource.shares[place] for place in places])
    if len(shares) != 1:
        if len(set(places)) != len(places) or not places:
            raise _miscounted(resource, ids)
        if resource.fail_above_one or resource.policy is Policy.STRICT:
            _check_sharing(resource, shares)
        if resource.sharing is not Sharing.NONE:
            shares = _one_per_device(shares)
    if snapshot.health.sick:
        _check_health(snapshot.health, resource, shares)
    handover = snapshot.inventory.handover
    looks = handover.pass_device_specs or handover.imex_channels
    dev_root = dev_root_here(handover, exists) if looks else handover.dev_root_seen
    channels = imex_channels(handover, dev_root, exists) if handover.imex_channels else ()
    return grant(Order(resource, shares, handover, channels, dev_root, exists, unique))


def _unknown(resource: Resource, name: str) -> RequestError:
    return RequestError(
        f"{resource.name} has no device {name!r}; the list of devices has changed since the kubelet chose, "
        "create the pod again"
    )


def _miscounted(resource: Resource, ids: Sequence[str]) -> RequestError:
    if not ids:
        return RequestError(f"{resource.name}: no device id was given; ask for at least one")
    given = list(ids)  # a message's own sequence cannot count
    twice = next(name for name in given if given.count(name) > 1)
    return RequestError(f"{resource.name}: the id {twice!r} was given twice; give each id once")


def _check_sharing(resource: Resource, shares: Sequence[Share]) -> None:
    if resource.fail_above_one and any(share.replica is not None for share in shares):
        raise RequestError(
            f"{resource.name}: {len(shares)} shares were asked for and {_FAIL_KEY[resource.sharing]} allows one; "
            "request 1, or set it to false"
        )
    if resource.policy is Policy.STRICT:
        holders = len({_holder(share) for share in shares})
        if holders < len(shares):
            raise RequestError(
                f"{resource.name}: {len(shares)} shares on {holders} devices, and the allocation policy strict wants "
                "each on its own; wait for free devices, ask for fewer, or set the policy to spread",
                Refusal.FAILED_PRECONDITION,
            )


def _holder(share: Share) -> str:
    """What a share is cut from: the card for a MIG instance that is not shared itself."""
    return share.gpu if share.replica is None else share.device


def _check_health(health: Health, resource: Resource, shares: Sequence[Share]) -> None:
    for share in shares:
        reasons = health.reasons(share.device, share.gpu)
        if reasons:
            detail = f" ({reasons[0].detail})" if reasons[0].detail else ""
            raise RequestError(
                f"{resource.name}: device {share.id} is Unhealthy: {reasons[0].reason}{detail}",
                Refusal.FAILED_PRECONDITION,
            )


def _one_per_device(shares: tuple[Share, ...]) -> tuple[Share, ...]:
    """The lowest share of each device."""
    first: dict[str, Share] = {}
    for share in shares:
        first.setdefault(share.device, share)
    return tuple(first.values())
