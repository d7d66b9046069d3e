"""One consistent world: what every stream, call, scrape and page reads."""

from __future__ import annotations

from msgspec import Struct

from deviceplugin.model.health import Health
from deviceplugin.model.inventory import Inventory
from deviceplugin.model.node import Node


class ConfigStamp(Struct, frozen=True):
    """Which configuration is in force."""

    hash: str = ""
    """First 12 hexadecimal digits of the SHA-256 of the effective configuration."""
    source: str = "defaults"
    """File path, or `defaults`."""


class Snapshot(Struct, frozen=True):
    """Node, inventory and health at one moment; `version` grows by one with each publication."""

    node: Node = Node()
    inventory: Inventory = Inventory()
    health: Health = Health()
    config: ConfigStamp = ConfigStamp()
    version: int = 0
