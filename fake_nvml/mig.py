"""Cutting a GPU into instances: which profiles fit where, and which ids and slots they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_nvml.problem import Refused
from fake_nvml.state import GpuInstance, GpuState, MigDevice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fake_nvml.card import Card, Profile


def lay_out(one: GpuState, layout: Sequence[str]) -> None:
    """Make the instances of a GPU be exactly these; those already there and wanted keep id and uuid.

    Each item is a profile (`3g.40gb`), a profile with one smaller compute instance (`1c.3g.40gb`), or a
    profile followed by the compute instances in it (`3g.40gb/1c/2c`).

    Raises:
        Refused: an unknown profile, or they do not fit; nothing has changed then.
    """
    wanted = [_parse(one.gpu.card, item) for item in layout]
    keep, missing = _match(one, wanted)
    before = (dict(one.instances), dict(one.devices))
    for number in [number for number in one.instances if number not in keep]:
        _destroy(one, number)
    made = _place(one, [profile for profile, _ in missing])
    if made is None:
        one.instances, one.devices = before
        raise Refused(f"no room for {', '.join(layout)} on GPU {one.number} ({one.gpu.card.name})")
    for gi, (_, parts) in zip(made, missing, strict=True):
        _fill(one, gi, parts)


def clear(one: GpuState) -> None:
    """Destroy every instance."""
    one.instances.clear()
    one.devices.clear()


def profile_of(card: Card, name: str) -> Profile:
    """The profile of that name.

    Raises:
        Refused: the card has no such profile; the message lists those it has.
    """
    for profile in card.profiles:
        if profile.name == name:
            return profile
    known = ", ".join(profile.name for profile in card.profiles) or "none: it cannot do MIG"
    raise Refused(f"{card.name} has no MIG profile {name!r}; it has: {known}")


def room_for(one: GpuState, profile: Profile) -> list[int]:
    """Starts, in memory slices, at which another instance of the profile would fit."""
    if profile.exclusive and any(gi.profile.name == profile.name for gi in one.instances.values()):
        return []
    taken = {s for gi in one.instances.values() for s in range(gi.start, gi.start + gi.profile.size)}
    used = sum(gi.profile.slices for gi in one.instances.values())
    if used + profile.slices > _compute_slices(one.gpu.card):
        return []
    return [s for s in profile.starts if taken.isdisjoint(range(s, s + profile.size))]


def _compute_slices(card: Card) -> int:
    return max(profile.slices for profile in card.profiles)


def _parse(card: Card, item: str) -> tuple[Profile, tuple[int, ...]]:
    name, *parts = item.strip().split("/")
    head, dot, rest = name.partition(".")
    if dot and head.endswith("c"):
        name, parts = rest, [head, *parts]
    profile = profile_of(card, name)
    slices = tuple(_slices(part, item) for part in parts) or (profile.slices,)
    if sum(slices) > profile.slices:
        raise Refused(f"{item}: compute instances of {sum(slices)} slices in a GPU instance of {profile.slices}")
    return profile, slices


def _slices(part: str, item: str) -> int:
    if not (part.endswith("c") and part[:-1].isdigit() and int(part[:-1]) > 0):
        raise Refused(f"{item}: a compute instance is written as 1c, 2c, ..., not {part!r}")
    return int(part[:-1])


def _match(
    one: GpuState, wanted: list[tuple[Profile, tuple[int, ...]]]
) -> tuple[set[int], list[tuple[Profile, tuple[int, ...]]]]:
    """Which instances may stay, and what must be made: the largest first, as it would else not fit."""
    keep: set[int] = set()
    missing = []
    for profile, parts in wanted:
        for gi in one.instances.values():
            own = tuple(device.slices for device in one.devices.values() if device.gi is gi)
            if gi.id not in keep and gi.profile.name == profile.name and own == parts:
                keep.add(gi.id)
                break
        else:
            missing.append((profile, parts))
    return keep, sorted(missing, key=lambda pair: -pair[0].size * 10 - pair[0].slices)


def _place(one: GpuState, profiles: list[Profile]) -> list[GpuInstance] | None:
    """A GPU instance for each profile, as high as it goes; None, and nothing made, if there is no way."""
    if not profiles:
        return []
    profile, *others = profiles
    for start in reversed(room_for(one, profile)):
        gi = GpuInstance(next(gi for gi in profile.ids if gi not in one.instances), profile, start)
        one.instances[gi.id] = gi
        rest = _place(one, others)
        if rest is not None:
            return [gi, *rest]
        del one.instances[gi.id]
    return None


def _fill(one: GpuState, gi: GpuInstance, parts: tuple[int, ...]) -> None:
    for ci, slices in enumerate(parts):
        free = next(slot for slot in range(len(one.devices) + 1) if slot not in one.devices)
        one.devices[free] = MigDevice(gi, ci, slices, one.made)
        one.made += 1


def _destroy(one: GpuState, gi: int) -> None:
    del one.instances[gi]
    for slot in [slot for slot, device in one.devices.items() if device.gi.id == gi]:
        del one.devices[slot]
