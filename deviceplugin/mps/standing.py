"""How the control daemon of a resource is found: asked through its own program, not believed from a file."""

from __future__ import annotations

from deviceplugin.model.errors import MpsError
from deviceplugin.model.mps import MpsPlan
from deviceplugin.mps import ready
from deviceplugin.mps.control import Control, find_program
from deviceplugin.mps.places import READY, Places

START = "run `gpu-device-plugin mps` on this node"


def applied(places: Places, resource: str, driver_root: str) -> MpsPlan:
    """What the daemon was told and answers to. Blocks for a moment.

    Raises:
        MpsError: A piece is missing; it is named with the remedy.
    """
    folder = places.of(resource)
    host = f"{places.host.rstrip('/')}/{resource}"
    if not places.root.is_dir():
        raise MpsError(f"{places.root} is not there; mount the host's {places.host} into this container at /mps")
    if not places.shm.is_dir():
        raise MpsError(f"{places.host.rstrip('/')}/shm is not there, which containers get as /dev/shm; {START}")
    found = ready.read(folder)
    if found is None:
        raise MpsError(f"{host}/{READY} is not there; {START}, its log says what it waits for")
    control = Control(find_program(driver_root), folder)
    try:
        percentage = control.thread_percentage()
    except MpsError as error:
        raise MpsError(f"its control daemon does not answer on {host}/pipe: {error}; {START}") from error
    return MpsPlan(found.plan.devices, percentage)
