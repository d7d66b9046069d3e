"""Log lines: text for people, JSON for machines. What a line is about travels in `extra`, printed as key=value."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def facts(record: logging.LogRecord) -> dict[str, object]:
    """What the caller passed as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _when(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


class TextFormatter(logging.Formatter):
    """`2026-12-01T10:00:00.000Z INFO  kubelet.endpoint: registered resource=nvidia.com/gpu`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where one was logged."""
        room = record.name.removeprefix("deviceplugin.")
        line = f"{_when(record)} {record.levelname:<7} {room}: {record.getMessage()}"
        line += "".join(f" {key}={_word(value)}" for key, value in facts(record).items())
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, then the facts."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        document: dict[str, object] = {
            "time": _when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **facts(record),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


def _word(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(c.isspace() or c in '"=' for c in text) else text


def configure(log_format: str, level: str) -> None:
    """Sends all log lines to stderr in the given format (`text` or `json`) from the given level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    # These libraries narrate at INFO what our own lines already say.
    for noisy in ("asyncio", "watchdog", "grpc", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
