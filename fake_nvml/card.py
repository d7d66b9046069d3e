"""What a model of GPU is: the facts that hold for every card of that name. One file each under `cards/`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CARDS = Path(__file__).parent / "cards"


class UnknownCard(ValueError):  # noqa: N818  the word for it
    """A model that no file under `cards/` describes; the message lists the known ones."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of GPU instance that a MIG-capable card can be cut into."""

    name: str
    id: int  # as `nvidia-smi mig -lgip` prints it
    profile: int  # NVML_GPU_INSTANCE_PROFILE_*
    slices: int  # compute slices
    size: int  # memory slices
    starts: tuple[int, ...]
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpegs: int
    ofas: int
    exclusive: bool  # only one of its kind at a time (the media engines of `+me`)

    @property
    def ids(self) -> range:
        """The GPU instance ids the driver hands out for this width, lowest first."""
        return _INSTANCE_IDS[self.slices]


_INSTANCE_IDS = {
    1: range(7, 15),
    2: range(3, 7),
    3: range(1, 3),
    4: range(1, 3),
    7: range(1),
    8: range(1),
}


@dataclass(frozen=True, slots=True)
class Card:
    """A model: figures of its data sheet and what its driver answers or refuses."""

    name: str
    architecture: int
    capability: tuple[int, int]
    device_id: int
    subsystem_id: int
    brand: int
    memory_mib: int | None
    reserved_mib: int
    multiprocessors: int
    nvlinks: int
    nvlink_version: int
    nvlink_mbps: int
    idle_watts: float
    limit_watts: float
    min_watts: float
    sm_mhz: int
    memory_mhz: int
    idle_mhz: int
    slowdown_celsius: int
    pcie_generation: int
    pcie_width: int
    ecc: bool
    row_remap: bool
    page_retirement: bool
    memory_temperature: bool
    fan: bool
    fabric: bool
    peer_over_pci: bool
    minor: bool
    events: int | None  # mask of nvmlEventType*; None where event calls are not supported
    unsupported: frozenset[str]  # calls that answer NOT_SUPPORTED on this card
    profiles: tuple[Profile, ...]

    @property
    def mig_capable(self) -> bool:
        """Whether the card can be cut into instances at all."""
        return bool(self.profiles)

    @property
    def memory_bytes(self) -> int:
        """Total frame buffer in bytes; 0 for parts that share the host's memory."""
        return (self.memory_mib or 0) << 20

    @property
    def mig_devices(self) -> int:
        """The most MIG devices this card can hold."""
        return max((len(p.starts) for p in self.profiles), default=0)


ARCHITECTURES = {
    "kepler": 2,
    "maxwell": 3,
    "pascal": 4,
    "volta": 5,
    "turing": 6,
    "ampere": 7,
    "ada": 8,
    "hopper": 9,
    "blackwell": 10,
}
EVENTS = {
    "sbe": 0x1,
    "dbe": 0x2,
    "pstate": 0x4,
    "xid": 0x8,
    "clock": 0x10,
    "power-source": 0x80,
    "sbe-storm": 0x200,
    "dram-retirement": 0x400,
    "dram-failure": 0x800,
    "non-fatal-poison": 0x1000,
    "fatal-poison": 0x2000,
    "unavailable": 0x4000,
    "recovery-action": 0x8000,
}
BRANDS = {"tesla": 2, "geforce": 5, "rtx": 13, "nvidia": 14}


def names() -> list[str]:
    """The short names of all known cards, sorted."""
    return sorted(path.stem for path in CARDS.glob("*.toml"))


@cache
def card(short: str) -> Card:
    """The card of that short name (`h100-sxm`).

    Raises:
        UnknownCard: no such file under `cards/`.
    """
    path = CARDS / f"{short}.toml"
    if not path.is_file():
        raise UnknownCard(f"unknown GPU model {short!r}; known: {', '.join(names())}")
    return _read(tomllib.loads(path.read_text()))


def short_name(model: str) -> str:
    """The short name of a card given by that or by its full product name, case ignored.

    Raises:
        UnknownCard: it is neither.
    """
    wanted = model.strip().lower()
    for short in names():
        if wanted in (short, card(short).name.lower()):
            return short
    known = ", ".join(f"{short} ({card(short).name})" for short in names())
    raise UnknownCard(f"unknown GPU model {model!r}; known: {known}")


def _read(text: dict[str, Any]) -> Card:
    power, clocks, pcie = text["power"], text["clocks"], text["pcie"]
    nvlink = text.get("nvlink", {})
    events = text.get("events")
    return Card(
        name=text["name"],
        architecture=ARCHITECTURES[text["architecture"]],
        capability=(text["capability"][0], text["capability"][1]),
        device_id=text["device_id"] << 16 | 0x10DE,
        subsystem_id=text["subsystem_id"] << 16 | 0x10DE,
        brand=BRANDS[text.get("brand", "nvidia")],
        memory_mib=text.get("memory_mib"),
        reserved_mib=text.get("reserved_mib", 0),
        multiprocessors=text["multiprocessors"],
        nvlinks=nvlink.get("links", 0),
        nvlink_version=nvlink.get("version", 0),
        nvlink_mbps=nvlink.get("mbps", 0),
        idle_watts=power["idle"],
        limit_watts=power["limit"],
        min_watts=power["min"],
        sm_mhz=clocks["sm"],
        memory_mhz=clocks["memory"],
        idle_mhz=clocks["idle"],
        slowdown_celsius=text.get("slowdown_celsius", 87),
        pcie_generation=pcie["generation"],
        pcie_width=pcie["width"],
        ecc=text.get("ecc", True),
        row_remap=text.get("row_remap", False),
        page_retirement=text.get("page_retirement", False),
        memory_temperature=text.get("memory_temperature", False),
        fan=text.get("fan", False),
        fabric=text.get("fabric", False),
        peer_over_pci=text.get("peer_over_pci", True),
        minor=text.get("minor", True),
        events=None if events is None else sum(EVENTS[event] for event in events),
        unsupported=frozenset(text.get("unsupported", ())),
        profiles=tuple(_profile(entry) for entry in text.get("mig", ())),
    )


def _profile(entry: dict[str, Any]) -> Profile:
    engines = entry.get("engines", [1, 0, 0, 0, 0])
    return Profile(
        name=entry["name"],
        id=entry["id"],
        profile=entry["profile"],
        slices=entry["slices"],
        size=entry["size"],
        starts=tuple(entry["starts"]),
        memory_mib=entry["memory_mib"],
        multiprocessors=entry["multiprocessors"],
        copy_engines=engines[0],
        decoders=engines[1],
        encoders=engines[2],
        jpegs=engines[3],
        ofas=engines[4],
        exclusive=entry.get("exclusive", False),
    )
