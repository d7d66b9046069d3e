"""`devices.include` and `devices.exclude`: which hardware is ours to offer, decided before anything else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from deviceplugin.config.document import Devices
from deviceplugin.model.inventory import LeftOut
from deviceplugin.model.node import Gpu
from deviceplugin.rules.identify import matches, matches_pci
from deviceplugin.rules.offer.candidate import Candidate, parts, whole

Entry = str | int


class Selection(Struct, frozen=True):
    """The GPUs that remain, each with the instances that remain."""

    gpus: tuple[Gpu, ...]
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()


def names_device(entry: Entry, candidate: Candidate) -> bool:
    """Whether an index, `gpu:mig` index or UUID of the configuration names this card or instance."""
    text = str(entry)
    return text in (candidate.index, candidate.uuid)


def _names(entry: Entry, candidate: Candidate) -> bool:
    if names_device(entry, candidate):
        return True
    text = str(entry)
    return candidate.instance is None and (matches_pci(text, candidate.gpu.pci) or matches(text, candidate.gpu.name))


def _any_names(entries: Iterable[Entry], candidate: Candidate) -> bool:
    return any(_names(entry, candidate) for entry in entries)


def _verdict(candidate: Candidate, devices: Devices) -> LeftOut | None:
    """Why a card or instance is not ours, leaving aside what is said of the card it belongs to."""
    if _any_names(devices.exclude, candidate):
        return candidate.left_out("excluded", "is named by devices.exclude; take the entry out to offer it")
    if devices.include and not _any_names(devices.include, candidate):
        return candidate.left_out("not-included", "is not named by devices.include; add it there to offer it")
    return None


def _unmatched(section: str, entries: Sequence[Entry], candidates: Sequence[Candidate]) -> Iterable[str]:
    for entry in entries:
        if not any(_names(entry, candidate) for candidate in candidates):
            yield (
                f"{section}: {str(entry)!r} names no GPU or MIG instance of this node; "
                "give a UUID, an index, a PCI bus id or a product pattern of a GPU that is here, or take it out"
            )


def _part_of(gpu: Gpu, devices: Devices) -> tuple[Gpu | None, tuple[LeftOut, ...]]:
    """What of one card is ours; None where nothing is."""
    verdict = _verdict(whole(gpu), devices)
    if verdict is not None and verdict.reason == "excluded":
        return None, (verdict,)
    by_instance = devices if verdict is not None else Devices(exclude=devices.exclude)
    verdicts = tuple((part, _verdict(part, by_instance)) for part in parts(gpu))
    kept = tuple(part.instance for part, why in verdicts if why is None and part.instance is not None)
    if verdict is not None and not kept:
        return None, (verdict,)
    out = tuple(why for _, why in verdicts if why is not None)
    if not out:
        return gpu, ()
    return (replace(gpu, instances=kept) if kept else None), out


def select(gpus: Sequence[Gpu], devices: Devices) -> Selection:
    """Applies `devices.include` and `devices.exclude`; exclusion wins.

    An entry that names a card stands for all its MIG instances; one that names an instance for that alone.
    """
    if not gpus or not (devices.include or devices.exclude):
        return Selection(tuple(gpus))
    everything = [c for gpu in gpus for c in (whole(gpu), *parts(gpu))]
    sorted_out = [_part_of(gpu, devices) for gpu in gpus]
    return Selection(
        gpus=tuple(gpu for gpu, _ in sorted_out if gpu is not None),
        left_out=tuple(out for _, outs in sorted_out for out in outs),
        warnings=(
            *_unmatched("devices.include", devices.include, everything),
            *_unmatched("devices.exclude", devices.exclude, everything),
        ),
    )
