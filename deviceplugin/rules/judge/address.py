"""Which device is meant: by the instance numbers of an event, or by the name a person gave."""

from __future__ import annotations

from collections.abc import Iterable

from deviceplugin.rules.identify import pci_forms
from deviceplugin.rules.judge.state import Card

WHOLE = 0xFFFFFFFF
"""gpuInstanceId and computeInstanceId of an event that names no instance."""


def _given(number: int | None) -> bool:
    return number is not None and 0 <= number < WHOLE


def instances(card: Card, gi: int | None, ci: int | None) -> tuple[str, ...]:
    """UUIDs of the MIG instances an event is about; empty where it is about the whole card.

    Where one number only is given, it alone is matched. An event for an instance that the last scan did not show is
    about the card: it cannot be placed, so the fault may be in any part of the card; capacity that is held back too
    long costs less than pods on bad hardware.
    """
    if not (_given(gi) or _given(ci)):
        return ()
    return tuple(
        instance.uuid
        for instance in card.instances
        if (not _given(gi) or instance.gi == gi) and (not _given(ci) or instance.ci == ci)
    )


def devices(name: str, cards: Iterable[Card]) -> tuple[tuple[str, Card], ...]:
    """The present devices that a person means by a UUID, index, `gpu:mig` index or PCI bus id, each with its card."""
    wanted = name.strip()
    found: list[tuple[str, Card]] = []
    for card in cards:
        if not card.present:
            continue
        if wanted in (card.uuid, str(card.index)) or wanted.lower() in pci_forms(card.pci):
            found.append((card.uuid, card))
        found.extend(
            (instance.uuid, card)
            for instance in card.instances
            if wanted in (instance.uuid, f"{card.index}:{instance.slot}")
        )
    return tuple(found)
