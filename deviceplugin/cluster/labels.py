"""Node labels by the API, for clusters without feature files: on the Node itself, or as a NodeFeature object."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from deviceplugin.cluster.api import Api
from deviceplugin.model.errors import ClusterError, Trouble
from deviceplugin.rules.label import is_ours

log = logging.getLogger(__name__)

MANAGER = "gpu-device-plugin-labels"
FEATURE = "nvidia-features-for-"
"""Name of the NodeFeature object before the node's, as NVIDIA's feature discovery has it: a leftover is taken over."""

_FIELD = ".metadata.labels."
_ATTEMPTS = 3


class Publisher(Protocol):
    """A way to publish."""

    async def publish(self, labels: Mapping[str, str]) -> None:
        """Makes these the labels of the node.

        Raises:
            ClusterError: It did not work.
        """


class OnNode:
    """Labels on the Node object, by server-side apply under our own manager.

    Nothing is forced: a label that another manager holds with another value is left to it, and said once. What we set
    before and no longer want is taken away by the API, since we own it; labels of others are never named in a request.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._left: dict[str, str] = {}

    async def publish(self, labels: Mapping[str, str]) -> None:
        """Applies the labels that are ours."""
        wanted = {name: value for name, value in labels.items() if is_ours(name)}
        left: dict[str, str] = {}
        for _ in range(_ATTEMPTS):
            try:
                await self._api.apply_node({"labels": wanted}, MANAGER)
                break
            except ClusterError as error:
                held = {f.removeprefix(_FIELD): why for f, why in error.held.items() if f.startswith(_FIELD)}
                if error.trouble is not Trouble.CONFLICT or not held.keys() & wanted.keys():
                    raise
                left |= held
                wanted = {name: value for name, value in wanted.items() if name not in held}
        else:
            raise ClusterError("patch node: labels are in conflict with ever new managers", Trouble.CONFLICT)
        for name in left.keys() - self._left.keys():
            log.warning("label %s is left to its owner: %s; switch one of the two publishers off", name, left[name])
        self._left = left


class AsFeature:
    """Labels as a NodeFeature object, which node-feature-discovery's master puts on the node."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def publish(self, labels: Mapping[str, str]) -> None:
        """Applies the object; `features` is empty but must be there by its schema."""
        features: dict[str, dict[str, str]] = {"attributes": {}, "flags": {}, "instances": {}}
        spec = {"features": features, "labels": {name: value for name, value in labels.items() if is_ours(name)}}
        await self._api.apply_feature(f"{FEATURE}{self._api.node}", spec, MANAGER)


def way(api: Api, *, feature: bool) -> Publisher:
    """How labels are published: as a NodeFeature object, or on the node."""
    return AsFeature(api) if feature else OnNode(api)
