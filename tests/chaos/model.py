"""What a node should offer and how healthy it is, worked out from the pretend driver's own books.

Nothing here is taken from the plugin's rules: it is their second opinion.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fake_nvml.fake import Fake
from fake_nvml.state import GpuState, MigDevice, State

FATAL = (48, 62, 74, 95, 119, 140)
"""Count until a reset; the pretend driver asks for that reset itself."""
SILENTLY_FATAL = (79, 150, 211)
"""Count until a reset, though no state of the driver says so."""
RECOVERABLE = 94
IGNORED = (13, 31, 43, 45, 68)
GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Settings:
    """The part of a configuration that walks change; cards are named by UUID."""

    replicas: int = 1
    rename: str = ""
    cordon: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """As a configuration file."""
        lines = ["version: v1", "flags: {migStrategy: mixed}"]
        if self.replicas > 1:
            rename = f", rename: {self.rename}" if self.rename else ""
            entry = f"{{name: nvidia.com/gpu, replicas: {self.replicas}{rename}}}"
            lines.append(f"sharing: {{timeSlicing: {{resources: [{entry}]}}}}")
        if self.exclude:
            lines.append(f"devices: {{exclude: [{', '.join(sorted(self.exclude))}]}}")
        if self.cordon:
            entries = ", ".join(f"{{device: {uuid}, reason: chaos}}" for uuid in sorted(self.cordon))
            lines.append(f"health: {{cordon: [{entries}]}}")
        return "\n".join(lines) + "\n"

    @property
    def whole(self) -> str:
        """The resource that whole cards are offered as."""
        return f"nvidia.com/{self.rename}" if self.rename and self.replicas > 1 else GPU

    def ids(self, uuid: str) -> Iterator[str]:
        """Ids of a whole card."""
        if self.replicas == 1:
            yield uuid
        else:
            yield from (f"{uuid}::{number}" for number in range(self.replicas))


@dataclass(frozen=True, slots=True)
class Listed:
    """One id that should be listed."""

    device: str
    card: str
    healthy: bool
    certain: bool
    """False: it may be missing from the list, but not be healthy (a card that does not answer)."""


Lists = Mapping[str, Mapping[str, Listed]]
"""Resource -> id -> what is expected of it."""


@dataclass
class Wounds:
    """What was done to hardware and is not over; by UUID of card or instance: cause -> whether it needs a reset."""

    open: dict[str, dict[str, bool]] = field(default_factory=dict)

    def add(self, uuid: str, cause: str, *, needs_reset: bool) -> None:
        """Something happened to a device."""
        causes = self.open.setdefault(uuid, {})
        causes[cause] = needs_reset or causes.get(cause, False)

    def reset(self, *uuids: str) -> None:
        """These devices were reset: what is left goes when the driver reports nothing bad."""
        for uuid in uuids:
            for cause in self.open.get(uuid, {}):
                self.open[uuid][cause] = False

    def rest(self, state: State) -> None:
        """Time has passed: whatever needs no reset is over on clean cards."""
        for one in state.gpus:
            if one.usable and not dirty(one):
                for uuid in (one.gpu.uuid, *instances(state, one).values()):
                    self._heal(uuid)

    def _heal(self, uuid: str) -> None:
        left = {cause: True for cause, needs_reset in self.open.pop(uuid, {}).items() if needs_reset}
        if left:
            self.open[uuid] = left

    def hurts(self, uuid: str, one: GpuState) -> bool:
        """Whether a device is unfit by what was done to it."""
        causes = self.open.get(uuid, {})
        return any(causes.values()) or (bool(causes) and dirty(one))


def dirty(one: GpuState) -> bool:
    """Whether the card's states hold up its recovery."""
    return bool(one.recovery or one.rows.get("pending") or one.rows.get("failure"))


def instances(state: State, one: GpuState) -> dict[MigDevice, str]:
    """MIG devices of a card with their UUIDs."""
    return {device: one.mig_uuid(device, opaque=True) for device in one.devices.values()}


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of hardware that can be offered, without regard to the configuration."""

    device: str
    card: str
    profile: str
    """MIG profile; empty for a whole card."""
    fit: bool
    certain: bool


def pieces(fake: Fake, wounds: Wounds) -> tuple[Piece, ...]:
    """The hardware as it is now."""
    state, found = books(fake), list[Piece]()
    for one in state.gpus:
        if not one.attached:
            continue
        uuid = one.gpu.uuid
        fit = one.usable and not one.recovery and not one.rows.get("failure") and not wounds.hurts(uuid, one)
        if not one.mig_mode:
            found.append(Piece(uuid, uuid, "", fit, one.usable))
        for device, own in instances(state, one).items() if one.mig_mode else ():
            if device.slices == device.gi.profile.slices:
                found.append(Piece(own, uuid, device.profile, fit and not wounds.hurts(own, one), one.usable))
    return tuple(found)


def offered(hardware: tuple[Piece, ...], settings: Settings) -> Lists:
    """What should be listed of this hardware under this configuration, when all is quiet."""
    lists: dict[str, dict[str, Listed]] = {}
    for piece in hardware:
        if piece.card in settings.exclude:
            continue
        listed = Listed(piece.device, piece.card, piece.fit and piece.card not in settings.cordon, piece.certain)
        name = f"nvidia.com/mig-{piece.profile}".replace("+", ".") if piece.profile else settings.whole
        ids = [piece.device] if piece.profile else settings.ids(piece.device)
        lists.setdefault(name, {}).update(dict.fromkeys(ids, listed))
    return lists


def books(fake: Fake) -> State:
    """The pretend machine's state as it is now."""
    world = fake._world
    world.sync()
    return world.state
