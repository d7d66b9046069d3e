"""The handle on a pretend machine: its library, its host root, and everything that can be done to it."""

from __future__ import annotations

import atexit
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fake_nvml.api import Nvml
from fake_nvml.ops import NEW_DRIVER, OLD_DRIVER
from fake_nvml.problem import Refused
from fake_nvml.world import World

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable
    from typing import Self

ROOT_VARIABLE = "FAKE_NVML_ROOT"


class Fake:
    """One process's view of a pretend machine.

    GPUs are named by their number in PCI order, which is the NVML index as long as all of them answer.

    Attributes:
        nvml: pynvml's functions as methods.
        root: the fake host root, with /sys, /proc and /dev as the driver would fill them.
    """

    def __init__(self, spec: str | None, root: Path | None, clock: Callable[[], float] = time.time) -> None:
        given = root or (Path(named) if (named := os.environ.get(ROOT_VARIABLE)) else None)
        self._own = given is None
        self.root: Path = (given or _own_folder()).absolute()
        self._open = True
        try:
            self._world = World(self.root, spec, clock)
        except BaseException:
            self._sweep()
            raise
        self.nvml = Nvml(self._world)
        atexit.register(self.close)

    @property
    def calls(self) -> Counter[str]:
        """How often each function was called in this process."""
        return self.nvml.calls

    @property
    def spec(self) -> str:
        """The machine's name."""
        return self._world.machine.name

    def uuids(self) -> list[str]:
        """The uuids of all GPUs by number, lost and unplugged ones included."""
        return [gpu.uuid for gpu in self._world.machine.gpus]

    def describe(self) -> list[str]:
        """How the machine is, a line for the driver, each GPU, each fault and each holder."""
        return self._world.describe()

    def close(self) -> None:
        """Leave the machine; a root of its own is removed. Calls that hang or wait are let go."""
        if not self._open:
            return
        self._open = False
        self.nvml.closed = True
        atexit.unregister(self.close)
        self._world.close()
        self._sweep()

    def _sweep(self) -> None:
        if self._own:
            import shutil

            shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def do(self, op: str, *, force: bool = False, **arguments: Any) -> None:
        """Order any operation of `fake_nvml.ops` by name; arguments that are None are left out.

        Raises:
            Refused: the machine cannot do that.
            InUse: a process holds the driver open and `force` is false.
        """
        kept = {key: value for key, value in arguments.items() if value is not None}
        self._world.submit({"op": op, **kept}, force=force)

    # what befalls a GPU
    def xid(self, gpu: int, xid: int, *, gi: int | None = None, ci: int | None = None, effects: bool = True) -> None:
        """Raise an Xid; one for the whole GPU sets the recovery action that goes with it, unless told not to."""
        self.do("xid", gpu=gpu, xid=xid, gi=gi, ci=ci, effects=effects)

    def lose(self, gpu: int, *, silent: bool = False) -> None:
        """Let a GPU fall off the bus, with Xid 79 unless silent; calls on it say GPU_IS_LOST."""
        self.do("lose", gpu=gpu, silent=silent)

    def back(self, gpu: int) -> None:
        """Let a lost GPU answer again, to handles from before as well."""
        self.do("back", gpu=gpu)

    def unplug(self, gpu: int) -> None:
        """Take a GPU out: lost to those initialised, gone for the next nvmlInit."""
        self.do("unplug", gpu=gpu)

    def plug(self, gpu: int) -> None:
        """Put an unplugged GPU in again; the next nvmlInit finds it."""
        self.do("plug", gpu=gpu)

    def reset(self, gpu: int, *, force: bool = False) -> None:
        """Reset a GPU; handles from before say GPU_IS_LOST until the next nvmlInit."""
        self.do("reset", gpu=gpu, force=force)

    def mig(self, gpu: int, layout: Iterable[str] | None, *, force: bool = False, pending: bool = False) -> None:
        """Cut a GPU into exactly these instances ([]: MIG on, empty; None: off).

        `pending` changes only the mode that the next reset brings.
        """
        order = {"op": "mig", "gpu": gpu, "layout": None if layout is None else list(layout), "pending": pending}
        self._world.submit(order, force=force)

    def ecc(self, gpu: int, kind: str = "uncorrected", count: int = 1) -> None:
        """Count ECC errors (`corrected` or `uncorrected`), with the event."""
        self.do("ecc", gpu=gpu, kind=_one_of(kind, ("corrected", "uncorrected")), count=count)

    def remap(self, gpu: int, state: str, *, correctable: int | None = None, uncorrectable: int | None = None) -> None:
        """Row remapping: `none`, `pending` or `failure`, and how many rows are remapped."""
        known = ("none", "pending", "failure")
        self.do("remap", gpu=gpu, state=_one_of(state, known), correctable=correctable, uncorrectable=uncorrectable)

    def retire(self, gpu: int, state: str, *, single: int | None = None, double: int | None = None) -> None:
        """Page retirement: `none` or `pending`, and how many pages are retired."""
        self.do("retire", gpu=gpu, state=_one_of(state, ("none", "pending")), single=single, double=double)

    def recovery(self, gpu: int, action: int) -> None:
        """Change the recovery action (field 230), with Xid 154 and the event of its own."""
        self.do("recovery", gpu=gpu, action=action)

    def fabric(self, gpu: int, state: str | None = None, **more: Any) -> None:
        """Change the fabric's word on a GPU: state, status, clique, cluster (32 hex digits), health."""
        known = ("not-supported", "not-started", "in-progress", "completed")
        self.do("fabric", gpu=gpu, state=state and _one_of(state, known), **more)

    def link(self, gpu: int, link: int | str, *, up: bool) -> None:
        """Let an NVLink (or `all` of a GPU) go down or come up."""
        self.do("link", gpu=gpu, link=link, up=up)

    def load(self, gpu: int | None, load: float, memory: float | None = None, *, throttle: int | None = None) -> None:
        """Set how busy a GPU is, 0 to 1 (None: all of them), and how full its memory; default as busy."""
        if not 0 <= load <= 1 or not 0 <= (load if memory is None else memory) <= 1:
            raise Refused("load and memory go from 0 to 1")
        order = {"op": "load", "gpu": gpu, "load": load, "memory": load if memory is None else memory}
        self._world.submit(order if throttle is None else {**order, "throttle": throttle})

    def process(
        self, gpu: int, pid: int, memory_mib: int | None, *, gi: int | None = None, ci: int | None = None
    ) -> None:
        """List a process on a GPU or MIG device; with no memory figure it is gone."""
        self.do("process", gpu=gpu, pid=pid, memory_mib=memory_mib, gi=gi, ci=ci)

    def swap(self, gpu: int, other: int) -> None:
        """Let two GPUs change places in the index order."""
        self.do("swap", gpu=gpu, other=other)

    def event(self, gpu: int, kind: int, data: int = 0, *, gi: int | None = None, ci: int | None = None) -> None:
        """Send any event: kind is a nvmlEventType*."""
        self.do("event", gpu=gpu, kind=kind, data=data, gi=gi, ci=ci)

    # what befalls the calls
    def fault(self, call: str, *, gpu: int | None = None, code: int | None = None, **more: Any) -> None:
        """Lay a fault on a call (a name, a pattern like `nvmlDeviceGet*`, or `field:<id>`).

        Args:
            call: which calls.
            gpu: only those on this GPU or its MIG devices.
            code: the NVML return code they answer.
            **more: `value` (an answer in place of the right one, or a mapping of members to put into that), `delay`
                (seconds), `hang` (until released), `after` (calls that still go through, per process), `times`
                (calls it then hits).
        """
        if "value" in more and more["value"] is None:
            raise Refused("a fault's value cannot be None")
        _known_call(call)
        self.do("fault", call=call, gpu=gpu, code=code, **more)

    def hang(self, call: str = "nvml*", *, gpu: int | None = None) -> None:
        """Let calls hang until `release`."""
        self.fault(call, gpu=gpu, hang=True)

    def release(self, call: str = "*") -> None:
        """Let hanging calls go on, and take their fault away."""
        self.do("release", call=call)

    def clear(self) -> None:
        """Take every fault away."""
        self.do("clear")

    def driver(self, state: str, version: str | None = None, *, force: bool = False) -> None:
        """Change the driver: absent, unloaded, present, mismatch, old, or version with a version.

        `mismatch` loads a newer kernel driver: processes that loaded the library before answer
        LIB_RM_VERSION_MISMATCH for the rest of their life, later ones work.
        """
        orders: dict[str, dict[str, Any]] = {
            "absent": {"library": False, "loaded": False},
            "unloaded": {"library": True, "loaded": False},
            "present": {"library": True, "loaded": True},
            "mismatch": {"library": True, "loaded": True, "version": version or NEW_DRIVER, "reload": True},
            "old": {"library": True, "loaded": True, "version": version or OLD_DRIVER, "reload": True},
            "version": {"library": True, "loaded": True, "version": version, "reload": True},
        }
        if state == "version" and version is None:
            raise Refused("driver version: which? (for example 580.95.05)")
        self.do("driver", force=force, **orders[_one_of(state, tuple(orders))])


def _own_folder() -> Path:
    import tempfile

    return Path(tempfile.mkdtemp(prefix="fake-nvml-"))


def _one_of(given: str, known: tuple[str, ...]) -> str:
    if given not in known:
        raise Refused(f"{given!r} is none of {', '.join(known)}")
    return given


def _known_call(call: str) -> None:
    import difflib
    from fnmatch import filter as matching

    from fake_nvml.api.nvml import pretended

    names = pretended()
    if call.startswith("field:") or matching(names, call):
        return
    near = difflib.get_close_matches(call, names, n=3) or ["nvmlDevice*"]
    raise Refused(f"no call matches {call!r}; did you mean {' or '.join(near)}?")
