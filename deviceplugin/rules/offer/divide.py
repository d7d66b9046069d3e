"""The MIG strategies: which cards are offered whole, which as instances, and which state forbids both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from deviceplugin.config.document import MigStrategy
from deviceplugin.model.inventory import LeftOut, NodeState
from deviceplugin.model.node import Gpu
from deviceplugin.rules.offer.candidate import Candidate, parts, whole


class Division(Struct, frozen=True):
    """What may be offered, in node order; `state` says why it is nothing, should it be nothing."""

    candidates: tuple[Candidate, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()
    state: NodeState = NodeState.NOTHING


def divide(gpus: Sequence[Gpu], strategy: MigStrategy) -> Division:
    """Cuts the cards of a node as `flags.migStrategy` says."""
    return _STRATEGIES[strategy](gpus)


def _none(gpus: Sequence[Gpu]) -> Division:
    return Division(
        candidates=tuple(whole(gpu) for gpu in gpus),
        warnings=tuple(
            f"{whole(gpu).label} is in MIG mode, which flags.migStrategy none ignores: containers may not reach it; "
            "set the strategy to single or mixed, or switch its MIG mode off"
            for gpu in gpus
            if gpu.mig_enabled
        ),
    )


def _single(gpus: Sequence[Gpu]) -> Division:
    cut = [gpu for gpu in gpus if gpu.mig_enabled]
    if not cut:
        return Division(tuple(whole(gpu) for gpu in gpus), warnings=_pending(gpus))
    if len(cut) < len(gpus):
        return _refused(gpus, NodeState.MIG_PARTIAL, _partial_sentence(gpus))
    division = _instances(gpus)
    profiles = sorted({str(c.profile) for c in division.candidates})
    if len(profiles) > 1:
        return _refused(
            gpus,
            NodeState.MIG_UNEQUAL,
            f"is not offered: flags.migStrategy single needs one profile on the whole node, here are "
            f"{', '.join(profiles)}; make them equal, or set the strategy to mixed",
        )
    return division


def _instances(gpus: Sequence[Gpu]) -> Division:
    """Cards that are not in MIG mode, and the instances of those that are."""
    candidates: list[Candidate] = []
    left_out: list[LeftOut] = []
    for gpu in gpus:
        if not gpu.mig_enabled:
            candidates.append(whole(gpu))
        elif not gpu.instances:
            left_out.append(_empty(gpu))
        for part in parts(gpu):
            flaw = _flaw(part)
            if flaw is None:
                candidates.append(part)
            else:
                left_out.append(flaw)
    empty = [out for out in left_out if out.reason == _EMPTY]
    return Division(
        candidates=tuple(candidates),
        left_out=tuple(left_out),
        warnings=(*(out.detail for out in empty), *_pending(gpus)),
        state=NodeState.MIG_EMPTY if empty and len(empty) == len(gpus) else NodeState.NOTHING,
    )


_EMPTY = "mig-mode-empty"


def _empty(gpu: Gpu) -> LeftOut:
    return whole(gpu).left_out(
        _EMPTY,
        "is in MIG mode and has no instance; create instances (nvidia-smi mig -cgi ... -C), or switch its MIG mode off",
    )


def _flaw(part: Candidate) -> LeftOut | None:
    """Why an instance cannot be offered, None if it can."""
    if not part.complete:
        return part.left_out(
            "partial-compute-instance",
            f"({part.profile or 'profile unknown'}) has a compute instance smaller than its GPU instance; "
            "make one compute instance that fills it (nvidia-smi mig -cci)",
        )
    if part.profile is None:
        return part.left_out(
            "mig-profile-unknown",
            "has a profile that nothing tells; create the instance again, or update the driver",
        )
    return None


def _refused(gpus: Sequence[Gpu], state: NodeState, sentence: str) -> Division:
    """Nothing is offered: every device is named with the same sentence."""
    refused: Iterable[Candidate] = (
        candidate for gpu in gpus for candidate in (parts(gpu) if gpu.instances else (whole(gpu),))
    )
    return Division(left_out=tuple(candidate.left_out(state.value, sentence) for candidate in refused), state=state)


def _partial_sentence(gpus: Sequence[Gpu]) -> str:
    on = ", ".join(str(gpu.index) for gpu in gpus if gpu.mig_enabled)
    off = ", ".join(str(gpu.index) for gpu in gpus if not gpu.mig_enabled)
    return (
        f"is not offered: flags.migStrategy single needs MIG mode on all cards or on none, here it is on for GPU {on} "
        f"and off for GPU {off}; make it the same, leave some out by devices.exclude, or set the strategy to mixed"
    )


def _pending(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    return tuple(
        f"{whole(gpu).label} has MIG mode {_WORD[gpu.mig_enabled]} and {_WORD[gpu.mig_pending]} pending: "
        "reset the GPU (nvidia-smi --gpu-reset) once nothing uses it"
        for gpu in gpus
        if gpu.mig_enabled is not None and gpu.mig_pending is not None and gpu.mig_enabled != gpu.mig_pending
    )


_WORD: Mapping[bool, str] = MappingProxyType({True: "on", False: "off"})

_STRATEGIES: Mapping[MigStrategy, Callable[[Sequence[Gpu]], Division]] = MappingProxyType(
    {MigStrategy.NONE: _none, MigStrategy.SINGLE: _single, MigStrategy.MIXED: _instances}
)
