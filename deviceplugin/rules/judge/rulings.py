"""What each ailment does under the policy in force, and the sentences that say so."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from deviceplugin.config.document import CheckFailure, HealthPolicy, HealthSection
from deviceplugin.model.health import Kind, Verdict
from deviceplugin.rules.judge.state import Ailment, Card
from deviceplugin.rules.judge.states import STATES
from deviceplugin.rules.judge.xids import Ruling, classify

BUILT_IN = "built-in"
"""Rule of what no configuration can change: a GPU that is not there serves nobody."""

VERDICTS: Mapping[HealthPolicy, Verdict] = MappingProxyType(
    {
        HealthPolicy.IGNORE: Verdict.HEALTHY,
        HealthPolicy.RANK_LAST: Verdict.RANK_LAST,
        HealthPolicy.UNHEALTHY: Verdict.UNHEALTHY,
    }
)
FAULTS = frozenset({Kind.LOST, Kind.RESET_REQUIRED, Kind.STATE, Kind.RECOVERABLE})
"""What hardware does, as opposed to what people declare."""

_FIXED: Mapping[str, Ruling] = MappingProxyType(
    {
        "lost": Ruling(Verdict.UNHEALTHY, Kind.LOST, BUILT_IN),
        "vanished": Ruling(Verdict.UNHEALTHY, Kind.LOST, BUILT_IN),
        "unanswering": Ruling(Verdict.UNHEALTHY, Kind.LOST, BUILT_IN),
        "unavailable": Ruling(Verdict.UNHEALTHY, Kind.RESET_REQUIRED, BUILT_IN),
    }
)
_ECC: Mapping[str, Kind | None] = MappingProxyType(
    {"ecc-double-bit": None, "ecc-contained": Kind.RECOVERABLE, "ecc-fatal": Kind.RESET_REQUIRED}
)
"""ECC events. A double-bit error needs a reset unless the card remaps rows: then its states tell."""
_DECLARED: Mapping[str, Kind] = MappingProxyType({"cordoned": Kind.CORDONED, "injected": Kind.INJECTED})
_KEPT = MappingProxyType({CheckFailure.KEEP: Verdict.HEALTHY, CheckFailure.UNHEALTHY: Verdict.UNHEALTHY})


def known(reason: str, xid: int | None) -> bool:
    """Whether hardware can have an ailment of this name (so that it can be taken up from an earlier life)."""
    return reason == f"xid-{xid}" or reason in STATES or reason in _FIXED or reason in _ECC


def ruling(ailment: Ailment, policy: HealthSection, card: Card) -> Ruling:
    """What the ailment does under `policy`."""
    reason = ailment.reason
    if reason in _FIXED:
        return _FIXED[reason]
    if reason in STATES:
        state = STATES[reason]
        return Ruling(VERDICTS[getattr(policy, state.policy)], Kind.STATE, state.rule)
    if reason in _ECC:
        kind = _ECC[reason] or (Kind.RECOVERABLE if card.remaps else Kind.RESET_REQUIRED)
        return Ruling(VERDICTS[policy.ecc], kind, "health.ecc")
    if reason in _DECLARED:
        return Ruling(ailment.verdict, _DECLARED[reason], ailment.rule)
    if reason == "unchecked":
        return Ruling(_KEPT[policy.on_check_failure], Kind.UNCHECKED, "health.onCheckFailure")
    ruled = classify(ailment.xid or 0, policy)
    # To ignore what happened is no evidence that it is over: it still ends as it would have.
    return Ruling(ruled.verdict, ailment.kind, ruled.rule) if ruled.verdict is Verdict.HEALTHY else ruled


def way_back(ailment: Ailment, kind: Kind, hold: float) -> str:
    """What brings the device back, as the end of a sentence that begins with `it comes back`."""
    quiet = f" and {hold:g} s have passed since it last happened" if hold else ""
    if kind is Kind.STATE:
        return STATES[ailment.reason].back + quiet
    return _BACK[kind].format(quiet=quiet)


_BACK: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.LOST: "when it answers a whole scan again{quiet}",
        Kind.RESET_REQUIRED: "after a GPU reset or a reboot, when the driver reports no recovery action and nothing "
        "pending{quiet}",
        Kind.RECOVERABLE: "when the driver reports no recovery action and nothing pending{quiet}",
        Kind.CORDONED: "when its entry is taken out of health.cordon",
        Kind.INJECTED: "when its line is taken out of the file that health.injectFile names",
        Kind.UNCHECKED: "when a source of health can be read again",
    }
)


def how_back(kind: Kind) -> str:
    """Why the device is back, as a clause."""
    return _RETURNED[kind]


_RETURNED: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.LOST: "the device answers a whole scan again",
        Kind.RESET_REQUIRED: "a reset was seen, and the driver reports no recovery action and nothing pending",
        Kind.RECOVERABLE: "the driver reports no recovery action and nothing pending, and the quiet period is over",
        Kind.STATE: "the driver no longer reports it",
        Kind.CORDONED: "health.cordon does not name the device any more",
        Kind.INJECTED: "the rehearsal is over",
        Kind.UNCHECKED: "health can be read again",
    }
)
