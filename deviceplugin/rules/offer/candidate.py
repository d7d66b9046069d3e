"""A piece of hardware on its way to being offered: a whole card, or one MIG instance of it."""

from __future__ import annotations

from msgspec import Struct

from deviceplugin.model.inventory import LeftOut
from deviceplugin.model.node import Gpu, MigInstance


class Candidate(Struct, frozen=True):
    """A card (`instance` is None) or a MIG instance."""

    gpu: Gpu
    instance: MigInstance | None = None

    @property
    def uuid(self) -> str:
        """UUID of the card or instance itself."""
        return self.gpu.uuid if self.instance is None else self.instance.uuid

    @property
    def index(self) -> str:
        """`<gpu>` or `<gpu>:<mig>`."""
        return str(self.gpu.index) if self.instance is None else f"{self.gpu.index}:{self.instance.slot}"

    @property
    def profile(self) -> str | None:
        """MIG profile; None for a card."""
        return None if self.instance is None else self.instance.profile

    @property
    def complete(self) -> bool:
        """Not a MIG instance whose compute instance is smaller than its GPU instance."""
        return self.instance is None or self.instance.complete

    @property
    def label(self) -> str:
        """How messages name it: kind, index and UUID."""
        kind = "GPU" if self.instance is None else "MIG instance"
        return f"{kind} {self.index} ({self.uuid})"

    def left_out(self, reason: str, detail: str) -> LeftOut:
        """This device as one that is not offered; `detail` completes the sentence that its label begins."""
        return LeftOut(self.uuid, self.gpu.index, reason, f"{self.label} {detail}")


def whole(gpu: Gpu) -> Candidate:
    """The card itself."""
    return Candidate(gpu)


def parts(gpu: Gpu) -> tuple[Candidate, ...]:
    """The MIG instances of a card, by slot."""
    return tuple(Candidate(gpu, instance) for instance in sorted(gpu.instances, key=lambda i: i.slot))
