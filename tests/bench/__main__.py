"""`make bench`: every figure as a table. `BENCH_ARGS=prefer` runs one part."""

import argparse
import importlib
import os
import sys

from tests.bench.table import Row, as_text

PARTS = ("foundation", "prefer", "health", "strategies", "web")


def main() -> int:
    """Prints a table per part as it is done; the exit code does not depend on the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    arguments = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in arguments.parts or PARTS:
        if name not in PARTS:
            parser.error(f"no part {name!r}; choose of {', '.join(PARTS)}")
        rows: list[Row] = list(importlib.import_module(f"tests.bench.{name}").run())
        print(f"\n### {name}\n\n{as_text(rows)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
