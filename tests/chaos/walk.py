"""The walk: stretches of deeds, and a rest after each in which plugin and model must come to agree."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.bench.measure import Client
from tests.chaos import deeds, life
from tests.chaos.model import GPU, Listed, Lists, Settings, books
from tests.chaos.scene import RESCAN, ChaosError, Scene, Size, Stretch
from tests.fake_kubelet import AdmissionFailed, Frame, Pod
from tests.waiting import NotYet, wait_until

DEEDS: Mapping[deeds.Deed, int] = {
    deeds.fatal_xid: 4,
    deeds.passing_xid: 3,
    deeds.instance_xid: 3,
    deeds.ecc: 1,
    deeds.remap: 2,
    deeds.recovery: 2,
    deeds.lose: 4,
    deeds.back: 6,
    deeds.unplug: 2,
    deeds.plug: 4,
    deeds.mig: 8,
    deeds.link: 2,
    deeds.fabric: 2,
    deeds.swap: 1,
    deeds.reset: 6,
    deeds.upgrade: 1,
    deeds.unload: 1,
    deeds.hang: 3,
    deeds.slow: 1,
    deeds.fail: 6,
    life.restart_kubelet: 4,
    life.kill_kubelet: 2,
    life.stop_kubelet: 2,
    life.replace_folder: 1,
    life.restart_often: 2,
    life.cut: 5,
    life.refuse: 1,
    life.look_on: 3,
    life.hang_up: 3,
    life.kill_plugin: 1,
    life.restart_plugin: 1,
    life.roll: 1,
    life.late_driver: 1,
    life.configure: 6,
    life.misconfigure: 2,
    life.admit: 10,
    life.delete: 3,
    life.ask_for_nothing_known: 2,
}
"""Weights."""
PAUSES = (0.0, 0.0, 0.01, 0.05, 0.2)
STRETCHES_TO_PRISTINE = 5
CALM = RESCAN * 3
"""Seconds for which all must agree: a scan and a reading have passed for certain."""
PATIENCE = 30.0
ROOM = Size(threads=3, files=3, tasks=1, rss=4.0)
"""What a process may use more after one churn: the pool for blocking calls fills up, connections come and go."""
CHURNS = 5


@dataclass
class Report:
    """What came of a walk."""

    seed: int
    steps: int = 0
    rests: int = 0
    deeds: dict[str, int] = field(default_factory=dict)
    sizes: list[Size] = field(default_factory=list)
    """At each rest in which everything was well."""
    slowest_rest: float = 0.0


def walk(
    home: Path, seed: int, seconds: float, *, steps: int | None = None, say: Callable[[str], None] = print
) -> Report:
    """Walks for so long (or so many steps).

    Raises:
        ChaosError: An invariant does not hold; the message says which, and the latest deeds.
    """
    report, history = Report(seed), list[str]()
    began = time.monotonic()

    def tell(line: str) -> None:
        history.append(f"{time.monotonic() - began:7.2f} {line}")
        say(history[-1])

    def over() -> bool:
        return report.steps >= steps if steps is not None else time.monotonic() - began >= seconds

    try:
        with Scene(home, seed, tell).open() as scene:
            try:
                _rest(scene, report)
                while not over():
                    _stretch(scene, report, seed)
                    pristine = report.rests % STRETCHES_TO_PRISTINE == 0 or over()
                    if pristine:
                        _mend(scene)
                    _rest(scene, report)
                    if pristine:
                        first = _weigh(scene)
                        report.sizes.append(first)
                        _churn(scene)
                        _rest(scene, report)
                        _compare(first, _weigh(scene))
            finally:
                (home / "everything.log").write_text(scene.log)
    except AssertionError as error:
        latest = "\n  ".join(history[-40:])
        raise ChaosError(
            f"{error}\nseed {seed}, step {report.steps}; replay with "
            f"`python -m tests.chaos --seed {seed} --steps {report.steps}`; the latest:\n  {latest}"
        ) from error
    return report


def _stretch(scene: Scene, report: Report, seed: int) -> None:
    length = random.Random(f"{seed}/stretch/{report.rests}").randrange(4, 12)
    for _ in range(length):
        report.steps += 1
        rng = scene.rng = random.Random(f"{seed}/{report.steps}")
        deed = rng.choices(list(DEEDS), list(DEEDS.values()))[0]
        words = deed(scene)
        scene.note()
        if words is not None:
            report.deeds[deed.__name__] = report.deeds.get(deed.__name__, 0) + 1
            scene.say(f"{report.steps:4d} {words}")
        _always(scene)
        _pause(rng.choice(PAUSES))


def _pause(seconds: float) -> None:
    """Time between two deeds, which is part of the walk: nothing is waited for."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, what="the end of a pause")


def _always(scene: Scene) -> None:
    """What must hold at any moment."""
    if not scene.plugin.running:
        raise ChaosError(f"the plugin has ended with {scene.plugin.wait()}:\n{scene.plugin.log[-3000:]}")
    if scene.kubelet.violations:
        raise ChaosError(f"the API was violated: {scene.kubelet.violations}")


def _mend(scene: Scene) -> None:
    """Everything is well again, by a driver that is loaded anew."""
    scene.configure(scene.settings)
    deeds.upgrade(scene)
    scene.note()
    for one in books(scene.fake).gpus:
        scene.touch(one)
        if not one.attached:
            scene.fake.plug(one.number)
        if one.lost:
            scene.fake.back(one.number)
        scene.fake.remap(one.number, "none")
        scene.note()
    scene.wounds.open.clear()
    scene.note()
    scene.drop_onlookers()
    scene.configure(Settings())
    scene.say("     everything is mended")
    scene.note()


def _rest(scene: Scene, report: Report) -> None:
    """Faults on calls end, and then all must agree."""
    scene.fake.clear()
    scene.fake.driver("present", force=True)
    scene.kubelet.faults.refuse_version = False
    scene.kubelet.faults.restarts_after_register = ()
    scene.raise_kubelet()
    scene.configure(scene.settings)
    scene.note()
    began = time.monotonic()
    wanted = _settle(scene)
    report.slowest_rest = max(report.slowest_rest, time.monotonic() - began - CALM)
    report.rests += 1
    _frames(scene)
    _streams(scene, wanted)
    _admissions(scene, wanted)
    _always(scene)
    if "Traceback" in scene.log:
        raise ChaosError(f"a traceback in the log:\n{scene.log[scene.log.index('Traceback') - 500 :][:4000]}")
    scene.wounds.rest(books(scene.fake))
    scene.stretch = Stretch()
    scene.note()


def _settle(scene: Scene) -> Lists:
    """Waits until kubelet, plugin and model agree, and go on agreeing for a while."""
    since: float | None = None

    def agreed() -> list[Lists] | NotYet:
        nonlocal since
        _always(scene)
        wanted = scene.lists
        wrong = list(_disagreements(scene, wanted))
        now = time.monotonic()
        since = None if wrong else since or now
        if since is not None and now - since >= CALM:
            return [wanted]
        return NotYet("\n  ".join(wrong or ["it keeps changing"]))

    try:
        settled = wait_until(agreed, timeout=PATIENCE, what="agreement after the rest", interval=0.02)
    except AssertionError as error:
        raise ChaosError(str(error)) from None
    assert isinstance(settled, list)
    return settled[0]


def _disagreements(scene: Scene, wanted: Lists) -> Iterator[str]:
    known, streams = scene.kubelet.resources, scene.kubelet.streams
    for name, listed in wanted.items():
        view = known.get(name)
        certain = any(one.certain for one in listed.values())
        devices = view.devices if view else {}
        if certain and (view is None or not view.stream_open or len(streams.get(name, [])) != 1):
            yield f"{name}: {len(streams.get(name, []))} streams, known: {view is not None}"
        missing = {id_ for id_, one in listed.items() if one.certain} - devices.keys()
        if missing:
            yield f"{name}: not listed: {sorted(missing)}"
        if more := devices.keys() - listed.keys():
            yield f"{name}: listed without being there: {sorted(more)}"
        for id_, one in listed.items():
            if id_ in devices and devices[id_].healthy != one.healthy:
                yield f"{name}: {id_} is {devices[id_].health}, the model says healthy={one.healthy}"
    for name, view in known.items():
        if name not in wanted and (view.healthy or streams.get(name)):
            yield f"{name}: should not be offered: {len(view.healthy)} healthy, {len(streams.get(name, []))} streams"
    yield from _own_word(scene)


def _own_word(scene: Scene) -> Iterator[str]:
    """What the plugin says of itself must fit; so it is known that it has seen a loss before the card is back."""
    status = scene.ask("status")
    if "gpus" not in status:
        yield f"no status: {status}"
        return
    if status["node"]["state"] != "ready":
        yield f"node {status['node']['state']}: {status['node']['detail']}"
    away = {one.gpu.uuid for one in books(scene.fake).gpus if not one.usable}
    for gpu in status["gpus"]:
        causes = {cause["reason"] for cause in gpu["causes"]}
        if gpu["uuid"] in away and not causes & {"lost", "vanished"}:
            yield f"GPU {gpu['index']}: its loss was not seen, only {sorted(causes)}"


def _frames(scene: Scene) -> None:
    """No list of the stretch was one that no world of the stretch could have made."""
    frames, scene.frames[:] = list(scene.frames), []
    worlds = scene.stretch.worlds
    for name, frame in frames:
        possible = [world.get(name, {}) for world in worlds]
        ids = {id_ for world in possible for id_ in world}
        if strange := {device.id for device in frame.devices} - ids:
            raise ChaosError(f"{name}: ids were listed that never were: {sorted(strange)}")
        for device in frame.devices:
            views = [world[device.id] for world in possible if device.id in world]
            calm = not any(view.card in scene.stretch.shaken for view in views)
            if calm and not any(view.healthy == device.healthy for view in views):
                raise ChaosError(f"{name}: {device.id} was listed {device.health} though nothing happened to it")
        _complete(scene, name, frame, possible)


def _complete(scene: Scene, name: str, frame: Frame, possible: list[Mapping[str, Listed]]) -> None:
    """What is there all the time is in every list, unless a process began while queries failed."""
    if scene.stretch.restarted and scene.stretch.blind:
        return
    always = set.intersection(*(set(world) for world in possible))
    listed = {device.id for device in frame.devices}
    certain = {id_ for id_ in always if all(world[id_].certain for world in possible)}
    if missing := certain - listed:
        raise ChaosError(f"{name}: a list left out {sorted(missing)}, which were there all the time")


def _streams(scene: Scene, wanted: Lists) -> None:
    """A stream of one's own shows what the kubelet was shown; so do onlookers that are still there."""
    for name in wanted:
        view = scene.kubelet.resources.get(name)
        if view is None or not view.endpoint:
            continue
        shown = {id_: device.health for id_, device in view.devices.items()}
        client = Client(scene.node.kubelet_folder / view.endpoint)
        mine = {device.ID: device.health for device in client.first_list().devices}
        sick = next((id_ for id_, one in wanted[name].items() if not one.healthy and id_ in shown), None)
        if mine != shown:
            raise ChaosError(f"{name}: two streams show different lists: {mine} and {shown}")
        for onlooker in scene.onlookers:
            same = not onlooker.ended and onlooker.endpoint == view.endpoint
            if same and onlooker.newest != shown:
                raise ChaosError(f"{name}: an onlooker was shown {onlooker.newest}, the kubelet {shown}")
        if sick is None:
            client.close()
        else:
            life.ask_in_vain(client, name, sick)


def _admissions(scene: Scene, wanted: Lists) -> None:
    """Pods get what is healthy and free."""
    for pod in list(scene.kubelet.pods):
        scene.kubelet.delete(pod)
    for name, listed in wanted.items():
        fit = sorted(id_ for id_, one in listed.items() if one.healthy)
        if not fit:
            continue
        scene.pods += 1
        pod = f"pod-{scene.pods}"
        try:
            grant = scene.kubelet.admit(Pod(pod, containers={"main": {name: len(fit)}}))["main"]
        except AdmissionFailed as error:
            raise ChaosError(f"{len(fit)} healthy {name} cannot be had at rest: {error}") from error
        if set(grant.ids[name]) != set(fit):
            raise ChaosError(f"{name}: given {sorted(grant.ids[name])}, healthy are {fit}")
        life.check_grant(scene, name, grant.ids[name], grant.envs)
        scene.kubelet.delete(pod)


def _churn(scene: Scene) -> None:
    """Everything that can be undone, done and undone some times in one life of the plugin."""
    card = scene.cards()[-1]
    for _ in range(CHURNS):
        scene.kubelet.restart()
        scene.configure(Settings(replicas=4, rename="shared"))
        scene.note()
        scene.touch(card)
        scene.fake.mig(card.number, ["3g.40gb", "3g.40gb"], force=True)
        scene.fake.recovery(card.number, 1)
        scene.note()
        scene.signal_up()
        scene.look_on(GPU)
        shared = f"nvidia.com/{scene.settings.rename}"
        wait_until(lambda: scene.node.health(shared)[0], what="the other resource", timeout=PATIENCE)  # noqa: B023
        scene.drop_onlookers()
        scene.fake.recovery(card.number, 0)
        scene.fake.mig(card.number, None, force=True)
        scene.configure(Settings())
        scene.note()
        scene.signal_up()
    scene.say(f"     done and undone {CHURNS} times")


def _weigh(scene: Scene) -> Size:
    size = scene.size()
    if size is None:
        raise ChaosError("the plugin does not answer on its local socket")
    scene.say(f"     all is well; {size}")
    return size


def _compare(first: Size, size: Size) -> None:
    """The same process in the same state uses what it used before."""
    for name, room in asdict(ROOM).items():
        if getattr(size, name) > getattr(first, name) + room:
            raise ChaosError(f"the plugin grew, {name}: {first} became {size}")
