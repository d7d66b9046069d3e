"""What is declared rather than seen: cordons, rehearsals, and that health cannot be checked at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from deviceplugin.config.document import CheckFailure
from deviceplugin.model.evidence import ChecksFailed, ChecksWorked, Injected, Injection
from deviceplugin.model.health import Verdict
from deviceplugin.rules.judge.address import devices
from deviceplugin.rules.judge.draft import Draft
from deviceplugin.rules.judge.state import Ailment, Source
from deviceplugin.rules.judge.xids import describe

PATIENCE = 3
"""Failures of a source in a row before anything is decided."""


def injected(draft: Draft, evidence: Injected) -> None:
    """Takes the rehearsals that stand now."""
    draft.injections = evidence.injections


def checks_failed(draft: Draft, evidence: ChecksFailed) -> None:
    """Counts a failure, and says after some whether the hardware or our own access is at fault."""
    before = draft.sources.get(evidence.source, Source())
    ours = _ours(draft, evidence)
    source = Source(max(before.rounds + 1, evidence.failures), ours, worked=before.worked)
    draft.sources[evidence.source] = source
    if not (decided(source) and draft.cards):
        return
    first = not decided(before) or before.ours is not ours
    if not ours:
        for gpu, code in evidence.codes.items():
            what = f"health source {evidence.source!r} answers code {code} for this GPU again and again"
            draft.see(Ailment(gpu, gpu, "unanswering", draft.now, draft.now, what, boot_id=draft.boot_id))
    if first:
        draft.notes.append(_complaint(evidence, source))


_OF_ONE_CARD = frozenset({6, 15, 28})
"""NOT_FOUND, GPU_IS_LOST, GPU_NOT_FOUND: what a lost card answers says nothing of what the others share."""


def _ours(draft: Draft, evidence: ChecksFailed) -> bool:
    codes = evidence.codes
    rest = {c.uuid for c in draft.cards.values() if c.present and not c.gone and codes.get(c.uuid) not in _OF_ONE_CARD}
    alike = len(rest) > 1 and rest <= codes.keys() and len({codes[uuid] for uuid in rest}) == 1
    return not evidence.codes or evidence.openable is False or alike


def _complaint(evidence: ChecksFailed, source: Source) -> str:
    said = f"health source {evidence.source!r} cannot be read"
    detail = f" ({evidence.detail})" if evidence.detail else ""
    if not source.ours:
        return f"{said}{detail}: the hardware is at fault, on {', '.join(sorted(evidence.codes))}"
    if evidence.remedy:
        return f"{said}{detail}: {evidence.remedy}"
    nodes = "; this process cannot open the device nodes" if evidence.openable is False else ""
    return (
        f"{said}{detail}: the driver itself or this plugin's own access to the driver is at fault, not one GPU{nodes}. "
        "Look in the kernel log, then check the driver, the mounted driver root and the container's privileges"
    )


def checks_worked(draft: Draft, evidence: ChecksWorked) -> None:
    """The source answers."""
    before = draft.sources.get(evidence.source, Source())
    if decided(before) and draft.cards:
        draft.notes.append(f"health source {evidence.source!r} can be read again")
    draft.sources[evidence.source] = Source(worked=True)


def decided(source: Source) -> bool:
    """Whether it failed so often that this counts: at once for what never worked, unless a card is to be blamed."""
    return source.rounds >= (PATIENCE if source.worked or not source.ours else 1)


def failing(source: Source) -> bool:
    """Whether the source as a whole cannot be read."""
    return source.ours and decided(source)


def checked(sources: Mapping[str, Source]) -> bool:
    """Whether any source of health can be read; before any was tried, it is hoped so."""
    return not sources or not all(failing(source) for source in sources.values())


def declare(draft: Draft) -> None:
    """Brings all declared ailments in line with what is declared and which devices are there."""
    unmatched: set[str] = set()
    wanted: dict[str, list[Ailment]] = {"cordoned": [], "injected": []}
    for declared in (*_cordons(draft), *_rehearsals(draft)):
        found = _resolve(draft, declared)
        wanted[declared.reason] += found
        if not found:
            unmatched.add(f"{declared.template.rule}: {declared.named!r} names no GPU or MIG instance of this node")
    for reason, ailments in wanted.items():
        draft.declare(reason, ailments)
    present = [card.uuid for card in draft.cards.values() if card.present]
    blind = not checked(draft.sources)
    was_blind = any(one.reason == "unchecked" for one in draft.ailments.values())
    if present and blind is not was_blind:
        draft.notes.append(_BLIND[draft.policy.on_check_failure] if blind else "GPUs are checked again")
    draft.declare("unchecked", [_unchecked(draft, uuid) for uuid in present] if blind else [])
    if draft.cards:
        draft.notes += sorted(unmatched - draft.unmatched)
        draft.unmatched = frozenset(unmatched)


class _Declared(Struct, frozen=True):
    named: str
    reason: str
    template: Ailment


def _template(draft: Draft, reason: str, what: str, rule: str, verdict: Verdict = Verdict.UNHEALTHY) -> Ailment:
    return Ailment("", "", reason, draft.now, draft.now, what, rule=rule, verdict=verdict)


def _cordons(draft: Draft) -> Iterable[_Declared]:
    for number, cordon in enumerate(draft.policy.cordon):
        what = f"cordoned: {cordon.reason}" if cordon.reason else "cordoned by the configuration"
        rule = f"health.cordon[{number}]"
        yield _Declared(str(cordon.device), "cordoned", _template(draft, "cordoned", what, rule))


def _rehearsals(draft: Draft) -> Iterable[_Declared]:
    for injection in draft.injections:
        template = _template(draft, "injected", _rehearsed(injection), "health.injectFile", injection.verdict)
        yield _Declared(injection.device, "injected", replace(template, xid=injection.xid))


def _rehearsed(injection: Injection) -> str:
    what = f"a rehearsal of {describe(injection.xid)}" if injection.xid else "a rehearsed fault"
    return f"{what}: {injection.note}" if injection.note else what


def _resolve(draft: Draft, declared: _Declared) -> list[Ailment]:
    """The devices meant. What a name once meant it goes on to mean, though indices move when a GPU falls out."""
    kept = [
        (one.target, one.gpu)
        for one in draft.ailments.values()
        if one.reason == declared.reason and one.named == declared.named and _listed(draft, one)
    ]
    found = kept or [(uuid, card.uuid) for uuid, card in devices(declared.named, draft.cards.values())]
    return [replace(declared.template, target=target, gpu=gpu, named=declared.named) for target, gpu in found]


def _listed(draft: Draft, ailment: Ailment) -> bool:
    card = draft.card(ailment.gpu)
    here = card.present and ailment.target in {card.uuid, *(instance.uuid for instance in card.instances)}
    return here or (ailment.target, "vanished") in draft.ailments or (card.uuid, "vanished") in draft.ailments


_BLIND = MappingProxyType(
    {
        CheckFailure.KEEP: "GPUs are not checked, no source can be read; health.onCheckFailure is keep: they stay as "
        "they were until one can",
        CheckFailure.UNHEALTHY: "GPUs are not checked, no source can be read; health.onCheckFailure is unhealthy: they "
        "are out until one can",
    }
)


def _unchecked(draft: Draft, uuid: str) -> Ailment:
    return Ailment(uuid, uuid, "unchecked", draft.now, draft.now, "no source of health can be read")
