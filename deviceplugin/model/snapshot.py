"""One consistent world: what every stream, call, scrape and page reads."""

from __future__ import annotations

from dataclasses import dataclass

from deviceplugin.model.health import Health
from deviceplugin.model.inventory import Inventory
from deviceplugin.model.node import Node


@dataclass(frozen=True, slots=True)
class ConfigStamp:
    """Which configuration is in force."""

    hash: str = ""
    """First 12 hexadecimal digits of the SHA-256 of the effective configuration."""
    source: str = "defaults"
    """File path, or `defaults`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Node, inventory and health at one moment; `version` grows by one with each publication."""

    node: Node = Node()
    inventory: Inventory = Inventory()
    health: Health = Health()
    config: ConfigStamp = ConfigStamp()
    version: int = 0
