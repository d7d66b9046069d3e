import pytest

from deviceplugin.rules.identify import matches, matches_pci, mig_resource, pci_forms, share_id, split_id


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("GPU-1", ("GPU-1", None)),
        ("GPU-1::0", ("GPU-1", 0)),
        ("MIG-GPU-1/7/0::12", ("MIG-GPU-1/7/0", 12)),
        ("GPU-1::x", ("GPU-1::x", None)),
        ("GPU-1::", ("GPU-1::", None)),
        ("GPU-1::\u0663", ("GPU-1::\u0663", None)),
    ],
)
def test_an_id_splits_into_uuid_and_replica(identifier: str, parts: tuple[str, int | None]) -> None:
    assert split_id(identifier) == parts


@pytest.mark.parametrize("replica", [None, 0, 7, 100])
def test_ids_of_shares_split_into_what_they_were_made_of(replica: int | None) -> None:
    assert split_id(share_id("GPU-1", replica)) == ("GPU-1", replica)


@pytest.mark.parametrize(
    ("profile", "resource"),
    [
        ("1g.10gb", "nvidia.com/mig-1g.10gb"),
        ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("1g.10gb+me.all", "nvidia.com/mig-1g.10gb.me.all"),
        ("1g.10gb-me", "nvidia.com/mig-1g.10gb-me"),
        ("1g.5gb+gfx", "nvidia.com/mig-1g.5gb.gfx"),
    ],
)
def test_mig_resources_are_named_after_their_profile(profile: str, resource: str) -> None:
    assert mig_resource(profile) == resource


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("*", "anything", True),
        ("NVIDIA A100*", "NVIDIA A100-SXM4-40GB", True),
        ("NVIDIA A100", "NVIDIA A100-SXM4-40GB", False),
        ("*A100*", "NVIDIA A100-SXM4-40GB", True),
        ("*40GB", "NVIDIA A100-SXM4-40GB", True),
        ("A*0", "A100", True),
        ("A.00", "A100", False),
        ("1g.?gb", "1g.5gb", False),
        ("[A-Z]100", "A100", False),
        ("", "", True),
        ("", "A100", False),
    ],
)
def test_only_the_star_is_special_in_patterns(pattern: str, text: str, *, fits: bool) -> None:
    assert matches(pattern, text) is fits


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("00000000:83:00.0", ("00000000:83:00.0", "0000:83:00.0", "83:00.0")),
        ("83:00.0", ("00000000:83:00.0", "0000:83:00.0", "83:00.0")),
        ("0001FA0B:1B:00.0", ("0001fa0b:1b:00.0", "1fa0b:1b:00.0")),
        ("0000000F:01:00.0", ("0000000f:01:00.0", "000f:01:00.0")),
        ("GPU-1", ()),
    ],
)
def test_one_bus_id_is_written_in_several_ways(text: str, forms: tuple[str, ...]) -> None:
    assert pci_forms(text) == forms


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("0000:83:00.0", True),
        ("00000000:83:00.0", True),
        ("83:00.0", True),
        ("0000:8*", True),
        ("0000:9*", False),
        ("0000:AB:00.0", False),
    ],
)
def test_a_bus_id_is_matched_in_any_of_them(pattern: str, *, fits: bool) -> None:
    assert matches_pci(pattern, "00000000:83:00.0") is fits


def test_letters_of_a_bus_id_may_be_in_either_case() -> None:
    assert matches_pci("0000:AB:00.0", "00000000:ab:00.0")
    assert matches_pci("0000:ab:00.0", "00000000:AB:00.0")
