"""`gpu-device-plugin health [live|ready]`: the exec probe, over the daemon's local socket."""

from __future__ import annotations

import argparse
import json
from typing import Any

from deviceplugin.cli.context import Context
from deviceplugin.model.errors import PluginError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the question and `--json`."""
    parser.add_argument(
        "question",
        nargs="?",
        choices=["live", "ready"],
        default="live",
        help="live: its own loops and sockets answer; ready: registered, streaming, and the driver usable",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Exit code 0 for yes, 1 for no; the reasons are printed."""
    reply = ask_daemon(context, {"ask": arguments.question})
    if arguments.json:
        print(json.dumps(reply, indent=2))
    else:
        print(f"{arguments.question}: {'yes' if reply['ok'] else 'no'}")
        for reason in reply["reasons"]:
            print(f"  {reason}")
    return 0 if reply["ok"] else 1


def ask_daemon(context: Context, request: dict[str, Any]) -> dict[str, Any]:
    """Asks the daemon of this configuration.

    Raises:
        PluginError: It does not answer, or answers an error.
    """
    from deviceplugin.web.local import ask

    path = context.loaded.config.daemon.control_socket
    if not path:
        raise PluginError("no control socket is configured (--control-socket), so there is nobody to ask")
    try:
        reply = ask(path, request)
    except OSError as error:
        raise PluginError(
            f"no plugin answers on {path} ({error.strerror or error}); is it running, and with this --control-socket?"
        ) from error
    if "error" in reply:
        raise PluginError(str(reply["error"]))
    return reply
