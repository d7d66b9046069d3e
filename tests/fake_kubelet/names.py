"""Which resource names a kubelet takes."""

import re

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_QUOTA_PREFIX = "requests."
_MAX_DOMAIN = 253
_MAX_NAME = 63


def is_extended_resource_name(name: str) -> bool:
    """Whether `name` is `domain/name` outside kubernetes.io that also fits into a quota's `requests.<name>`."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith(_QUOTA_PREFIX):
        return False
    domain, _, rest = f"{_QUOTA_PREFIX}{name}".partition("/")
    return (
        len(domain) <= _MAX_DOMAIN
        and len(rest) <= _MAX_NAME
        and _SUBDOMAIN.fullmatch(domain) is not None
        and _NAME.fullmatch(rest) is not None
    )
