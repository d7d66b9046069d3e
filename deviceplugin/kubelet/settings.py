"""Where the kubelet is and how patient an endpoint is with it; tests shorten the numbers."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from deviceplugin.config import document

DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")
KUBELET_SOCKET = "kubelet.sock"


class Backoff(Struct, frozen=True):
    """Growing pauses in seconds: nothing, then `first`, doubled each time up to `cap`, shortened by up to `jitter`."""

    first: float = 0.05
    cap: float = 30.0
    jitter: float = 0.3

    def pause(self, failures: int, chance: float) -> float:
        """Seconds to wait after `failures` failures in a row; `chance` in [0, 1) is the roll of the die."""
        if failures <= 0:
            return 0.0
        # Past 2**32 the cap has long been reached; the bound keeps the power finite.
        return float(min(self.cap, self.first * 2 ** min(failures - 1, 32)) * (1 - self.jitter * chance))


class EndpointSettings(Struct, frozen=True):
    """Settings of one endpoint; all times are seconds."""

    folder: Path = DEVICE_PLUGINS
    """Where the endpoint's own socket goes."""
    kubelet_socket: str | None = KUBELET_SOCKET
    """File name of the kubelet's socket in `folder`; None: serve without registering."""
    registration: document.Registration = document.Registration.SOCKET
    backoff: Backoff = Backoff()
    register_timeout: float = 5.0
    """For the kubelet's answer to Register."""
    stream_deadline: float = 5.0
    """From a successful Register to ListAndWatch."""
    stable: float = 60.0
    """A stream that lived this long wipes out the back-off."""
    contest_window: float = 1800.0
    """Three streams cut within this time by one kubelet are a sign of another plugin."""
    check_interval: float = 30.0
    """Between two calls of the own socket."""
    check_timeout: float = 2.0
    close_timeout: float = 0.1
    """For streams to end when the server closes."""
    settle: float = 0.05
    """Between the end of an own stream and the next Register, for the kubelet to digest the first."""
    cut_grace: float = 0.3
    """After another process with the same resource has gone, for the kubelet to cut our stream off if it is to."""
    rival_interval: float = 0.5
    """Between two looks whether another process with the same resource still lives."""
    sweep_grace: float = 1.0
    """A socket that refuses connections this long apart is a dead plugin's."""

    @classmethod
    def of(cls, kubelet: document.Kubelet) -> EndpointSettings:
        """The settings that the `kubelet` section asks for."""
        if kubelet.registration is document.Registration.WATCHER:
            return cls(folder=Path(kubelet.plugins_registry), kubelet_socket=None, registration=kubelet.registration)
        if not kubelet.socket:
            return cls(kubelet_socket=None)
        socket = Path(kubelet.socket)
        return cls(folder=socket.parent, kubelet_socket=socket.name)

    @property
    def kubelet_path(self) -> Path | None:
        """The kubelet's socket, if it is called at all."""
        return None if self.kubelet_socket is None else self.folder / self.kubelet_socket
