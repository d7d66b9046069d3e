"""`make soak`: prints a line for each thing repeated; the exit code is 1 when something grew."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.soak.run import FULL, soak


def main() -> int:
    """Repeats all of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--part", action="append", choices=FULL, help="only this; may be given several times")
    parser.add_argument("--share", type=float, default=1.0, help="of the full numbers")
    arguments = parser.parse_args()
    chosen = arguments.part or list(FULL)
    times = {name: max(10, int(FULL[name] * arguments.share)) for name in chosen}
    grew = False
    with tempfile.TemporaryDirectory(prefix="soak") as home:
        for outcome in soak(Path(home), times):
            grew |= bool(outcome.grew)
            print(outcome, flush=True)
    return int(grew)


if __name__ == "__main__":
    sys.exit(main())
