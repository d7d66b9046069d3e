"""What an operator does about each cause of ill health. One table: page, terminal and runbooks say the same."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "lost": "Drain the node and reboot it; if the GPU stays away, reseat or replace it.",
        "vanished": "If nobody took the GPU or MIG instance out, look in the kernel log and reboot the node.",
        "unanswering": "The driver does not answer for it: see the kernel log, then reset the GPU or reboot the node.",
        "unavailable": "Reset the GPU (nvidia-smi --gpu-reset), after `gpu-device-plugin release`.",
        "recovery-action": "Do what the driver asks for; for a reset run `gpu-device-plugin release` first.",
        "remap-failure": "No spare memory row is left: have the board replaced.",
        "remap-pending": "Nothing is urgent: reset the GPU when its work is done, and the row is remapped.",
        "retired-pages-pending": "Nothing is urgent: reset the GPU when its work is done, and the pages are retired.",
        "ecc-uncorrectable": "Reset the GPU; if the errors come again, run diagnostics and have the board replaced.",
        "ecc-double-bit": "Reset the GPU; if the errors come again, run diagnostics and have the board replaced.",
        "ecc-fatal": "Reset the GPU; if the errors come again, run diagnostics and have the board replaced.",
        "ecc-contained": "One application ended, the GPU goes on. Watch for repetition.",
        "fabric": "Look at the fabric manager (systemctl status nvidia-fabricmanager) and its log.",
        "nvlink-down": "Reset the GPU; if the link stays down, reseat the bridge or board.",
        "cordoned": "Taken out by hand: remove the entry from health.cordon to bring it back.",
        "injected": "A rehearsal: remove the line from the inject file to end it.",
        "mps-not-ready": "Run `gpu-device-plugin mps` on the node with the same configuration, and look in its log.",
        "unchecked": "No source of health can be read: see the log for the call that fails and its code.",
    }
)
"""By reason; Xids are in XID_ADVICE."""

XID_ADVICE: Mapping[int, str] = MappingProxyType(
    {
        48: "Double-bit ECC error: reset the GPU; if it comes again, have the board replaced.",
        62: "The GPU's own firmware stopped: reset the GPU, update driver and firmware if it comes again.",
        64: "A row could not be remapped: reset the GPU; if it comes again, have the board replaced.",
        74: "NVLink error: reset all GPUs of the board; if it comes again, check bridges and switches.",
        79: "The GPU has fallen off the bus: reboot the node; if it comes again, check seating, power and cooling.",
        94: "A contained memory error: one application ended; the GPU comes back by itself after a quiet time.",
        95: "An uncontained memory error: reset the GPU.",
        119: "The GPU's system processor does not answer: reset the GPU; update the driver if it comes again.",
        120: "The GPU's system processor stopped: reset the GPU; update the driver if it comes again.",
        140: "An unrecovered ECC error: reset the GPU.",
        143: "The GPU could not be initialised: reset the GPU or reboot the node.",
    }
)

_XID = "xid-"
_UNKNOWN = "See the kernel log (dmesg -T | grep -i nvrm) and the plugin's log."
_UNKNOWN_XID = "Look the Xid up in NVIDIA's list; a GPU reset ends most of them."


def advise(reason: str) -> str:
    """One sentence of what to do about a cause of ill health."""
    number = reason.removeprefix(_XID)
    if number != reason and number.isdecimal():
        return XID_ADVICE.get(int(number), _UNKNOWN_XID)
    return ADVICE.get(reason, _UNKNOWN)
