from __future__ import annotations

import pytest

from deviceplugin.config.amounts import MemoryBound, parse_amount, parse_bound
from deviceplugin.config.durations import format_duration, parse_duration
from deviceplugin.config.names import annotation_fault, qualify, resource_fault, shared_name
from deviceplugin.config.wording import nearest, quote


@pytest.mark.parametrize(
    ("text", "seconds", "printed"),
    [
        ("60s", 60.0, "1m"),
        ("1m30s", 90.0, "1m30s"),
        ("1.5h", 5400.0, "1h30m"),
        (".5s", 0.5, "500ms"),
        ("1h0m1s", 3601.0, "1h1s"),
        ("1h0.25s", 3600.25, "1h0.25s"),
        ("+2ms", 0.002, "2ms"),
        ("1500us", 0.0015, "1500us"),
        ("1000001ns", 0.001000001, "1000001ns"),
        ("2\u00b5s998\u03bcs", 0.001, "1ms"),
        ("30000000000", 30.0, "30s"),
        ("0", 0.0, "0s"),
        ("0s", 0.0, "0s"),
    ],
)
def test_durations(text: str, seconds: float, printed: str) -> None:
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("60", "60 without a unit is 60 nanoseconds; write 60s for seconds"),
        ("5us", "5us is shorter than a millisecond; write 1ms or more"),
        ("-1s", "must not be negative, is -1s"),
        ("-1", "must not be negative, is -1"),
        ("1d", 'must be a duration such as 30s or 1m30s, is "1d"'),
        ("", 'must be a duration such as 30s or 1m30s, is ""'),
        ("1.5", 'must be a duration such as 30s or 1m30s, is "1.5"'),
        ("9999999h", 'is longer than 292 years: "9999999h"'),
        (f"{'9' * 400}s", f"is longer than 292 years: {quote('9' * 400 + 's')}"),
    ],
)
def test_no_durations(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message.replace('.', '[.]')}$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("8Gi", 8 << 30), ("500M", 500_000_000), ("1.5Ki", 1536), ("80 Gi", 80 << 30), ("7", 7), ("1T", 10**12)],
)
def test_amounts(text: str, amount: int) -> None:
    assert parse_amount(text) == amount


@pytest.mark.parametrize("text", ["", "Gi", "-1Gi", "8GB", "1e3", "8gi"])
def test_no_amounts(text: str) -> None:
    with pytest.raises(ValueError, match="must be an amount such as 8Gi"):
        parse_amount(text)


@pytest.mark.parametrize(
    ("text", "admitted", "refused"),
    [
        (">=80Gi", 80 << 30, (80 << 30) - 1),
        ("> 80Gi", (80 << 30) + 1, 80 << 30),
        ("<=1k", 1000, 1001),
        ("<1k", 999, 1000),
        ("=1k", 1000, 999),
        ("==1k", 1000, 1001),
    ],
)
def test_bounds(text: str, admitted: int, refused: int) -> None:
    bound = parse_bound(text)
    assert bound.admits(admitted)
    assert not bound.admits(refused)
    assert not bound.admits(None)


def test_a_bound_is_its_sign_and_bytes() -> None:
    assert parse_bound(">=1Ki") == MemoryBound(">=", 1024)
    with pytest.raises(ValueError, match='must be a comparison such as ">=80Gi" or "<24Gi", is "80Gi"'):
        parse_bound("80Gi")


def test_resource_names() -> None:
    assert qualify("gpu") == "nvidia.com/gpu"
    assert qualify("example.com/gpu") == "example.com/gpu"
    assert shared_name("nvidia.com/gpu", None, by_default=True) == "nvidia.com/gpu.shared"
    assert shared_name("nvidia.com/gpu", None, by_default=False) == "nvidia.com/gpu"
    assert shared_name("nvidia.com/gpu", "nvidia.com/x", by_default=True) == "nvidia.com/x"


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb.me", "a/B_c", f"nvidia.com/{'x' * 52}"])
def test_names_that_the_kubelet_takes(name: str) -> None:
    assert resource_fault(name) is None


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (f"nvidia.com/{'x' * 53}", "64 characters; shorten it to 63"),
        ("nvidia.com/", "is no resource name"),
        ("nvidia.com/-gpu", "is no resource name"),
        ("nvidia.com/mig-1g.10gb+me", "is no resource name"),
        ("/gpu", "is no domain name"),
        ("nvidia..com/gpu", "is no domain name"),
        ("node.kubernetes.io/gpu", "belongs to Kubernetes itself"),
    ],
)
def test_names_that_it_does_not(name: str, part: str) -> None:
    fault = resource_fault(name)
    assert fault
    assert part in fault


@pytest.mark.parametrize("prefix", ["cdi.k8s.io/", "cdi.k8s.io/gpu.", "localhost/"])
def test_annotation_prefixes(prefix: str) -> None:
    assert annotation_fault(prefix) is None


@pytest.mark.parametrize(
    ("prefix", "part"),
    [
        ("", 'must be a domain and one "/"'),
        ("cdi.k8s.io", 'must be a domain and one "/"'),
        ("a/b/", 'must be a domain and one "/"'),
        ("CDI/", "is no domain name"),
        (f"{'a' * 254}/", "is no domain name"),
        ("cdi.k8s.io/-", "must be at most 30 letters"),
        (f"cdi.k8s.io/{'a' * 31}", "must be at most 30 letters"),
    ],
)
def test_no_annotation_prefixes(prefix: str, part: str) -> None:
    fault = annotation_fault(prefix)
    assert fault
    assert part in fault


def test_wording() -> None:
    assert quote('a"\nb') == '"a\\"\\nb"'
    assert quote("x" * 50) == f'"{"x" * 37}..."'
    assert quote("x" * 50, None) == f'"{"x" * 50}"'
    assert nearest("MIGSTRATEGY", ["migStrategy", "mpsRoot"]) == "migStrategy"
    assert nearest("zzz", ["migStrategy"]) is None
