"""One resource's standing with the kubelet: whether and with whom it is registered, and what to say of failures."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from deviceplugin.config.document import Registration
from deviceplugin.kubelet import registration, sockets
from deviceplugin.kubelet.history import History
from deviceplugin.kubelet.observe import Observer
from deviceplugin.kubelet.registration import Failure, RegistrationError
from deviceplugin.kubelet.rivals import Rivals, neighbours
from deviceplugin.kubelet.settings import EndpointSettings
from deviceplugin.kubelet.watchdog import Identity

log = logging.getLogger(__name__)

_AT_ONCE = 0.05
"""Seconds of a pause that nobody needs to be told."""


class Registrar:
    """Registers one resource and keeps the books on it. All of it runs on the event loop."""

    def __init__(self, resource_name: str, settings: EndpointSettings, observer: Observer) -> None:
        self.resource_name = resource_name
        self.registered_with: Identity | None = None
        self.registered_at: float | None = None
        self.trouble = ""
        """The last complaint; empty when all is well."""
        self._settings = settings
        self._observer = observer
        self._history = History(settings, _chance)
        self._rivals = Rivals(settings.folder, resource_name)
        self._left_alone_at: float | None = None
        self._kubelet: Identity | None = None
        self._looked = False

    @property
    def not_before(self) -> float:
        """Back-off: nothing should be tried earlier (monotonic seconds)."""
        return self._history.not_before

    def look(self) -> Identity | None:
        """The kubelet's socket as it is now. A new one starts with a clean history."""
        path = self._settings.kubelet_path
        if path is None:
            return None
        now = sockets.identity(path)
        if now is None and (self._kubelet is not None or not self._looked):
            self._complain(registration.absent(path))
        if now is not None and now != self._kubelet:
            self._history.renewed()
        self._kubelet, self._looked = now, True
        return now

    @property
    def left_alone_at(self) -> float | None:
        """When a rival went, of which nothing came since; None when none did."""
        return self._left_alone_at

    @property
    def contested(self) -> bool:
        """Whether another process serves the same resource now."""
        return bool(self._rivals.present)

    def look_around(self, own: Path | None) -> None:
        """Looks for other processes that serve the same resource; `own` is this one's socket."""
        before = set(self._rivals.present)
        gone = self._rivals.look(own)
        come = [words for path, words in self._rivals.present.items() if path not in before]
        if come:
            log.info("%s: served by another process too: %s", self.resource_name, ", ".join(come))
        if gone:
            log.info("%s: no longer served by %s", self.resource_name, ", ".join(gone.values()))
            self._left_alone_at = time.monotonic()
            self._suspect(tuple(gone.values()))

    def forget(self) -> None:
        """What was registered no longer stands."""
        self.registered_with = self.registered_at = self._left_alone_at = None

    async def register(self, endpoint: str, kubelet: Identity) -> None:
        """Registers the socket with the file name `endpoint`; a failure is logged and sets the back-off."""
        path = self._settings.kubelet_path or self._settings.folder
        try:
            await registration.register(path, self.resource_name, endpoint, self._settings.register_timeout)
        except RegistrationError as error:
            self.failed(error)
        else:
            self._accepted(kubelet, endpoint)

    def told(self, endpoint: str, error: str | None) -> None:
        """The plugin watcher's word on the socket `endpoint`: taken when there is no error."""
        if error is None:
            self._accepted(None, endpoint)
        else:
            self._complain(RegistrationError(Failure.REFUSED, f"the kubelet refuses to register {endpoint}: {error}"))

    def failed(self, error: Exception) -> None:
        """An attempt to register or to serve failed: says so and sets the back-off."""
        pause = self._history.failed(time.monotonic())
        self._complain(error, f"; trying again in {pause:.2g} s")

    def remind(self) -> None:
        """Called now and then: what has long been missing is said again, ever more seldom."""
        path = self._settings.kubelet_path
        if path is not None and self._kubelet is None:
            self._complain(registration.absent(path))
        elif self._settings.registration is Registration.WATCHER and self.registered_at is None:
            folder = self._settings.folder
            self._complain(
                RegistrationError(Failure.SILENT, f"the kubelet is silent: it has not asked for the socket in {folder}")
            )

    def stream_opened(self) -> None:
        """The kubelet opened its stream."""
        self._history.opened(time.monotonic())
        self.trouble = ""

    def stream_lost(self) -> None:
        """The kubelet's stream ended, and not by us."""
        pause = self._history.lost(time.monotonic())
        again = "at once" if pause < _AT_ONCE else f"in {pause:.2g} s"
        log.info("%s: the kubelet's stream has ended; registering again %s", self.resource_name, again)

    def about_to_register(self, kubelet: Identity, *, streamed: bool) -> None:
        """Looks at why this is necessary: one kubelet that keeps ending or never opens the stream is noticed."""
        if self.registered_with != kubelet:
            return
        now = time.monotonic()
        if not streamed:
            self._history.unwatched(now)
            self._complain(
                RegistrationError(
                    Failure.UNWATCHED,
                    "the kubelet registered the plugin but did not ask for its devices (ListAndWatch) within "
                    f"{self._settings.stream_deadline:g} s; registering again",
                )
            )
        elif self._left_alone_at is None:
            self._suspect(())

    def _suspect(self, gone: tuple[str, ...]) -> None:
        """One more time the kubelet dropped us for no reason of its own: the third one is put down to a rival."""
        if not self._history.cut(time.monotonic()):
            return
        others = ", ".join(dict.fromkeys((*gone, *neighbours(self._settings.folder, self._settings.kubelet_socket))))
        self._observer.contested(self.resource_name, others)
        log.warning(
            "%s: taken away three times by a kubelet that did not restart: another plugin seems to register the same "
            "resource; other sockets in %s: %s. Run one of them only, or rename the resource",
            self.resource_name,
            self._settings.folder,
            others or "none",
        )

    def _accepted(self, kubelet: Identity | None, endpoint: str) -> None:
        self.registered_with, self.registered_at = kubelet, time.monotonic()
        failures = self._history.succeeded()
        self.trouble = ""
        self._observer.registered(self.resource_name)
        after = f" after {failures} failures" if failures else ""
        log.info("%s: registered with the kubelet as %s%s", self.resource_name, endpoint, after)

    def _complain(self, error: Exception, addition: str = "") -> None:
        kind = error.failure if isinstance(error, RegistrationError) else Failure.NOT_SERVED
        self.trouble = str(error)
        self._observer.registration_failed(self.resource_name, kind)
        if self._history.worth_saying(kind):
            log.warning("%s: %s%s", self.resource_name, error, addition)


def _chance() -> float:
    """A number in [0, 1); the `random` module costs more to import than the jitter is worth."""
    return os.urandom(1)[0] / 256
