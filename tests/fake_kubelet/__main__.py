"""A kubelet to try a plugin against by hand: commands on standard input, events on standard output."""

import argparse
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, get_args

from tests.fake_kubelet import VERSIONS, AdmissionFailed, FakeKubelet, Grant, Pod
from tests.fake_kubelet.topology import Policy

HELP = """\
pods                        pods and what they hold
resources                   devices and their health
streams                     open ListAndWatch streams
admit NAME RESOURCE=N ...   admit a pod of one container, main
start NAME                  start the pod's container again, from the stored answer
delete NAME                 delete a pod
cut RESOURCE                end the resource's stream from the kubelet's side
restart                     stop and start
kill                        end at once, socket files stay behind
quit                        end in order"""


def main() -> None:
    """Runs until `quit`, the end of standard input, or a signal."""
    options = _parser().parse_args()
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:9.3f}  {line}", flush=True)

    def leave(_number: int, _frame: object) -> NoReturn:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
    kubelet = FakeKubelet(
        options.folder,
        version=options.version,
        numa_policy=options.numa_policy,
        seed=options.seed,
        pod_resources=options.pod_resources,
        plugins_registry=options.plugins_registry,
        narrate=say,
    )
    try:
        with kubelet:
            for line in sys.stdin:
                if not obey(kubelet, line.split()):
                    break
    except KeyboardInterrupt:
        sys.exit(130)


def obey(kubelet: FakeKubelet, words: list[str]) -> bool:
    """Carries out one command line; False is the wish to end."""
    match words:
        case []:
            pass
        case ["quit"]:
            return False
        case ["kill"]:
            kubelet.kill()
            return False
        case ["restart"]:
            kubelet.restart()
        case ["admit", name, *wanted]:
            _try(lambda: _admit(kubelet, name, wanted))
        case ["start", name]:
            _try(lambda: _show(name, "main", kubelet.restart_container(name, "main")))
        case ["delete", name]:
            _try(lambda: kubelet.delete(name))
        case ["cut", resource]:
            _try(lambda: kubelet.cut_stream(resource))
        case ["pods"]:
            for name, admitted in kubelet.pods.items():
                for container, grant in admitted.containers.items():
                    _show(name, container, grant)
        case ["resources"]:
            _resources(kubelet)
        case ["streams"]:
            for streams in kubelet.streams.values():
                for stream in streams:
                    print(f"{stream.resource}  {stream.endpoint}  {stream.frames} lists")
        case _:
            print(HELP)
    sys.stdout.flush()
    return True


def _try(action: Callable[[], object]) -> None:
    try:
        action()
    except (AdmissionFailed, LookupError, ValueError) as error:
        print(f"no: {error}")


def _admit(kubelet: FakeKubelet, name: str, wanted: list[str]) -> None:
    sizes = {resource: int(size) for resource, _, size in (word.partition("=") for word in wanted)}
    admitted = kubelet.admit(Pod(name, containers={"main": sizes}))
    _show(name, "main", admitted["main"])


def _show(pod: str, container: str, grant: Grant) -> None:
    print(f"{pod}/{container}")
    for resource, ids in grant.ids.items():
        print(f"  {resource}: {' '.join(ids)}")
    for key, value in grant.envs.items():
        print(f"  {key}={value}")
    for mount in grant.mounts:
        print(f"  mount {mount.host_path} at {mount.container_path}{' read-only' * mount.read_only}")
    for spec in grant.devices:
        print(f"  device {spec.host_path} at {spec.container_path} {spec.permissions}")
    for key, value in grant.annotations.items():
        print(f"  annotation {key}={value}")
    for name in grant.cdi:
        print(f"  cdi {name}")
    for conflict in grant.conflicts:
        print(f"  conflict: {conflict}")


def _resources(kubelet: FakeKubelet) -> None:
    for resource, view in kubelet.resources.items():
        stream = f"streaming from {view.endpoint}" if view.stream_open else "no stream"
        print(f"{resource}: capacity {view.capacity}, allocatable {view.allocatable}, {stream}")
        for item in view.devices.values():
            numa = "" if item.numa is None else f"  NUMA {item.numa}"
            print(f"  {item.id}  {item.health}{numa}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fake_kubelet", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="the device plugin folder")
    parser.add_argument("--version", choices=sorted(VERSIONS), default="1.32", help="whose manners to show")
    parser.add_argument("--numa-policy", choices=get_args(Policy), help="the topology manager's policy")
    parser.add_argument("--seed", type=int, default=0, help="of the order of ids")
    parser.add_argument("--pod-resources", type=Path, help="socket of the pod resources API")
    parser.add_argument("--plugins-registry", type=Path, help="folder of the plugin watcher")
    return parser


if __name__ == "__main__":
    main()
