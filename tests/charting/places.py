"""Values by their path (`daemon.rescanInterval`), and the variables that the chart makes of them one by one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import reduce
from typing import Any

import yaml

from tests.charting.helm import CHART


def nest(path: str, value: Any) -> dict[str, Any]:
    return reduce(lambda inner, key: {key: inner}, reversed(path.split(".")), value)


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    out = copy.deepcopy(dict(one))
    for key, value in other.items():
        known = out.get(key)
        out[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return out


def variables() -> dict[str, str]:
    """Value -> variable, as the chart writes them one by one."""
    text = (CHART / "templates" / "_environment.tpl").read_text()
    table: dict[str, str] = yaml.safe_load(text.split('"gdp.variables" -}}\n')[1].split("{{- end")[0])
    return table
