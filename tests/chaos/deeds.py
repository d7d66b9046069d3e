"""What can happen to the hardware and the driver. A deed says in words what it did, or None where it cannot be done."""

import contextlib
from collections.abc import Callable

from fake_nvml import InUse
from fake_nvml.state import GpuState
from tests.chaos.model import FATAL, IGNORED, RECOVERABLE, SILENTLY_FATAL, books, instances
from tests.chaos.scene import ChaosError, Scene

Deed = Callable[[Scene], str | None]

ALWAYS_THERE = 3
"""The first cards are never cut or taken out, so that every configuration finds a card."""
LAYOUTS: tuple[list[str], ...] = (
    [],
    ["1g.10gb"] * 7,
    ["3g.40gb", "3g.40gb"],
    ["3g.40gb", "2g.20gb", "1g.10gb"],
    ["2g.20gb", "2g.20gb", "1g.10gb+me"],
    ["1c.3g.40gb", "1g.10gb"],
    ["7g.80gb"],
)
TRANSIENT = (999, 10, 17, 23)
"""UNKNOWN, TIMEOUT, OPERATING_SYSTEM, INSUFFICIENT_RESOURCES: they say nothing lasting."""
QUERIES = (
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetMemoryInfo",
    "nvmlEventSetWait_v2",
    "nvmlEventSetCreate",
    "nvmlDeviceRegisterEvents",
    "nvmlDeviceGetCount",
)


def _pick(scene: Scene, which: Callable[[GpuState], bool]) -> GpuState | None:
    found = [one for one in scene.cards() if which(one)]
    return scene.rng.choice(found) if found else None


def fatal_xid(scene: Scene) -> str | None:
    """An Xid that asks for a reset, by its own recovery action or silently."""
    one, xid = _pick(scene, lambda one: one.usable), scene.rng.choice(FATAL + SILENTLY_FATAL)
    if one is None or (xid in SILENTLY_FATAL and _unheard(scene)):
        return None
    scene.touch(one)
    scene.stretch.bare |= xid in SILENTLY_FATAL
    scene.wounds.add(one.gpu.uuid, f"xid-{xid}", needs_reset=True)
    scene.fake.xid(one.number, xid, effects=xid not in SILENTLY_FATAL)
    return f"Xid {xid} on GPU {one.number}"


def passing_xid(scene: Scene) -> str | None:
    """An Xid that is over by itself, or never counted; several at once are fine."""
    one = _pick(scene, lambda one: one.usable)
    if one is None:
        return None
    xid = scene.rng.choice((RECOVERABLE, *IGNORED))
    times = scene.rng.choice((1, 1, 30))
    if xid == RECOVERABLE:
        if _unheard(scene):
            return None
        scene.touch(one)
        scene.stretch.bare = True
        scene.wounds.add(one.gpu.uuid, "xid-94", needs_reset=False)
    for _ in range(times):
        scene.fake.xid(one.number, xid)
    return f"Xid {xid} on GPU {one.number}, {times} times"


def instance_xid(scene: Scene) -> str | None:
    """An Xid of one MIG instance."""
    one = _pick(scene, lambda one: one.usable and bool(one.devices))
    if one is None or _unheard(scene):
        return None
    scene.touch(one)
    scene.stretch.bare = True
    known = instances(books(scene.fake), one)
    device = scene.rng.choice(list(known))
    for other, uuid in known.items():
        if other.gi is device.gi:
            scene.wounds.add(uuid, "xid-48", needs_reset=True)
    scene.fake.xid(one.number, 48, gi=device.gi.id)
    return f"Xid 48 on GPU {one.number}, GPU instance {device.gi.id}"


def ecc(scene: Scene) -> str | None:
    """An uncorrectable error on a card that remaps rows: over when its states are clean."""
    one = _pick(scene, lambda one: one.usable)
    if one is None or _unheard(scene):
        return None
    scene.touch(one)
    scene.stretch.bare = True
    scene.wounds.add(one.gpu.uuid, "ecc", needs_reset=False)
    scene.fake.ecc(one.number)
    return f"double-bit ECC error on GPU {one.number}"


def remap(scene: Scene) -> str | None:
    """The state of row remapping changes."""
    one = _pick(scene, lambda one: one.usable)
    if one is None:
        return None
    scene.touch(one)
    state = scene.rng.choice(("none", "none", "pending", "failure"))
    scene.fake.remap(one.number, state)
    return f"remap {state} on GPU {one.number}"


def recovery(scene: Scene) -> str | None:
    """The driver asks for a recovery action, or no more."""
    one = _pick(scene, lambda one: one.usable and one.gpu.uuid not in scene.wounds.open)
    if one is None:
        return None
    scene.touch(one)
    action = 0 if one.recovery else scene.rng.choice((1, 2, 4))
    scene.fake.recovery(one.number, action)
    return f"recovery action {action} on GPU {one.number}"


def lose(scene: Scene) -> str | None:
    """A card falls off the bus."""
    one = _pick(scene, lambda one: one.usable and one.number > 0)
    if one is None:
        return None
    scene.touch(one)
    silent = scene.rng.random() < 0.5
    if not silent:
        scene.wounds.add(one.gpu.uuid, "xid-79", needs_reset=True)
    scene.fake.lose(one.number, silent=silent)
    return f"GPU {one.number} is lost{' silently' if silent else ''}"


def back(scene: Scene) -> str | None:
    """A lost card answers again."""
    one = _pick(scene, lambda one: one.attached and one.lost)
    if one is None:
        return None
    scene.touch(one)
    scene.wounds.reset(one.gpu.uuid, *instances(books(scene.fake), one).values())
    scene.fake.back(one.number)
    return f"GPU {one.number} is back"


def unplug(scene: Scene) -> str | None:
    """A card is taken out."""
    one = _pick(scene, lambda one: one.attached and one.number >= ALWAYS_THERE)
    if one is None:
        return None
    scene.touch(one)
    scene.fake.unplug(one.number)
    return f"GPU {one.number} is unplugged"


def plug(scene: Scene) -> str | None:
    """A card is put in again."""
    one = _pick(scene, lambda one: not one.attached)
    if one is None:
        return None
    scene.touch(one)
    scene.wounds.reset(one.gpu.uuid)
    scene.fake.plug(one.number)
    return f"GPU {one.number} is plugged in"


def mig(scene: Scene) -> str | None:
    """A card is cut anew, or its mode changes."""
    one = _pick(scene, lambda one: one.usable and one.number >= ALWAYS_THERE)
    if one is None:
        return None
    scene.touch(one)
    layout = None if one.mig_mode and scene.rng.random() < 0.3 else scene.rng.choice(LAYOUTS)
    scene.fake.mig(one.number, layout, force=True)
    return f"MIG {layout} on GPU {one.number}"


def link(scene: Scene) -> str | None:
    """NVLinks go down or come up: no list changes."""
    one = scene.rng.choice(scene.cards(calm=False))
    up = scene.rng.random() < 0.5
    which: int | str = "all" if scene.rng.random() < 0.3 else scene.rng.randrange(18)
    scene.fake.link(one.number, which, up=up)
    return f"NVLink {which} of GPU {one.number} {'up' if up else 'down'}"


def fabric(scene: Scene) -> str | None:
    """The fabric manager restarts, or complains: no list changes."""
    one = scene.rng.choice(scene.cards(calm=False))
    state, health = scene.rng.choice(
        (("completed", []), ("in-progress", []), ("not-started", []), ("completed", ["route-unhealthy"]))
    )
    scene.fake.fabric(one.number, state, health=health)
    return f"fabric of GPU {one.number} {state} {' '.join(health)}"


def swap(scene: Scene) -> str | None:
    """Two cards change places in the index order."""
    a, b = scene.rng.sample(scene.cards(calm=False), 2)
    scene.fake.swap(a.number, b.number)
    return f"GPU {a.number} and {b.number} change places"


def reset(scene: Scene) -> str | None:
    """An operator has the driver released, resets a card that asks for it, and has it taken up again."""
    asking = [one for one in scene.cards() if one.usable and one.recovery]
    if not asking or scene.stretch.hanging or scene.stretch.restarted or scene.stretch.blind:
        return None
    one = scene.rng.choice(asking)
    scene.touch(one)
    if "message" not in scene.ask("release"):
        return None
    try:
        scene.wounds.reset(one.gpu.uuid)
        scene.fake.reset(one.number)
    except InUse as error:
        raise ChaosError(f"the released plugin holds the driver: {error}") from error
    scene.ask("resume")
    return f"GPU {one.number} is reset under a release"


def upgrade(scene: Scene) -> str | None:
    """Another driver version is loaded underneath: every card is reset, MIG is off."""
    if scene.stretch.misconfigured:
        return None
    state = books(scene.fake)
    scene.reloads += 1
    scene.lives += 1
    scene.stretch.restarted = True
    for one in state.gpus:
        scene.touch(one)
        scene.wounds.reset(one.gpu.uuid, *instances(state, one).values())
    version = f"{580 + scene.reloads}.10"
    scene.fake.driver("version", version, force=True)
    return f"driver {version} is loaded"


def _unheard(scene: Scene) -> bool:
    """Whether an event of this stretch may find nobody who listens."""
    return scene.stretch.restarted or scene.stretch.deaf


def unload(scene: Scene) -> str | None:
    """The driver is away for a moment: nothing changes."""
    if scene.stretch.bare:
        return None
    scene.stretch.deaf = True
    state = books(scene.fake)
    present = state.loaded
    scene.fake.driver("unloaded" if present else "present", force=True)
    scene.stretch.blind = True
    return "the driver is unloaded" if present else "the driver is present"


def hang(scene: Scene) -> str | None:
    """Calls hang until the rest, or until let go."""
    if scene.stretch.hanging and scene.rng.random() < 0.7:
        scene.fake.release()
        return "hanging calls go on"
    call = scene.rng.choice(("nvml*", "nvmlDeviceGet*", "nvmlDeviceGetFieldValues", "nvmlEventSetWait_v2"))
    scene.stretch.hanging = scene.stretch.blind = True
    scene.fake.hang(call)
    return f"{call} hangs"


def slow(scene: Scene) -> str | None:
    """Calls are slow until the rest."""
    delay = scene.rng.choice((0.001, 0.005, 0.02))
    scene.fake.fault("nvmlDeviceGet*", delay=delay)
    scene.stretch.hanging = True
    return f"calls take {delay:g} s"


def fail(scene: Scene) -> str | None:
    """Some calls fail: what is unknown changes nothing."""
    call, code = scene.rng.choice(QUERIES), scene.rng.choice(TRANSIENT)
    gpu = scene.rng.choice((None, scene.rng.randrange(8)))
    times = scene.rng.choice((1, 3, 20, None))
    scene.stretch.blind = True
    with contextlib.suppress(ValueError):
        scene.fake.fault(call, gpu=gpu, code=code, times=times)
        where = "" if gpu is None else f" of GPU {gpu}"
        return f"{call}{where} answers {code}, {times or 'all'} times"
    return None
