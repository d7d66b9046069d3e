"""One scan: everything the driver shows, as a whole `Node`, in the fewest calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from deviceplugin.model.errors import NvmlError
from deviceplugin.model.node import LEFT_OUT, DriverState, Gpu, Node, Problem
from deviceplugin.nvml import host
from deviceplugin.nvml.api import Handle, NvmlApi
from deviceplugin.nvml.card import CardReader, Surroundings, read_uuid
from deviceplugin.nvml.codes import Code
from deviceplugin.nvml.failure import without_driver
from deviceplugin.nvml.inquiry import Inquiry
from deviceplugin.nvml.mig import Capabilities
from deviceplugin.nvml.pairs import Memory, PairReader
from deviceplugin.nvml.tour import Tour

_MOST = 256
_HANGS = (
    "calls about this GPU hang ({}), and it is left alone until that one comes back: look in the kernel log, then "
    "reset the GPU or reboot the node"
)
_UNCOUNTED = "the driver no longer counts this card, though sysfs shows it: look for {} in the kernel log"


def probe(  # noqa: PLR0913 - a scan is made of these
    api: NvmlApi,
    host_root: str,
    previous: Node | None = None,
    *,
    dev_root: str | None = None,
    machine_type_file: str = host.MACHINE_TYPE,
    tour: Tour | None = None,
) -> Node:
    """Scans the node through an initialised driver.

    Never raises for a query that fails: that costs the fact it would have given, recorded in `Node.problems`. Facts
    that cannot change while a driver is loaded are taken from `previous` where cards are the same.

    Args:
        api: The driver.
        host_root: Where /sys, /proc and /dev of the host are seen.
        previous: The last scan, if there was one: a card that is lost keeps its place and its facts.
        dev_root: Where /dev of the host is seen; `host_root` if not given.
        machine_type_file: File with the machine's product name.
        tour: Which cards to leave out, and where it is noted which one is asked.

    Returns:
        The node; its state is not READY where the driver as a whole could not be asked.
    """
    tour, seen = tour or Tour(), host_root if dev_root is None else dev_root
    try:
        scan = _Scan(api, host_root, previous, tour)
        node = scan.run(seen, machine_type_file)
        # Cards that change places while they are read show one card twice and hide another: a second look tells.
        return _Scan(api, host_root, previous, tour).run(seen, machine_type_file) if scan.doubled else node
    except NvmlError as error:
        return without_driver(error, host_root, previous)


class _Scan:
    def __init__(self, api: NvmlApi, host_root: str, previous: Node | None, tour: Tour) -> None:
        self.api = api
        self.host_root = host_root
        self.previous = previous
        self.tour = tour
        self.inquiry = Inquiry(tour)
        self.handles: dict[str, Handle] = {}
        self.counted = True
        self.doubled = False

    def run(self, dev_root: str, machine_type_file: str) -> Node:
        version = self.inquiry.ask("", self.api.nvmlSystemGetDriverVersion)
        # Another driver version is another driver: nothing that was learnt from the old one holds. One that is not told
        # is no other one: not knowing changes nothing.
        previous = self.previous or Node()
        before = previous if version in {None, previous.driver_version} else Node()
        gpus = _swaps(self._cards(dev_root, before), before, self.inquiry)
        self.doubled = len({gpu.uuid for gpu in gpus}) < len(gpus)
        gpus = _certain(gpus, self.inquiry)
        pairs = PairReader(self.inquiry, self.api, Memory(before), self.tour).read(gpus, self.handles)
        # Asked last: where the driver went away meanwhile, what its files no longer say is not believed.
        cuda = self.inquiry.ask("", self.api.nvmlSystemGetCudaDriverVersion, sane=lambda number: number > 0)
        return Node(
            state=DriverState.READY,
            gpus=gpus,
            pairs=pairs,
            driver_version=before.driver_version if version is None else version,
            cuda_version=None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
            problems=self.inquiry.problems,
            machine=host.machine(self.host_root, machine_type_file),
        )

    def _cards(self, dev_root: str, before: Node) -> tuple[Gpu, ...]:
        capabilities = Capabilities(host.mig_minors(self.host_root), dev_root)
        surroundings = Surroundings(self.host_root, capabilities, {gpu.uuid: gpu for gpu in before.gpus})
        reader = CardReader(self.inquiry, self.api, surroundings)
        names = {gpu.index: gpu.uuid for gpu in before.gpus if not gpu.lost}
        gpus: list[Gpu] = []
        silent: list[int] = []
        for index in self._indices(before):
            name = names.get(index, f"index {index}")
            if name in self.tour.skipped:
                silent.append(index)
                self.inquiry.note(Problem(name, LEFT_OUT, Code.TIMEOUT, _HANGS.format(self.tour.skipped[name])))
                continue
            with self.tour.visit(name):
                gpu = self._card(reader, index)
            if gpu is not None:
                gpus.append(gpu)
            elif self.counted or self.inquiry.code != Code.INVALID_ARGUMENT:
                silent.append(index)
            else:
                break
        missing = [gpu for gpu in before.gpus if gpu.uuid not in self.handles]
        gpus += self._known(silent, missing, len(gpus))
        return tuple(sorted(gpus, key=lambda gpu: gpu.index))

    def _indices(self, before: Node) -> Iterable[int]:
        """Where cards may be; a count that makes no sense is replaced by walking to the last one.

        The walk ends where the driver says so, and if it answers nothing but errors, where no card is known to be.
        """
        count = self.inquiry.ask("", self.api.nvmlDeviceGetCount, sane=lambda number: 0 <= number <= _MOST)
        self.counted = count is not None
        if count is None:
            count = max(len(before.gpus), len(host.cards(self.host_root))) or _MOST
        return range(count)

    def _card(self, reader: CardReader, index: int) -> Gpu | None:
        expected = () if self.counted else {Code.INVALID_ARGUMENT}
        handle = self.inquiry.ask(f"index {index}", self.api.nvmlDeviceGetHandleByIndex, index, expected=expected)
        uuid = None if handle is None else read_uuid(self.inquiry, self.api, handle, f"index {index}")
        if uuid is None:
            return None
        self.handles[uuid] = handle
        return reader.read(handle, index, uuid)

    def _known(self, silent: list[int], missing: list[Gpu], first: int) -> Iterable[Gpu]:
        """Cards of the earlier scan that did not say who they are, or were not counted.

        One that was asked and kept silent is recognised by its index, or by being as many as are missing. One that
        the driver no longer counts but sysfs still shows is lost, and gets an index behind all others.
        """
        missing = sorted(missing, key=lambda gpu: (gpu.index not in silent, gpu.index))
        for index in silent:
            here = [gpu for gpu in missing if gpu.index == index] or missing[: len(missing) == len(silent)]
            if here:
                missing.remove(here[0])
                lost = f"index {index}" in self.inquiry.lost
                yield replace(here[0], index=index, lost=lost or here[0].lost)
        present = frozenset(host.cards(self.host_root) if missing else ())
        gone = [gpu for gpu in missing if host.sysfs_name(gpu.pci) in present]
        for index, gpu in enumerate(gone, first + len(silent)):
            self.inquiry.note(Problem(gpu.uuid, "nvmlDeviceGetCount", Code.GPU_IS_LOST, _UNCOUNTED.format(gpu.pci)))
            yield replace(gpu, index=index, lost=True)


def _swaps(gpus: tuple[Gpu, ...], before: Node, inquiry: Inquiry) -> tuple[Gpu, ...]:
    places = {gpu.uuid: gpu.index for gpu in before.gpus}
    for gpu in gpus:
        was = places.get(gpu.uuid, gpu.index)
        if was != gpu.index:
            detail = f"index {gpu.index} now, {was} in the scan before; cards are told apart by UUID, so nothing moves"
            inquiry.note(Problem(gpu.uuid, "nvmlDeviceGetHandleByIndex", 0, detail))
    return gpus


def _certain(gpus: tuple[Gpu, ...], inquiry: Inquiry) -> tuple[Gpu, ...]:
    """Leaves out what cannot be told apart: cards, then instances, that answer with one and the same UUID."""
    cards = Counter(gpu.uuid for gpu in gpus)
    instances = Counter(instance.uuid for gpu in gpus for instance in gpu.instances)
    for uuid, times in (cards + instances).items():
        if times > 1:
            detail = f"{times} devices answer with this UUID; none of them is offered"
            inquiry.note(Problem(uuid, "nvmlDeviceGetUUID", 0, detail))
    return tuple(
        replace(gpu, instances=tuple(i for i in gpu.instances if instances[i.uuid] == 1))
        for gpu in gpus
        if cards[gpu.uuid] == 1
    )
