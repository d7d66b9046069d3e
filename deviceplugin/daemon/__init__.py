"""Composition root and supervisor: wires the doors, takes in what happens, and is the one writer of the board.

Anything that happens (a scan, an event, a health reading, a configuration) goes into `world`, which makes the next
snapshot; `supervisor` publishes it and reconciles the endpoints with the resources it offers.
"""

from deviceplugin.daemon.replacing import Ending
from deviceplugin.daemon.supervisor import Daemon

__all__ = ["Daemon", "Ending"]
