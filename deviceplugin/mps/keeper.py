"""Keeps the control daemon of one resource running and told what the configuration wants."""

from __future__ import annotations

import logging
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

from deviceplugin.model.errors import MpsError
from deviceplugin.model.mps import MpsPlan
from deviceplugin.mps import ready
from deviceplugin.mps.control import Control

log = logging.getLogger(__name__)

COMING_UP = 10.0
"""Seconds that a fresh daemon may take until it answers."""
GOING_DOWN = 5.0
"""Seconds that servers and clients may take when it is to end."""
LOOKS = 0.05
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0


class Keeper:
    """One daemon. Its methods block; none of them raises for what the daemon does: `tick` tries again.

    Args:
        resource: Whose daemon it is.
        control: Program and folder.
    """

    def __init__(self, resource: str, control: Control) -> None:
        self._resource = resource
        self._control = control
        self._process: subprocess.Popen[bytes] | None = None
        self._told: MpsPlan | None = None
        self._failures = 0
        self._again_at = 0.0

    def follow(self, plan: MpsPlan, config: str) -> None:
        """Has the daemon run as planned. One that runs is told anew, so that containers live on, where that is enough.

        Args:
            plan: What it is to be told.
            config: Hash of the configuration, for the ready file.
        """
        if time.monotonic() < self._again_at:
            return
        try:
            if self._told is not None and not self._alive():
                self._lost()
            if self._told is None:
                self._begin(plan, config)
            elif plan != self._told:
                self._change(plan, config)
        except (MpsError, OSError) as error:
            self._failed(error)

    def stop(self) -> None:
        """Ends the daemon with its servers; the ready file goes first."""
        ready.forget(self._control.folder)
        self._told = None
        with suppress(MpsError):
            self._control.ask(f"quit -t {GOING_DOWN:g}")
        process, self._process = self._process, None
        if process is None:
            return
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GOING_DOWN)
                log.info("%s: the control daemon ended", self._resource)
                return

    def _alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _lost(self) -> None:
        code = self._process.returncode if self._process else None
        self._told = self._process = None
        raise MpsError(f"the control daemon ended by itself, exit code {code}")

    def _begin(self, plan: MpsPlan, config: str) -> None:
        self.stop()  # what an earlier life left behind
        self._process = self._control.start()
        self._wait_for_answer()
        self._control.ask(*_defaults(plan))
        self._settled(plan, config)
        log.info(
            "%s: the control daemon runs",
            self._resource,
            extra={"pid": self._process.pid, "threads": f"{plan.thread_percentage:g}%", "folder": self._control.folder},
        )

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + COMING_UP
        while True:
            try:
                self._control.thread_percentage()
            except MpsError:
                if not self._alive() or time.monotonic() >= deadline:
                    raise
                time.sleep(LOOKS)
            else:
                return

    def _change(self, plan: MpsPlan, config: str) -> None:
        ready.forget(self._control.folder)
        if _lifts_a_limit(self._told, plan):
            log.warning(
                "%s: a limit of memory was lifted, which a running control daemon cannot be told: it is begun anew, "
                "and clients of the old one end",
                self._resource,
            )
            self._begin(plan, config)
            return
        self._control.ask(*_defaults(plan))
        for server in self._control.servers():
            self._control.ask(*_settings(plan, server))
        self._settled(plan, config)
        log.info("%s: the control daemon was told the new limits; they hold for clients to come", self._resource)

    def _settled(self, plan: MpsPlan, config: str) -> None:
        told = self._control.thread_percentage()
        if told != plan.thread_percentage:
            raise MpsError(
                f"the control daemon says {told:g} % of the threads after {plan.thread_percentage:g} % was set"
            )
        ready.write(self._control.folder, ready.Ready(plan, config))
        self._told, self._failures = plan, 0

    def _failed(self, error: Exception) -> None:
        self.stop()
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
        self._failures += 1
        self._again_at = time.monotonic() + pause
        log.warning("%s: %s; trying again in %g s, see %s/log", self._resource, error, pause, self._control.folder)


def _defaults(plan: MpsPlan) -> Iterator[str]:
    """Commands for servers that are begun later."""
    for device in plan.devices:
        if device.memory_mib is not None:
            yield f"set_default_device_pinned_mem_limit {device.index} {device.memory_mib}M"
    yield f"set_default_active_thread_percentage {plan.thread_percentage:g}"


def _settings(plan: MpsPlan, server: int) -> Iterator[str]:
    """Commands for a server that runs; they hold for clients that come from now on."""
    for device in plan.devices:
        if device.memory_mib is not None:
            yield f"set_device_pinned_mem_limit {server} {device.index} {device.memory_mib}M"
    yield f"set_active_thread_percentage {server} {plan.thread_percentage:g}"


def _lifts_a_limit(told: MpsPlan | None, plan: MpsPlan) -> bool:
    limited = {device.uuid for device in plan.devices if device.memory_mib is not None}
    return any(
        device.memory_mib is not None and device.uuid not in limited for device in (told.devices if told else ())
    )
