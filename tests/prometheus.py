"""A real Prometheus that scrapes given addresses every half second."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.ports import free_port
from tests.waiting import wait_until

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Prometheus:
    """Runs while its context is open.

    Args:
        folder: For configuration, rules, data and log.
        targets: What is scraped, `host:port`.
        rules: Rule groups, the `spec` of a PrometheusRule.
    """

    def __init__(self, folder: Path, targets: Sequence[str], rules: dict[str, Any]) -> None:
        self._folder = folder
        self._rules = rules
        self._targets = list(targets)

    def __enter__(self) -> Self:
        (self._folder / "rules.yaml").write_text(yaml.safe_dump(self._rules))
        settings = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "gpu", "static_configs": [{"targets": self._targets}]}],
        }
        configuration = self._folder / "prometheus.yaml"
        configuration.write_text(yaml.safe_dump(settings))
        port = free_port()
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={configuration}",
                    f"--storage.tsdb.path={self._folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )
        self._root = f"http://127.0.0.1:{port}"
        try:
            wait_until(self._ready, timeout=30, what="Prometheus")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait(20)

    def _ready(self) -> bool:
        try:
            with _OPENER.open(f"{self._root}/-/ready", timeout=5) as answer:
                return int(answer.status) == 200
        except OSError:
            return False

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an API answer."""
        words = urllib.parse.urlencode(parameters)
        with _OPENER.open(f"{self._root}/api/v1/{path}?{words}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Series of an instant query, each with `metric` and `value`."""
        return list(self.get("query", query=expression)["result"])

    def alerts(self) -> set[tuple[str, str]]:
        """Name and state of each alert that is pending or firing."""
        return {(one["labels"]["alertname"], one["state"]) for one in self.get("alerts")["alerts"]}
