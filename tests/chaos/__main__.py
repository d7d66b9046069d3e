"""`make chaos`; CHAOS_ARGS="--seed N --seconds S". The exit code is 1 when an invariant did not hold."""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.scene import ChaosError
from tests.chaos.walk import walk


def main() -> int:
    """Walks, and says what was done."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="default: another one each time; it is printed")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--steps", type=int, help="walk so many steps instead")
    parser.add_argument("--quiet", action="store_true", help="only the summary")
    arguments = parser.parse_args()
    seed = int.from_bytes(os.urandom(4)) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    home = Path(tempfile.mkdtemp(prefix="chaos"))
    say = (lambda _line: None) if arguments.quiet else (lambda line: print(line, flush=True))
    try:
        report = walk(home, seed, arguments.seconds, steps=arguments.steps, say=say)
    except ChaosError as error:
        print(f"FAILED: {error}\nlogs are in {home}", flush=True)
        return 1
    shutil.rmtree(home, ignore_errors=True)
    done = ", ".join(f"{name} {times}" for name, times in sorted(report.deeds.items()))
    print(f"seed {seed}: {report.steps} steps, {report.rests} rests (slowest {report.slowest_rest:.1f} s); {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
