"""Where to listen: `host:port`, `[v6]:port` or `:port`."""

from __future__ import annotations

import re
import socket

from deviceplugin.model.errors import ConfigError

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\[\]:]*)):(?P<port>\d{1,5})")
BACKLOG = 64


def parse(address: str) -> tuple[str, int]:
    """Host (empty for all) and port.

    Raises:
        ConfigError: It is no address.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match["port"]) > 65535:  # noqa: PLR2004 - the largest port
        raise ConfigError(f"metrics.address: {address!r} is no address; write :9400, 127.0.0.1:9400 or [::1]:9400")
    return match["v6"] or match["host"] or "", int(match["port"])


def listen(address: str) -> socket.socket:
    """A listening socket: for all hosts one of both families where the kernel has IPv6, else of the host's family.

    Raises:
        ConfigError: It is no address.
        OSError: The address cannot be had.
    """
    host, port = parse(address)
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    flags = socket.AI_PASSIVE
    family, _, _, _, place = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)[0]
    return socket.create_server(place[:2], family=family, backlog=BACKLOG)
