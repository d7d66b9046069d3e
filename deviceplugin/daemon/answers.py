"""What the daemon answers on its local socket: is it alive, is it ready, let go of the driver, take it up again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deviceplugin.model.errors import NvmlError
from deviceplugin.model.node import DriverState, Node
from deviceplugin.nvml.codes import Code
from deviceplugin.nvml.codes import name as code_name
from deviceplugin.rules.confirm import missing

if TYPE_CHECKING:
    from deviceplugin.daemon.supervisor import Daemon
    from deviceplugin.web.local import Answer

IDLE = frozenset({DriverState.READY, DriverState.NO_HARDWARE, DriverState.RELEASED})
"""States in which nothing is missing: a node without GPUs has nothing to wait for."""


class Answers:
    """Questions of the exec probes and of the `release` subcommand."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def table(self) -> Mapping[str, Answer]:
        """Question -> answer."""
        return {"live": self.live, "ready": self.ready, "release": self.release, "resume": self.resume}

    async def live(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Alive: the loop runs (it answers), and the own sockets answer. Neither kubelet nor GPU health count."""
        del request
        wrong = await self._daemon.endpoints.ping()
        return _verdict([f"{name}: {what}" for name, what in wrong.items()])

    async def ready(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ready: the driver is usable, and every resource is registered and streaming."""
        del request
        return _verdict(self.not_ready())

    def not_ready(self) -> list[str]:
        """Why the plugin is not ready, one sentence each."""
        node = self._daemon.board.current.node
        reasons = [] if node.state in IDLE else [f"driver {node.state}: {node.detail}"]
        if node.state is DriverState.READY:
            reasons += [*self._daemon.hardware.failing, *_mute(node)]
            if not self._daemon.board.current.health.checked:
                reasons.append("health is not checked: none of its sources can be read")
        reasons += missing(self._daemon.world.inventory, self._daemon.world.standings)
        if self._daemon.config.kubelet.socket:
            reasons += [f"{name}: {why}" for name, why in self._daemon.endpoints.troubles().items()]
        return reasons

    async def release(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Lets go of the driver."""
        del request
        seconds = self._daemon.config.daemon.release_timeout
        try:
            return {"message": await self._daemon.hardware.release(seconds)}
        except NvmlError as error:
            return {"error": f"the driver cannot be released: {error}"}

    async def resume(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Takes the driver up again; `reset` lists the cards that were reset meanwhile."""
        words = request.get("reset", [])
        called = {str(word): self._daemon.world.cards_called(str(word)) for word in words}
        unknown = [word for word, cards in called.items() if not cards]
        if unknown:
            return {"error": f"there is no GPU {', '.join(unknown)}; name its index, UUID or PCI id"}
        return {"message": await self._daemon.hardware.take_up(frozenset[str]().union(*called.values()))}


def _mute(node: Node) -> list[str]:
    """A driver that is loaded and answers of no card who it is; cards that are lost are no fault of the driver."""
    told = (one for one in node.problems if one.code != Code.GPU_IS_LOST)
    silent = {one.subject: one for one in told if one.subject.startswith("index ")}
    if not node.gpus or len(silent) < len(node.gpus):
        return []
    one = next(iter(silent.values()))
    answered = f"{one.query} answered {code_name(one.code)}"
    return [f"the driver says of none of {len(node.gpus)} GPUs who it is: {answered}"]


def _verdict(reasons: list[str]) -> Mapping[str, Any]:
    return {"ok": not reasons, "reasons": reasons}
