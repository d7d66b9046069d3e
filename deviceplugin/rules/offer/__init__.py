"""What a node offers under a configuration.

`select` (include, exclude) -> `divide` (MIG strategy) -> `reach` (device nodes) -> `name` (patterns) -> `share`
(replicas, size of the list).
The same hardware and configuration always give the same ids in the same order.
"""

from __future__ import annotations

from deviceplugin.config.document import Config
from deviceplugin.model.inventory import Inventory, NodeState
from deviceplugin.model.node import Node
from deviceplugin.rules.offer.divide import divide
from deviceplugin.rules.offer.handover import compile_handover
from deviceplugin.rules.offer.name import place
from deviceplugin.rules.offer.reach import reachable
from deviceplugin.rules.offer.select import select
from deviceplugin.rules.offer.share import share
from deviceplugin.rules.offer.withhold import withhold
from deviceplugin.rules.prefer.closeness import measure

__all__ = ["offer", "withhold"]


def offer(node: Node, config: Config, host_root: str = "/") -> Inventory:
    """Compiles a scan and a configuration into what is offered.

    Args:
        node: The scan. GPUs that are lost stay listed: their health says what is wrong with them.
        config: The effective configuration.
        host_root: Where `/dev` of the host is read (`--host-root`); `/` unless given.

    Returns:
        The inventory. Every device that is not offered is in `left_out`, with the reason and the remedy.
    """
    selection = select(node.gpus, config.devices)
    division = divide(selection.gpus, config.flags.mig_strategy)
    reach = reachable(division.candidates, config, host_root)
    naming = place(reach.candidates, config.resources, config.flags.mig_strategy)
    shared = share(naming.placed, config)
    return Inventory(
        resources=shared.resources,
        left_out=(*selection.left_out, *division.left_out, *reach.left_out, *naming.left_out),
        state=NodeState.SERVING if shared.resources else division.state,
        closeness=measure(node),
        handover=compile_handover(config, host_root),
        warnings=(*selection.warnings, *division.warnings, *reach.warnings, *shared.warnings),
        conflicts=(*naming.conflicts, *shared.conflicts),
    )
