"""A pretend NVIDIA driver at pynvml's own function set, for dry runs and tests without a GPU.

    with fake_nvml.open("hgx-h100-8") as fake:
        fake.nvml.nvmlInit()
        fake.xid(3, 79)

It imitates the vendor's driver, not its users: calls in the wrong state, stale handles, empty MIG slots and
structures of the wrong version fail as they do there. Where the driver's conduct is not written down, this is
what the fake does:

- GPUs are found by the first nvmlInit and no other call. One that is lost, unplugged or reset later answers
  GPU_IS_LOST and still counts; one plugged in later is not seen. The next first nvmlInit (after as many
  nvmlShutdown as there were nvmlInit) counts only those that answer. `back` is the exception: a GPU that comes
  back answers old handles again.
- nvmlEventSetWait hands out what has come, then says GPU_IS_LOST as long as a registered GPU is lost.
- A driver that was exchanged under a process leaves it with LIB_RM_VERSION_MISMATCH for good.
- Links of a GPU in MIG mode, or to one that is lost, are inactive.

State lives in `<root>/control` and is the same for all processes that open the root; `python -m
fake_nvml.control` changes it from outside.
"""

from __future__ import annotations

from pathlib import Path

from fake_nvml.fake import Fake
from fake_nvml.machine import UnknownMachine, names
from fake_nvml.problem import InUse, Malformed, Refused

__all__ = ["Fake", "InUse", "Malformed", "Refused", "UnknownMachine", "attach", "names", "open"]


def open(spec: str, root: Path | None = None) -> Fake:  # noqa: A001  opens a machine as one opens a file
    """Open a pretend machine.

    Args:
        spec: a name of the catalogue (`names()`) or the path of a file with the text of `nvidia-smi topo -m`
            (`box.topo`); options follow as in a URL: `box.topo?model=NVIDIA L40S&remote=hidden`,
            `t4x1?driver=470.256.02`.
        root: where state and fake host files live, shared by all processes that open it; the variable
            FAKE_NVML_ROOT if not given, else a folder of its own that goes when the machine is closed.

    Raises:
        UnknownMachine: no such machine; the message lists those there are.
        Malformed: the file is no topology matrix; the message has line and column.
    """
    return Fake(spec, Path(root) if root is not None else None)


def attach(root: Path) -> Fake:
    """Open the machine that another process has put under a root.

    Raises:
        UnknownMachine: there is none.
    """
    if not (Path(root) / "control" / "journal").is_file():
        raise UnknownMachine(f"no pretend machine runs under {root}; start one there first")
    return Fake(None, Path(root))
