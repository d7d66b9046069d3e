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
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
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
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            for line in sys.stdin:
                if not obey(kubelet, line.split()):
                    break
    except KeyboardInterrupt:
        sys.exit(130)


class Leave(Exception):  # noqa: N818 - a wish, not an error
    """The wish to end."""


def obey(kubelet: FakeKubelet, words: list[str]) -> bool:
    """Carries out one command line; False is the wish to end."""
    if not words:
        return True
    command = COMMANDS.get(words[0])
    try:
        if command is None:
            print(HELP)
        else:
            command(kubelet, words[1:])
    except Leave:
        return False
    except (AdmissionFailed, LookupError, ValueError) as error:
        print(f"no: {error}")
    sys.stdout.flush()
    return True


def _one(words: list[str]) -> str:
    if len(words) != 1:
        raise ValueError(f"this command takes one word, not {len(words)}")
    return words[0]


def _admit(kubelet: FakeKubelet, words: list[str]) -> None:
    if len(words) < 2:
        raise ValueError("this command takes a name and RESOURCE=N")
    name, *wanted = words
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


def _pods(kubelet: FakeKubelet, _words: list[str]) -> None:
    for name, admitted in kubelet.pods.items():
        for container, grant in admitted.containers.items():
            _show(name, container, grant)


def _start(kubelet: FakeKubelet, words: list[str]) -> None:
    _show(_one(words), "main", kubelet.restart_container(_one(words), "main"))


def _streams(kubelet: FakeKubelet, _words: list[str]) -> None:
    for streams in kubelet.streams.values():
        for stream in streams:
            print(f"{stream.resource}  {stream.endpoint}  {stream.frames} lists")


def _quit(_kubelet: FakeKubelet, _words: list[str]) -> NoReturn:
    raise Leave


def _kill(kubelet: FakeKubelet, _words: list[str]) -> NoReturn:
    kubelet.kill()
    raise Leave


def _resources(kubelet: FakeKubelet, _words: list[str]) -> None:
    for resource, view in kubelet.resources.items():
        stream = f"streaming from {view.endpoint}" if view.stream_open else "no stream"
        print(f"{resource}: capacity {view.capacity}, allocatable {view.allocatable}, {stream}")
        for item in view.devices.values():
            numa = "" if item.numa is None else f"  NUMA {item.numa}"
            print(f"  {item.id}  {item.health}{numa}")


COMMANDS: dict[str, Callable[[FakeKubelet, list[str]], None]] = {
    "pods": _pods,
    "resources": _resources,
    "streams": _streams,
    "admit": _admit,
    "start": _start,
    "delete": lambda kubelet, words: kubelet.delete(_one(words)),
    "cut": lambda kubelet, words: kubelet.cut_stream(_one(words)),
    "restart": lambda kubelet, _words: kubelet.restart(),
    "kill": _kill,
    "quit": _quit,
}


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
