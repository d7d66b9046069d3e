"""Nodes made by hand and by Hypothesis: cards and MIG instances without a driver below them."""

from typing import Any

from hypothesis import strategies as st

from deviceplugin.model.node import DriverState, Gpu, MigInstance, Node

PRODUCTS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA L40S", "Tesla T4")
PROFILES = ("1g.10gb", "1g.10gb+me", "2g.20gb", "3g.40gb", "7g.80gb", "1g.10gb-me")
GIB = 1 << 30


def card(index: int, **facts: Any) -> Gpu:
    """An H100 with MIG switched off, unless told otherwise; minor and PCI bus differ from the index."""
    given: dict[str, Any] = {
        "uuid": f"GPU-{index:08x}-aaaa-bbbb-cccc-dddddddddddd",
        "pci": f"00000000:{0x10 + index:02X}:00.0",
        "name": PRODUCTS[0],
        "minor": 100 + index,
        "memory": 81559 << 20,
        "compute_capability": (9, 0),
        "numa": index // 4,
        "mig_enabled": False,
        "mig_pending": False,
    }
    return Gpu(index, **(given | facts))


def instance(gpu: int, slot: int, profile: str | None = "1g.10gb", **facts: Any) -> MigInstance:
    """A whole MIG instance with both capability nodes."""
    given: dict[str, Any] = {
        "uuid": f"MIG-{gpu:08x}-{slot:04x}-bbbb-cccc-dddddddddddd",
        "gpu": card(gpu).uuid,
        "gi": 7 + slot,
        "ci": 0,
        "memory_mib": 9856,
        "gi_capability": f"/dev/nvidia-caps/nvidia-cap{gpu * 100 + slot * 2 + 1}",
        "ci_capability": f"/dev/nvidia-caps/nvidia-cap{gpu * 100 + slot * 2 + 2}",
    }
    return MigInstance(slot=slot, profile=profile, **(given | facts))


def cut_card(index: int, *profiles: str | None, **facts: Any) -> Gpu:
    """A card in MIG mode with one instance of each profile."""
    instances = tuple(instance(index, slot, profile) for slot, profile in enumerate(profiles))
    return card(index, **({"mig_enabled": True, "mig_pending": True, "instances": instances} | facts))


def node(*gpus: Gpu) -> Node:
    """A node whose driver is ready."""
    return Node(state=DriverState.READY, gpus=gpus, driver_version="580.95.05")


def cards(count: int) -> Node:
    """So many whole cards."""
    return node(*(card(index) for index in range(count)))


@st.composite
def _instances(draw: st.DrawFn, gpu: int) -> tuple[MigInstance, ...]:
    slots = draw(st.lists(st.integers(0, 13), unique=True, max_size=7))
    return tuple(
        instance(
            gpu,
            slot,
            draw(st.sampled_from((*PROFILES, None))),
            complete=draw(st.sampled_from((True, True, True, False))),
            **draw(st.sampled_from(({}, {}, {}, {"ci_capability": None}))),
        )
        for slot in sorted(slots)
    )


@st.composite
def gpus(draw: st.DrawFn, index: int) -> Gpu:
    """A card of any model, in any MIG mode, lost or not, with any fact missing."""
    mig = draw(st.sampled_from((None, False, True)))
    return card(
        index,
        name=draw(st.sampled_from(PRODUCTS)),
        minor=draw(st.one_of(st.none(), st.just(index), st.just(31 - index))),
        memory=draw(st.sampled_from((None, 15 * GIB, 81559 << 20))),
        numa=draw(st.sampled_from((None, 0, 1, 8))),
        mig_enabled=mig,
        mig_pending=draw(st.booleans()) if mig is not None else None,
        instances=draw(_instances(index)) if mig else (),
        lost=draw(st.sampled_from((False, False, True))),
    )


@st.composite
def nodes(draw: st.DrawFn, most: int = 8) -> Node:
    """A node of up to `most` cards."""
    return node(*(draw(gpus(index)) for index in range(draw(st.integers(0, most)))))
