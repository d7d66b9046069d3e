"""Which configuration a program begins with where a node label may choose among several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deviceplugin.model.errors import ClusterError, ConfigError, Trouble

if TYPE_CHECKING:
    from deviceplugin.cli.context import Context
    from deviceplugin.config.load import Loaded
    from deviceplugin.daemon.choice import Choice


def begin(context: Context, *, choice: Choice | None = None) -> Loaded:
    """The configuration to begin with: the label's last choice, else what holds without one, else the label is read.

    Raises:
        ConfigError: None of them loads.
    """
    from deviceplugin.daemon.choice import Choice

    choice = choice or Choice(context.load)
    try:
        return choice.begin(context.load())
    except ConfigError as error:
        return choice.begin_without(context.load_alone(), _asked, error)


def now(context: Context) -> Loaded:
    """The configuration of this moment, for a program that does not watch the label: read each time.

    Raises:
        ConfigError: It does not load.
        ClusterError: The label cannot be read.
    """
    from deviceplugin.daemon.choice import by_label

    try:
        without: Loaded | None = context.load()
    except ConfigError:
        without = None
        if not by_label(context.load_alone()):
            raise
    settings = without or context.load_alone()
    name = _asked(settings.config.cluster.node_name) if by_label(settings) else ""
    return without if without is not None and not name else context.load(name)


def _asked(node: str) -> str:
    import asyncio
    from importlib.util import find_spec

    if not node:
        raise ClusterError("this node's name is not known; set NODE_NAME from spec.nodeName", Trouble.ABSENT)
    if find_spec("lightkube") is None:
        raise ClusterError("gpu-device-plugin[cluster] is not installed", Trouble.ABSENT)
    from deviceplugin.cluster.selection import read

    return asyncio.run(read(node))
