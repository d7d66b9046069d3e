"""What a CDI specification may be (versions 0.3.0 to 0.8.0), as a JSON schema written from the specification's text."""

from typing import Any

_TEXTS = {"type": "array", "items": {"type": "string"}}
_PATH = {"type": "string", "pattern": "^/."}
_LABEL = "[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
_NODE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["path"],
    "properties": {
        "path": _PATH,
        "hostPath": _PATH,
        "type": {"enum": ["b", "c", "u", "p"]},
        "major": {"type": "integer"},
        "minor": {"type": "integer"},
        "fileMode": {"type": "integer", "minimum": 0, "maximum": 0o7777},
        "permissions": {"type": "string", "pattern": "^[rwm]{1,3}$"},
        "uid": {"type": "integer", "minimum": 0},
        "gid": {"type": "integer", "minimum": 0},
    },
}
_MOUNT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["hostPath", "containerPath"],
    "properties": {"hostPath": _PATH, "containerPath": _PATH, "options": _TEXTS, "type": {"type": "string"}},
}
_HOOK = {
    "type": "object",
    "additionalProperties": False,
    "required": ["hookName", "path"],
    "properties": {
        "hookName": {
            "enum": ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]
        },
        "path": _PATH,
        "args": _TEXTS,
        "env": {"type": "array", "items": {"type": "string", "pattern": "^[^=]+="}},
        "timeout": {"type": "integer", "minimum": 0},
    },
}
_EDITS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {
        "env": {"type": "array", "items": {"type": "string", "pattern": "^[^=]+="}, "minItems": 1},
        "deviceNodes": {"type": "array", "items": _NODE},
        "mounts": {"type": "array", "items": _MOUNT},
        "hooks": {"type": "array", "items": _HOOK},
    },
}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "required": ["cdiVersion", "kind", "devices"],
    "properties": {
        "cdiVersion": {"enum": ["0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0"]},
        "kind": {"type": "string", "pattern": f"^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/{_LABEL}$"},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "devices": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "containerEdits"],
                "properties": {
                    "name": {"type": "string", "pattern": "^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$"},
                    "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
                    "containerEdits": _EDITS,
                },
            },
        },
        "containerEdits": _EDITS,
    },
    "if": {"properties": {"cdiVersion": {"enum": ["0.3.0", "0.4.0"]}}},
    "then": {
        "properties": {
            "devices": {
                "items": {
                    "properties": {
                        "name": {"pattern": "^[A-Za-z]"},
                        "containerEdits": {
                            "properties": {"deviceNodes": {"items": {"not": {"required": ["hostPath"]}}}}
                        },
                    }
                }
            }
        }
    },
}
