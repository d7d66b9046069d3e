"""Every way to hand devices over, against tables of answers written out."""

from pathlib import Path

import pytest

from deviceplugin.model.grant import DeviceNode, Grant, Mount
from deviceplugin.model.inventory import Handover, Inventory, Resource, Share, Sharing
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.allocate import allocate

GOLDEN = Path(__file__).parents[1] / "golden" / "allocate"
WHOLE = (Share("GPU-a", "GPU-a", "GPU-a", 0, "0", minor=0), Share("GPU-c", "GPU-c", "GPU-c", 2, "2", minor=3))
CUT = tuple(
    Share(
        uuid,
        uuid,
        "GPU-b",
        1,
        f"1:{slot}",
        minor=1,
        capabilities=tuple(f"/dev/nvidia-caps/nvidia-cap{n}" for n in caps),
    )
    for uuid, slot, caps in (("MIG-e", 0, (3, 4)), ("MIG-f", 2, (5, 6)))
)
REPLICAS = tuple(
    Share(f"{whole.id}::{n}", whole.id, whole.gpu, whole.gpu_index, whole.visible_index, n, minor=whole.minor)
    for whole in WHOLE
    for n in range(2)
)
KINDS = {
    "whole": (Resource("nvidia.com/gpu", WHOLE), ("GPU-c", "GPU-a")),
    "mig": (Resource("nvidia.com/mig-3g.40gb", CUT), ("MIG-f", "MIG-e")),
    "replica": (
        Resource("nvidia.com/gpu.shared", REPLICAS, Sharing.TIME_SLICING),
        ("GPU-c::0", "GPU-a::1", "GPU-a::0"),
    ),
    "mps": (Resource("nvidia.com/gpu.shared", REPLICAS, Sharing.MPS), ("GPU-c::0", "GPU-a::1", "GPU-a::0")),
}
MISSING = {"/driver-root/dev/nvidia-uvm-tools", "/driver-root/dev/nvidia-modeset"}


def rows() -> list[tuple[str, str]]:
    return [
        (kind, line)
        for kind in KINDS
        for line in (GOLDEN / f"{kind}.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]


def written(answer: str) -> Grant:
    """The grant that a line's last column spells."""
    envs: dict[str, str] = {}
    notes: dict[str, str] = {}
    mounts: list[Mount] = []
    devices: list[DeviceNode] = []
    cdi: list[str] = []
    for word in answer.split():
        form, _, rest = word.partition(":")
        if form == "mount":
            host, _, container = rest.partition(":")
            mounts.append(Mount(container, host))
        elif form == "dev":
            devices.append(DeviceNode(f"/dev/{rest}", f"/dev/{rest}"))
        elif form == "note":
            key, _, value = rest.partition("=")
            notes[key] = value
        elif form == "cdi":
            cdi.append(rest)
        else:
            name, _, value = word.partition("=")
            envs[name] = value
    return Grant(envs, tuple(mounts), tuple(devices), notes, tuple(cdi))


@pytest.mark.parametrize(("kind", "row"), rows(), ids=lambda value: value.rpartition("|")[0] if "|" in value else value)
def test_the_answer_is_the_one_in_the_table(kind: str, row: str) -> None:
    strategies, ids, specs, imex, answer = (column.strip() for column in row.split(" | "))
    resource, wanted = KINDS[kind]
    handover = Handover(
        strategies=tuple(strategies.split("+")),
        by_index=ids == "index",
        pass_device_specs=specs == "specs",
        dev_root_seen="/driver-root",
        imex_channels=(0,) if imex == "imex" else (),
        mps_root="/run/nvidia/mps",
    )
    snapshot = Snapshot(inventory=Inventory({resource.name: resource}, handover=handover))
    grant = allocate(snapshot, resource, wanted, lambda path: path not in MISSING, lambda: "u1")
    assert grant == written(answer)


def test_the_tables_have_every_combination() -> None:
    heads = {(kind, *(column.strip() for column in row.split(" | ")[:4])) for kind, row in rows()}
    assert len(heads) == len(rows()) == len(KINDS) * 15 * 2 * 2 * 2
