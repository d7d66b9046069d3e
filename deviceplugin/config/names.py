"""Names that Kubernetes must accept: extended resources, and the key of the CDI annotation."""

from __future__ import annotations

import re

DOMAIN = "nvidia.com/"
CONFIG_LABEL = f"{DOMAIN}device-plugin.config"
"""The label of a node that names its configuration."""
LONGEST = 63
SHARED_SUFFIX = ".shared"

_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]*")
_ANNOTATION = "nvidia-device-plugin_"
_LONGEST_DOMAIN = 253


def qualify(name: str) -> str:
    """The resource's full name: without a domain it is NVIDIA's."""
    return name if "/" in name else DOMAIN + name


def resource_fault(name: str) -> str | None:
    """Why the kubelet would not take this full name as an extended resource, with the remedy; None if it would."""
    domain, _, short = name.partition("/")
    if "/" in short:
        return f'"{name}" has more than one "/"; write domain/name'
    if len(name) > LONGEST:
        return f'"{name}" has {len(name)} characters; shorten it to {LONGEST} or fewer'
    if not _DOMAIN.fullmatch(domain):
        return f'"{domain}" is no domain name (lower-case letters, digits, "-" and "."); write one such as nvidia.com'
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        return f'the domain of "{name}" belongs to Kubernetes itself; use another such as nvidia.com'
    if not _NAME.fullmatch(short):
        return (
            f'"{short}" is no resource name (letters, digits, "-", "_" and ".", beginning and ending with a letter '
            "or digit); rename it"
        )
    return None


def shared_name(name: str, rename: str | None, *, by_default: bool) -> str:
    """The name under which shares of `name` are offered (sharing.*.resources[].rename, renameByDefault)."""
    if rename:
        return rename
    return name + SHARED_SUFFIX if by_default else name


def annotation_fault(prefix: str) -> str | None:
    """Why `<prefix>nvidia-device-plugin_<unique>` is no annotation key; None if it is one."""
    domain, slash, start = prefix.partition("/")
    if not slash or "/" in start:
        return f'"{prefix}" must be a domain and one "/", such as cdi.k8s.io/'
    if not _DOMAIN.fullmatch(domain) or len(domain) > _LONGEST_DOMAIN:
        return f'"{domain}" is no domain name (lower-case letters, digits, "-" and "."); write one such as cdi.k8s.io/'
    # The unique part that follows takes 12 of the 63 characters.
    room = LONGEST - len(_ANNOTATION) - 12
    if start and (not _PREFIX.fullmatch(start) or len(start) > room):
        return f'"{start}" after the "/" must be at most {room} letters, digits, "-", "_" or "."; leave it out'
    return None
