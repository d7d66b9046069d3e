"""The plugin with its NVML calls counted: `python -m tests.bench.counted FILE serve ...`; SIGUSR1 writes the file."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import fake_nvml
from deviceplugin.cli import main


def run() -> int:
    """Serves, and counts."""
    target, words = Path(sys.argv[1]), sys.argv[2:]
    opened: list[fake_nvml.Fake] = []
    original = fake_nvml.open

    def counting(*arguments: Any, **more: Any) -> fake_nvml.Fake:
        opened.append(original(*arguments, **more))
        return opened[-1]

    def tell(_number: int, _frame: object) -> None:
        fresh = target.with_suffix(".new")
        fresh.write_text(json.dumps([dict(fake.calls) for fake in opened]))
        fresh.rename(target)

    fake_nvml.open = counting
    signal.signal(signal.SIGUSR1, tell)
    return main(words)


if __name__ == "__main__":
    sys.exit(run())
