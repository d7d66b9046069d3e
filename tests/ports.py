"""Ports of the loopback: finding a free one, and reading the plugin's metrics from one."""

import random
import socket
import urllib.error
import urllib.request

from tests.waiting import NotYet, wait_until

# Below the range that Linux hands to outgoing connections by default: between the finding of a port and its use nobody
# is given it by chance.
_PORTS = range(18000, 32000)


def free_port() -> int:
    """A port of the loopback that nobody has, and that the kernel gives to nobody unasked."""
    while True:
        port = random.choice(_PORTS)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue


def scrape(address: str) -> str:
    """The metrics at `host:port`. Waits for the port: it opens after the first lists, apart from any other log line."""
    return wait_until(lambda: _metrics(address), what=f"metrics at {address}")


def _metrics(address: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            return NotYet(error)
        raise
