"""What can happen to kubelet, plugin, configuration and pods; see `deeds` for the manner."""

import contextlib
from dataclasses import replace

import grpc

from tests.bench.measure import Client
from tests.chaos.deeds import ALWAYS_THERE
from tests.chaos.model import books
from tests.chaos.scene import ChaosError, Scene
from tests.fake_kubelet import AdmissionFailed, Pod
from tests.waiting import wait_until

INVALID = (
    "flags: {migStrategie: mixed}\n",
    "flags: [\n",
    "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 60000}]}}\n",
    "health: {quietPeriod: soon}\n",
)


def restart_kubelet(scene: Scene) -> str | None:
    """In order."""
    scene.kubelet.restart()
    return "the kubelet restarts"


def kill_kubelet(scene: Scene) -> str | None:
    """By kill -9, and it comes again at once or later."""
    if not scene.kubelet.running:
        scene.raise_kubelet()
        return "the kubelet starts"
    scene.kubelet.kill()
    if scene.rng.random() < 0.5:
        scene.raise_kubelet()
        return "the kubelet is killed and starts"
    return "the kubelet is killed"


def stop_kubelet(scene: Scene) -> str | None:
    """In order, or it starts again."""
    if not scene.kubelet.running:
        scene.raise_kubelet()
        return "the kubelet starts"
    scene.kubelet.stop()
    return "the kubelet stops"


def replace_folder(scene: Scene) -> str | None:
    """Its folder is another one."""
    scene.drop_onlookers()
    scene.kubelet.replace_folder()
    return "the kubelet's folder is replaced"


def restart_often(scene: Scene) -> str | None:
    """It restarts several times in a row, soon after the next Register."""
    pauses = tuple(scene.rng.choice((0.0, 0.01, 0.05, 0.2)) for _ in range(scene.rng.randrange(1, 4)))
    scene.kubelet.faults.restarts_after_register = pauses
    if scene.kubelet.running:
        scene.kubelet.restart()
    return f"the kubelet restarts after the next Register, {pauses}"


def cut(scene: Scene) -> str | None:
    """The kubelet ends a stream and keeps its socket."""
    names = sorted(scene.lists)
    name = scene.rng.choice(names) if names else ""
    with contextlib.suppress(LookupError, RuntimeError):
        scene.kubelet.cut_stream(name)
        return f"the stream of {name} is cut"
    return None


def refuse(scene: Scene) -> str | None:
    """It refuses the API version for a while."""
    scene.kubelet.faults.refuse_version = not scene.kubelet.faults.refuse_version
    return f"the kubelet {'refuses' if scene.kubelet.faults.refuse_version else 'takes'} the version"


def look_on(scene: Scene) -> str | None:
    """Somebody else opens a stream, or all of them leave."""
    if scene.rng.random() < 0.3:
        scene.drop_onlookers()
        return "all onlookers leave"
    names = sorted(scene.lists)
    name = scene.rng.choice(names) if names else ""
    scene.look_on(name)
    return f"an onlooker opens {name}"


def hang_up(scene: Scene) -> str | None:
    """SIGHUP, once or as a burst."""
    times = scene.rng.choice((1, 1, 5))
    for _ in range(times):
        scene.signal_up()
    return f"SIGHUP, {times} times"


def kill_plugin(scene: Scene) -> str | None:
    """kill -9 and a new start: only what no state of the driver repeats could be forgotten, so not after that."""
    if scene.stretch.bare:
        return None
    scene.plugin.kill()
    scene.start()
    return "the plugin is killed and starts"


def restart_plugin(scene: Scene) -> str | None:
    """SIGTERM and a new start."""
    if scene.stretch.bare:
        return None
    scene.stop()
    scene.start()
    return "the plugin restarts"


def roll(scene: Scene) -> str | None:
    """A second instance comes and the first one goes."""
    if scene.stretch.bare:
        return None
    scene.succeed()
    return "a second instance takes over"


def late_driver(scene: Scene) -> str | None:
    """The plugin starts before the driver is there."""
    if scene.stretch.bare or not books(scene.fake).loaded:
        return None
    scene.stop()
    scene.fake.driver("unloaded", force=True)
    scene.start()
    pause = scene.rng.choice((0.0, 0.1, 0.5))
    with contextlib.suppress(AssertionError):
        wait_until(lambda: False, timeout=pause)
    scene.stretch.blind = True
    scene.fake.driver("present", force=True)
    return f"the driver comes {pause:g} s after the plugin"


def configure(scene: Scene) -> str | None:
    """Another valid configuration, or several in a row."""
    times = scene.rng.choice((1, 1, 1, 5))
    removable = sorted(one.gpu.uuid for one in books(scene.fake).gpus if one.number >= ALWAYS_THERE)
    every = sorted(one.gpu.uuid for one in books(scene.fake).gpus)
    for _ in range(times):
        change = scene.rng.choice(("replicas", "rename", "cordon", "exclude"))
        settings = {
            "replicas": lambda: replace(scene.settings, replicas=scene.rng.choice((1, 2, 4, 10))),
            "rename": lambda: replace(scene.settings, rename=scene.rng.choice(("", "shared", "slice"))),
            "cordon": lambda: replace(scene.settings, cordon=_some(scene, every)),
            "exclude": lambda: replace(scene.settings, exclude=_some(scene, removable)),
        }[change]()
        scene.stretch.shaken |= settings.cordon | scene.settings.cordon
        scene.configure(settings)
        scene.note()
    return f"configuration: {scene.settings.text.strip()!r}"


def _some(scene: Scene, uuids: list[str]) -> frozenset[str]:
    return frozenset(scene.rng.sample(uuids, scene.rng.choice((0, 0, 1, 2))))


def misconfigure(scene: Scene) -> str | None:
    """An invalid one, which must change nothing; the valid one is written again at the rest."""
    if scene.stretch.restarted:
        return None
    scene.stretch.misconfigured = True
    text = scene.rng.choice(INVALID)
    scene.node.configure(text)
    return f"invalid configuration {text.strip()!r}"


def admit(scene: Scene) -> str | None:
    """A pod wants devices."""
    names = sorted(scene.lists)
    if not names or not scene.kubelet.running:
        return None
    name, size = scene.rng.choice(names), scene.rng.choice((1, 1, 2, 3))
    scene.pods += 1
    pod = f"pod-{scene.pods}"
    try:
        grant = scene.kubelet.admit(Pod(pod, containers={"main": {name: size}}))["main"]
    except (AdmissionFailed, RuntimeError) as error:
        return f"{pod} is not admitted: {error}"
    ids = grant.ids.get(name, ())
    check_grant(scene, name, ids, grant.envs)
    return f"{pod} gets {', '.join(ids)} of {name}"


def check_grant(scene: Scene, name: str, ids: tuple[str, ...], envs: object) -> None:
    """Raises `ChaosError` where an id was given that was not offered, or the answer names other devices."""
    offered = {id_ for world in scene.stretch.worlds for id_ in world.get(name, ())}
    if strange := set(ids) - offered:
        raise ChaosError(f"ids of {name} were given that were not offered: {sorted(strange)}")
    visible = dict(envs if isinstance(envs, dict) else {}).get("NVIDIA_VISIBLE_DEVICES", "")
    if set(visible.split(",")) != {id_.partition("::")[0] for id_ in ids}:
        raise ChaosError(f"{sorted(ids)} of {name} were answered with {visible!r}")


def delete(scene: Scene) -> str | None:
    """Some pods end."""
    if not scene.kubelet.running:
        return None
    names = sorted(scene.kubelet.pods)
    gone = names if scene.rng.random() < 0.3 else names[:2]
    for name in gone:
        scene.kubelet.delete(name)
    return f"{len(gone)} pods end"


def ask_for_nothing_known(scene: Scene) -> str | None:
    """Allocate of an id that was never offered must be refused."""
    if not scene.kubelet.running:
        return None
    for name, view in scene.kubelet.resources.items():
        path = scene.node.kubelet_folder / view.endpoint
        if view.endpoint and path.exists():
            return ask_in_vain(Client(path), name, "GPU-00000000-never-was")
    return None


def ask_in_vain(client: Client, name: str, id_: str) -> str:
    """Asks for an id that must not be given."""
    try:
        client.allocate([id_])
    except grpc.RpcError as error:
        return f"{id_} of {name} is refused: {error.code().name}"
    finally:
        client.close()
    raise ChaosError(f"{name}: {id_} was given")
