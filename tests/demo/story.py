"""The acts of the demo. Each prints what an operator would look at, and checks that it is so."""

import json
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.fake_kubelet import AdmissionFailed, Admitted, Pod
from tests.node import FakeNode
from tests.waiting import wait_until

BOLD, DIM, GREEN, RED, PLAIN = (
    ("\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m") if sys.stdout.isatty() else ("",) * 5
)

LOADS = (0.34, 0.91, 0.88, 0.93, 0.9)
UNHEARD = "no GPU here has Xid events"
"""What the plugin says where health is judged by the states alone, as under WSL and on GB10."""


class Story:
    """One node's story. It adapts to the machine: a node without GPUs has a short one."""

    def __init__(self, node: FakeNode, *, keep: bool = False) -> None:
        self.node = node
        self.keep = keep
        self.began = time.monotonic()
        self.resource = ""

    def tell(self) -> None:
        """All acts in order."""
        self.topology()
        if not self.registration():
            return
        pods = list(self.admission())
        self.failure()
        self.recovery()
        self.restart()
        if self.keep:
            self.afterwards(pods)
        else:
            self.say("That was it: exit 0.")

    def act(self, title: str) -> None:
        """Prints a heading with the seconds since the beginning."""
        print(f"\n{BOLD}[{time.monotonic() - self.began:4.1f} s] {title}{PLAIN}", flush=True)

    def say(self, text: str) -> None:
        """Prints an indented paragraph."""
        print("\n".join(f"  {line}" for line in text.splitlines()), flush=True)

    def topology(self) -> None:
        """Act 1: the node."""
        self.act(f"The node: {self.node.machine}")
        self.say(self.node.command("topology", f"--driver=fake:{self.node.machine}").stdout.rstrip())

    def registration(self) -> bool:
        """Act 2: the plugin starts as its own process and registers."""
        self.act("The plugin starts and registers with the kubelet")
        began = time.monotonic()
        self.node.plugin.start()
        offered = self._offered()
        if not offered:
            socket = f"--control-socket={self.node.control_socket()}"
            wait_until(
                lambda: self.node.command("health", "ready", socket, check=False).returncode == 0, what="readiness"
            )
            self.say(self.node.plugin.log.rstrip())
            self.say("Nothing to offer: the plugin idles quietly, is ready, and keeps looking.")
            return False
        wait_until(lambda: set(offered) <= set(self.node.kubelet.resources), what="registration")
        wait_until(lambda: all(self.node.kubelet.resources[r].devices for r in offered), what="the first lists")
        self.say(f"all lists are there {1000 * (time.monotonic() - began):.0f} ms after the start:")
        for name in offered:
            view = self.node.kubelet.resources[name]
            self.say(f"{GREEN}{name}: {view.allocatable} of {view.capacity} healthy{PLAIN}")
        self.resource = max(offered, key=lambda name: (len(self.node.kubelet.resources[name].devices), name))
        return True

    @cache  # noqa: B019 - a story is told once
    def _offered(self) -> dict[str, Any]:
        """What the command line says would be offered."""
        strategy = self.node.arguments[0]
        done = self.node.command("resources", "--json", f"--driver=fake:{self.node.machine}", strategy)
        return dict(json.loads(done.stdout)["resources"])

    def admission(self) -> Iterator[Admitted]:
        """Act 3: pods come."""
        total = len(self.node.kubelet.resources[self.resource].healthy)
        self.act(f"Pods are admitted ({self.resource})")
        sizes = [1, total // 2] if total > 2 else [1]
        for number, size in enumerate(sizes):
            yield self._admit(f"{'notebook' if size == 1 else f'serving-tp{size}'}-{number}", size)
        pod = Pod(f"serving-tp{total}", containers={"main": {self.resource: total}})
        try:
            self.node.kubelet.admit(pod)
        except AdmissionFailed as refused:
            self.say(f"{RED}pod {pod.name} wants {total}: refused, {refused}{PLAIN}")
        else:
            raise AssertionError(f"{total} devices were given while pods hold some")

    def _admit(self, name: str, size: int) -> Admitted:
        admitted = self.node.kubelet.admit(Pod(name, containers={"main": {self.resource: size}}))
        grant = admitted["main"]
        self.say(f"{GREEN}pod {name} wants {size}: gets{PLAIN} {', '.join(sorted(grant.all_ids))}")
        for key, value in sorted(grant.envs.items()):
            self.say(f"    {DIM}{key}={value}{PLAIN}")
        for what, values in (("cdi", grant.cdi), ("mounts", grant.mounts), ("device nodes", grant.devices)):
            if values:
                self.say(f"    {DIM}{what}: {len(values)}{PLAIN}")
        return admitted

    def failure(self) -> None:
        """Act 4: a GPU falls ill."""
        view = self.node.kubelet.resources[self.resource]
        gpu = self._last_gpu()
        self.act(f"Xid 79 on GPU {gpu}: it has fallen off the bus")
        before, began, lines = len(view.healthy), time.monotonic(), len(self.node.plugin.log.splitlines())
        self.node.control("xid", str(gpu), "79")
        wait_until(lambda: len(self.node.kubelet.resources[self.resource].healthy) < before, what="an Unhealthy list")
        milliseconds = 1000 * (time.monotonic() - began)
        view = self.node.kubelet.resources[self.resource]
        self.say(f"{RED}{self.resource}: {view.allocatable} of {view.capacity} healthy{PLAIN} ({milliseconds:.0f} ms)")
        if not self._heard(79, lines):
            self.say(f"GPU {gpu} has no Xid events; that it is ill shows by what the driver asks for.")
        self.say(self._log_lines("unhealthy", lines))

    def recovery(self) -> None:
        """Act 5: the GPU is reset and comes back."""
        gpu, whole = self._last_gpu(), len(self.node.kubelet.resources[self.resource].devices)
        layout, lines = self._instances(gpu), len(self.node.plugin.log.splitlines())
        self.act(f"GPU {gpu} is reset: it comes back without a restart, once the driver shows that all is over")
        socket = f"--control-socket={self.node.control_socket()}"
        self.say(self._typed("gpu-device-plugin release") + self.node.command("release", socket).stdout.rstrip())
        played = "(played by the pretend driver; a real node with Xid 79 wants a reboot)"
        self.say(self._typed(f"nvidia-smi --gpu-reset -i {gpu}") + played)
        self.node.control("reset", str(gpu))
        if layout:
            self.say(self._typed(f"nvidia-smi mig -i {gpu} -cgi {layout} -C") + "(a reset ends all MIG instances)")
            self.node.control("mig", str(gpu), layout)
        self.say(
            self._typed(f"gpu-device-plugin release --end --reset {gpu}")
            + self.node.command("release", "--end", "--reset", str(gpu), socket).stdout.rstrip()
        )
        wait_until(lambda: self._shown() == (whole, whole), timeout=30, what="recovery")
        view = self.node.kubelet.resources[self.resource]
        self.say(f"{GREEN}{self.resource}: {view.allocatable} of {view.capacity} healthy{PLAIN}")
        self.say(self._log_lines(" is over", lines))

    def restart(self) -> None:
        """Act 6: a restart keeps ids, so the kubelet's books stay true."""
        self.act("The plugin is restarted: the same ids, the pods keep what they have")
        before = set(self.node.kubelet.resources[self.resource].devices)
        began = time.monotonic()
        frames = len(self.node.kubelet.resources[self.resource].frames)
        self.node.plugin.restart()
        wait_until(
            lambda: (
                len(self.node.kubelet.resources[self.resource].frames) > frames
                and self.node.kubelet.resources[self.resource].healthy
            ),
            what="the list after the restart",
        )
        after = set(self.node.kubelet.resources[self.resource].devices)
        assert before == after, (before, after)
        self.say(
            f"{GREEN}{len(after)} ids as before{PLAIN} ({1000 * (time.monotonic() - began):.0f} ms, stop included)"
        )

    def afterwards(self, pods: list[Admitted]) -> None:
        """Act 7, for those who go on looking: the pods compute, and a GPU that nobody holds falls ill."""
        held = {id_ for pod in pods for id_ in pod["main"].all_ids}
        cards = {int(gpu["index"]): not held.isdisjoint(gpu["ids"]) for gpu in self._offered()[self.resource]["gpus"]}
        self.act("The node lives on: pods compute")
        for turn, card in enumerate(card for card, busy in cards.items() if busy):
            self.node.control("load", str(card), str(LOADS[turn % len(LOADS)]), "--memory=0.8")
        idle = [card for card, busy in cards.items() if not busy]
        if idle:
            lines = len(self.node.plugin.log.splitlines())
            self.node.control("xid", str(idle[0]), "48")
            unheard = "" if self._heard(48, lines) else ", which it has no events for"
            self.say(f"{RED}GPU {idle[0]} has a double-bit ECC error: Xid 48{unheard}{PLAIN}")

    def _heard(self, xid: int, since: int) -> bool:
        """Waits until the log says why a GPU is ill; whether by its Xid, or by its states where there are no events."""

        def reason() -> str | None:
            told = self._log_lines("unhealthy", since)
            if f"reason=xid-{xid} " in told:
                return "xid"
            return "state" if "kind=state" in told and UNHEARD in self.node.plugin.log else None

        return wait_until(reason, what="a reason in the log") == "xid"

    def _last_gpu(self) -> int:
        return max(int(gpu["index"]) for gpu in self._offered()[self.resource]["gpus"])

    def _shown(self) -> tuple[int, int]:
        view = self.node.kubelet.resources[self.resource]
        return view.allocatable, view.capacity

    def _instances(self, gpu: int) -> str:
        """The GPU's MIG instances, in words of nvidia-smi; empty when it is not cut up."""
        done = self.node.command("resources", "--json", f"--driver=fake:{self.node.machine}", "--mig-strategy=mixed")
        profiles: list[str] = []
        for name, resource in json.loads(done.stdout)["resources"].items():
            cut, profile = "mig-" in name, name.rpartition("mig-")[2].replace(".me", "+me")
            profiles += [profile for card in resource["gpus"] if cut and card["index"] == gpu for _ in card["ids"]]
        return ",".join(sorted(profiles, reverse=True))

    def _typed(self, command: str) -> str:
        return f"{DIM}$ {command}{PLAIN}\n"

    def _log_lines(self, word: str, since: int) -> str:
        lines = [line for line in self.node.plugin.log.splitlines()[since:] if word in line and "GPU" in line]
        return "\n".join(f"{DIM}log: {line}{PLAIN}" for line in lines)
