"""What to say of a key that the document does not have: the nearest one, its right place, or why it is not needed."""

from __future__ import annotations

from msgspec import Struct

from deviceplugin.config.document import Config, Document
from deviceplugin.config.shapes import all_keys, keys
from deviceplugin.config.wording import nearest, quote

MANIFEST = (
    "is a Kubernetes manifest; give the plugin the text under its data (of a ConfigMap) or config.map (of Helm values)"
)
NO_KEY = 'a key must be a word; a template such as "{{ ... }}" was not rendered, or a text lacks its quotes'

_ALIASES = {("resources", "migs"): "mig"}

_IDLE = {
    "flags.restartOnDeviceUnhealthy": "an Unhealthy device needs no restart here",
    "sharing.timeSlicing.strategy": "time slices are made by the driver; sharedDevicesAllocationPolicy chooses GPUs",
    "health.eventTypes": "every kind of event that the GPU supports is watched",
}
"""Keys that some release or branch of NVIDIA's plugin reads, and this one need not."""

_RENAMED = {
    "health.ignoredXIDs": "write health.ignored",
    "health.criticalXIDs": 'write health.fatal with the list; "all" is unknownXid: fatal and an empty ignored list',
    "health.disabled": "write unknownXid: ignore and empty lists fatal and recoverable, or set DP_DISABLE_HEALTHCHECKS",
}

_EXAMPLES = {
    "name": 'write for example "name: nvidia.com/gpu"',
    "pattern": 'write "pattern: \\"*\\"" for every device',
    "replicas": 'write for example "replicas: 4"',
    "device": "write the UUID or index of the GPU",
    "resources": 'list at least one resource, "- name: nvidia.com/gpu" and below it "replicas: 4"',
}

_STAND_INS: dict[str, object] = {"name": "unnamed", "pattern": "*", "replicas": 2, "device": "unnamed", "resources": []}

_PLACES_SHOWN = 2
_ALMOST = 0.8


class Verdict(Struct, frozen=True):
    """What a key is taken for, if for anything, and what to say of it."""

    key: str | None = None
    problem: str = ""
    warning: str = ""


def is_manifest(top: set[str]) -> bool:
    """Whether these keys at the top are those of a Kubernetes object."""
    return {"apiVersion", "kind"} <= top


def example(name: str) -> str:
    """How to write a key that is required."""
    return _EXAMPLES[name]


def stand_in(name: str) -> object:
    """A value for a required key whose own is missing or wrong, so that the rest can be judged."""
    return _STAND_INS[name]


def unknown(name: str, section: type[Document], path: str) -> Verdict:
    """What to make of a key that the section at this path does not have."""
    here = f"{path}.{name}" if path else name
    if alias := _ALIASES.get((path, name)):
        return Verdict(key=alias)
    if here in _IDLE:
        return Verdict(warning=f"has no effect: {_IDLE[here]}; delete it")
    if here in _RENAMED:
        return Verdict(problem=f"is not known here; {_RENAMED[here]}")
    for known in keys(section):
        if known.lower() == name.lower():
            return Verdict(key=known, warning=f"is read as {known}; write it so")
    return Verdict(problem=f"is not known here; {_hint(name, section, path)}")


def _hint(name: str, section: type[Document], path: str) -> str:
    elsewhere = [above for above, key in all_keys(Config) if key.lower() == name.lower() and above != path]
    if elsewhere:
        elsewhere.sort(key=lambda above: not above.startswith(path))
        return f"it belongs under {' or '.join(above or 'the top' for above in elsewhere[:_PLACES_SHOWN])}"
    here = list(keys(section))
    if near := nearest(name, here, _ALMOST):
        return f"did you mean {near}?"
    if near := nearest(name, [key for _, key in all_keys(Config)], _ALMOST):
        above = next(above for above, key in all_keys(Config) if key == near)
        return f"did you mean {near} under {above or 'the top'}?"
    if near := nearest(name, here):
        return f"did you mean {near}?"
    spaces = f"{quote(name)} holds a blank; " if " " in name.strip() else ""
    return f"{spaces}the keys here are {', '.join(here)}"
