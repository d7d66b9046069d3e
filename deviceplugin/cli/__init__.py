"""The command line: argv and environment become settings here and nowhere else.

One module per subcommand, imported only when it is called: a subcommand costs what it needs. Each module has
`add_arguments(parser)` and `run(arguments, context) -> exit code`. Exit codes: 0, 1 runtime, 2 usage or configuration.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from pathlib import PurePath

SUBCOMMANDS = {
    "serve": ("serve", "Run the plugin (also without a subcommand)"),
    "resources": ("resources", "Print what this node would offer under this configuration"),
    "topology": ("topology", "Print or draw how close the GPUs are to each other"),
    "allocate": ("allocate", "Print which GPUs a request would get, and why"),
    "status": ("status", "Show a running plugin"),
    "health": ("health", "Ask a running plugin whether it is alive or ready (exec probe)"),
    "release": ("release", "Have a running plugin let go of the driver, or take it up again"),
    "labels": ("labels", "Publish or print node labels"),
    "cdi": ("cdi", "Write, print or remove the CDI specifications"),
    "mps": ("mps", "Run the MPS control daemons"),
    "config": ("config", "Print the effective configuration and where each value comes from"),
    "check-config": ("check_config", "Check a configuration file"),
    "config-schema": ("config_schema", "Print the JSON schema of the configuration file"),
    "version": ("version", "Print the version"),
}
"""Subcommand -> module and summary."""

PROGRAM_ALIASES = {
    "nvidia-device-plugin": "serve",
    "gpu-feature-discovery": "labels",
    "mps-control-daemon": "mps",
}
"""Names of upstream's programs: pods made for its image start here unchanged."""

OK, FAILED, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns the exit code; every expected error is one line per problem on stderr."""
    from deviceplugin.model.errors import ConfigError, PluginError

    program = PurePath(sys.argv[0]).name
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(program, words)
    except ConfigError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return USAGE
    except PluginError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # The reader has enough; what Python would still flush at exit has nowhere to go.
        sys.stderr.close()
        return OK
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130


def _dispatch(program: str, words: list[str]) -> int:
    name, rest = _choose(program, words)
    if name == "help" and rest:
        name, rest = rest[0], ["--help"]
    if name in {"--help", "-h", "help"}:
        print(_overview())
        return OK
    if name == "--version":
        name = "version"
    if name not in SUBCOMMANDS:
        return _unknown(name)

    if name == "serve":
        _wait_out_hangups()

    import argparse
    from importlib import import_module

    from deviceplugin.cli.context import Context
    from deviceplugin.config import options

    module = import_module(f"deviceplugin.cli.{SUBCOMMANDS[name][0]}")
    parser = argparse.ArgumentParser(
        prog=f"gpu-device-plugin {name}",
        description=SUBCOMMANDS[name][1] + ".",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    options.add_arguments(parser)
    arguments = options.parse(parser, rest)
    with Context(arguments) as context:
        code: int = module.run(arguments, context)
        sys.stdout.flush()
    return code


def _wait_out_hangups() -> None:
    """Has SIGHUP ignored until the daemon listens: what it asks for, a start does anyway."""
    import signal

    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _choose(program: str, words: list[str]) -> tuple[str, list[str]]:
    """The subcommand, and what is left for it: without one, the program's own name decides."""
    if words and (words[0] in {"--help", "-h", "help", "--version"} or not words[0].startswith("-")):
        if program in PROGRAM_ALIASES and words[0] not in SUBCOMMANDS and words[0] not in {"help", "--version"}:
            return PROGRAM_ALIASES[program], words
        return words[0], words[1:]
    return PROGRAM_ALIASES.get(program, "serve"), words


def _unknown(name: str) -> int:
    from difflib import get_close_matches

    near = get_close_matches(name, SUBCOMMANDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"one of: {', '.join(SUBCOMMANDS)}"
    print(f"error: unknown subcommand {name!r}; {hint}", file=sys.stderr)
    return USAGE


def _overview() -> str:
    width = max(map(len, SUBCOMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, (_, summary) in SUBCOMMANDS.items()]
    return "\n".join(
        [
            "usage: gpu-device-plugin [SUBCOMMAND] [OPTIONS]",
            "",
            "A Kubernetes device plugin for NVIDIA GPUs.",
            "",
            *lines,
            "",
            "Without a subcommand it serves, so the flags of NVIDIA's plugin work as they are.",
            "`gpu-device-plugin SUBCOMMAND --help` lists the options of each.",
        ],
    )
