"""Tables of what each machine gives, to be read by people; `python -m tests.golden.prefer_tables` writes them anew."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from deviceplugin.config.document import Config, Flags, MigStrategy
from deviceplugin.model.inventory import Inventory, Resource
from deviceplugin.model.snapshot import Snapshot
from deviceplugin.rules.offer import offer
from deviceplugin.rules.prefer.prefer import Preference, prefer
from tests.strategies.fabrics import MACHINES, scan

FOLDER = Path(__file__).parent / "prefer"
FILLS = ((2, 2, 2, 2), (4, 4), (2, 2, 4), (1, 3, 4), (3, 3, 2), (1, 1, 2, 4))


def table(machine: str) -> str:
    """Of each resource every size from the whole node; of eight cards, what one request after another gets."""
    inventory = _inventory(machine)
    close = inventory.closeness
    numa = " ".join("?" if node is None else str(node) for node in close.numa)
    lines = [
        f"{machine}: {len(close.uuids)} GPUs; NVLink domain {' '.join(map(str, close.domain))}; NUMA node {numa}",
    ]
    for resource in inventory.resources.values():
        lines += ["", f"{resource.name}: {len(resource.shares)}", *_sizes(machine, resource)]
        if resource.mig_profile is None and len(resource.shares) == sum(FILLS[0]):
            lines += ["", "one after the other"]
            lines += [f"  {', '.join(map(str, s)):<11} {'  '.join(_filled(machine, resource, s))}" for s in FILLS]
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=64)
def _inventory(machine: str) -> Inventory:
    return offer(scan(machine), Config(flags=Flags(mig_strategy=MigStrategy.MIXED)))


def _sizes(machine: str, resource: Resource) -> Iterator[str]:
    count = min(16, len(resource.shares))
    wide = max(4, len(_cards(resource, range(count))), 3 * count)
    yield f"{'size':>4}  {'GPUs':<{wide}} domains  smallest  sum NVLink  NUMA  PCIe  decided by"
    for size in range(1, count + 1):
        answer = _answer(machine, resource, range(len(resource.shares)), size)
        yield (
            f"{size:>4}  {_cards(resource, _places(resource, answer)):<{wide}} {answer.domains:>7}  "
            f"{answer.min_nvlink:>8}  {answer.sum_nvlink:>10}  {answer.numa_nodes:>4}  {answer.sum_pcie:>4}  "
            f"{answer.decided_by}"
        )


def _cards(resource: Resource, places: Sequence[int]) -> str:
    """Indices of cards; for MIG instances with how many are on each."""
    on = Counter(resource.shares[place].gpu_index for place in places)
    if resource.mig_profile is None:
        return " ".join(map(str, on))
    return " ".join(f"{card}x{number}" for card, number in on.items())


def _places(resource: Resource, answer: Preference) -> list[int]:
    return [place for place, share in enumerate(resource.shares) if share.id in answer.ids]


def _filled(machine: str, resource: Resource, sizes: Sequence[int]) -> Iterator[str]:
    free = list(range(sum(sizes)))
    for size in sizes:
        taken = _places(resource, _answer(machine, resource, free, size))
        free = [place for place in free if place not in taken]
        yield f"[{_cards(resource, taken)}]"


def _answer(machine: str, resource: Resource, free: Sequence[int], size: int) -> Preference:
    snapshot = Snapshot(inventory=_inventory(machine))
    return prefer(snapshot, resource, [resource.shares[place].id for place in free], (), size)


def path(machine: str) -> Path:
    """The golden file of a machine."""
    return FOLDER / f"{machine}.txt"


def write() -> None:
    """Writes all tables."""
    for machine in MACHINES:
        path(machine).write_text(table(machine))


if __name__ == "__main__":
    write()
