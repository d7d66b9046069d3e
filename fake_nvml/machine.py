"""A machine as it was built: GPUs, wires, places. Frozen; what changes at run time is in `state`."""

from __future__ import annotations

import re
import tomllib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_nvml import card as cards
from fake_nvml.card import Card

CATALOG = Path(__file__).parent / "catalog"
_NAMESPACE = uuid.UUID("6b1d1f5e-4b0d-5a35-9d2f-6e766d6c0001")
ZERO_CLUSTER = "0" * 32

INTERNAL, SINGLE, MULTIPLE, HOST_BRIDGE, NODE, SYSTEM = 0, 10, 20, 30, 40, 50
FABRIC_STATES = {"not-supported": 0, "not-started": 1, "in-progress": 2, "completed": 3}
DEVICE_TYPES = {"untold": None, "gpu": 0, "npu": 1, "switch": 2, "unknown": 255}


class UnknownMachine(ValueError):  # noqa: N818  the word for it
    """A name that is neither in the catalogue nor a `.topo` file; the message lists the known ones."""


@dataclass(frozen=True, slots=True)
class Link:
    """One NVLink of a GPU, as it is soldered: to a peer GPU's link or to a switch."""

    peer: int | None  # number of the GPU at the other end, None behind a switch
    peer_link: int
    domain: int | None  # number of the switch domain, None for a direct link
    remote: str  # bus id the driver shows for the other end
    remote_type: int | None  # NVML_NVLINK_DEVICE_TYPE_*; None where the driver does not tell
    counted: bool  # whether field 147 counts it


@dataclass(frozen=True, slots=True)
class FabricStart:
    """What the fabric manager has reported for a GPU when the machine is up."""

    state: int = 0
    status: int = 0
    cluster: str = ZERO_CLUSTER
    clique: int = 0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of a machine; `number` is its place in PCI order and never changes."""

    number: int
    uuid: str
    card: Card
    bus_id: str  # 8-digit domain, upper case, as NVML prints it
    numa: int | None
    minor: int
    links: tuple[Link | None, ...]
    fabric: FabricStart
    mig: tuple[str, ...] | None  # instances at start; None: MIG mode off

    @property
    def sysfs_name(self) -> str:
        """The PCI address as sysfs spells it: lower case, at least four domain digits."""
        domain, rest = self.bus_id.lower().split(":", 1)
        return f"{int(domain, 16):04x}:{rest}"

    @property
    def serial(self) -> str:
        """A board serial number that stays the same for the same GPU."""
        return str(1_650_000_000_000 + uuid.UUID(self.uuid[4:]).int % 9_999_999_999)[:13]


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything about a pretend host that does not change while it runs."""

    name: str
    title: str
    driver: str
    cuda: int
    product: str
    gpus: tuple[Gpu, ...]
    levels: tuple[tuple[int | None, ...], ...]  # PCIe common ancestor of each pair; None: not told
    switches: tuple[str, ...]  # bus ids of NVSwitch devices that sysfs shows
    imex_channels: tuple[int, ...]
    device_nodes: bool  # false under WSL
    library: bool  # false: no driver is installed


def names() -> list[str]:
    """The machines of the catalogue, sorted."""
    return sorted(path.stem for path in CATALOG.glob("*.toml"))


def catalogued(name: str) -> Machine:
    """The catalogue machine of that name.

    Raises:
        UnknownMachine: there is none; the message lists those there are.
    """
    path = CATALOG / f"{name}.toml"
    if not re.fullmatch(r"[\w.-]+", name) or not path.is_file():
        raise UnknownMachine(f"unknown machine {name!r}; known: {', '.join(names())}; or give the path of a .topo file")
    return build(name, tomllib.loads(path.read_text()))


def build(name: str, text: dict[str, Any]) -> Machine:
    """A machine from its description (the keys of a catalogue file)."""
    count = len(text.get("bus", ()))
    own = [cards.card(short) for short in text.get("cards", [text.get("card")] * count)]
    wires = _wires(text, own)
    fabrics = _fabrics(text, count)
    mig = {int(number): tuple(layout) for number, layout in text.get("mig", {}).items()}
    numa = text.get("numa", [-1] * count)
    gpus = tuple(
        Gpu(
            number=i,
            uuid=f"GPU-{uuid.uuid5(_NAMESPACE, name + '/' + text['bus'][i])}",
            card=own[i],
            bus_id=text["bus"][i],
            numa=numa[i] if numa[i] >= 0 else None,
            minor=text.get("minor", range(count))[i],
            links=tuple(wires[i]),
            fabric=fabrics[i],
            mig=mig.get(i),
        )
        for i in range(count)
    )
    visible = [entry for entry in text.get("switch", ()) if entry.get("shown", "visible") == "visible"]
    return Machine(
        name=name,
        title=text.get("title", name),
        driver=text.get("driver", "580.95.05"),
        cuda=text.get("cuda", 13000),
        product=text.get("product", "Pretend GPU server"),
        gpus=gpus,
        levels=text.get("levels") or _levels(text.get("place", ["0"] * count)),
        switches=tuple(bus for entry in visible for bus in entry.get("bus", ())),
        imex_channels=tuple(text.get("imex", ())),
        device_nodes=text.get("device_nodes", True),
        library=text.get("library", True),
    )


def _levels(places: list[str]) -> tuple[tuple[int | None, ...], ...]:
    paths = [place.split("/") for place in places]
    numbers = range(len(paths))
    return tuple(tuple(_ancestor(paths[a], paths[b]) if a != b else INTERNAL for b in numbers) for a in numbers)


def _ancestor(one: list[str], other: list[str]) -> int:
    """The level where two places `socket/root port/switch/leaf/board` part."""
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return (SYSTEM, NODE, HOST_BRIDGE, MULTIPLE, SINGLE, INTERNAL)[min(shared, 5)]


def _fabrics(text: dict[str, Any], count: int) -> list[FabricStart]:
    found = [FabricStart()] * count
    for entry in text.get("fabric", ()):
        start = FabricStart(
            state=FABRIC_STATES[entry.get("state", "completed")],
            status=entry.get("status", 0),
            cluster=entry.get("cluster", ZERO_CLUSTER),
            clique=entry.get("clique", 0),
        )
        for number in entry["gpus"]:
            found[number] = start
    return found


def _wires(text: dict[str, Any], own: list[Card]) -> list[list[Link | None]]:
    wires: list[list[Link | None]] = [[None] * card.nvlinks for card in own]
    used = [0] * len(own)
    for domain, entry in enumerate(text.get("switch", ())):
        remotes = [bus for bus, many in zip(entry["bus"], entry["split"], strict=True) for _ in range(many)]
        for number in entry["gpus"]:
            shown = _shown(entry.get("shown", "visible"), text["bus"][number])
            kind = DEVICE_TYPES[entry.get("type", "switch")]
            for remote in remotes[: entry.get("links", {}).get(str(number), len(remotes))]:
                link = Link(None, 0, domain, shown or remote, kind, entry.get("counted", True))
                wires[number][used[number]] = link
                used[number] += 1
    for entry in text.get("bridge", ()):
        a, b = entry["gpus"]
        for _ in range(entry["links"]):
            for here, there in ((a, b), (b, a)):
                remote = _shown(entry.get("shown", "visible"), text["bus"][here]) or text["bus"][there]
                kind = DEVICE_TYPES[entry.get("type", "gpu")]
                wires[here][used[here]] = Link(there, used[there], None, remote, kind, counted=False)
            used[a] += 1
            used[b] += 1
    return wires


def _shown(how: str, own_bus: str) -> str | None:
    """The bus id shown instead of the true one, None to show the true one."""
    return {"visible": None, "hidden": "FFFFFFFF:FF:FF.0", "own": own_bus}[how]
